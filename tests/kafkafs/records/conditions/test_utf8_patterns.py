"""A pattern on bytes finds the characters that the pattern on text finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from kafkafs.records.conditions.regex_automaton import automaton_of
from kafkafs.records.conditions.utf8_patterns import compile_pattern, sequences

PATTERNS = [
    ".", "a.", "[^a]", "[a-é]", "[^é]+b", r"\S+", "(a|é)+.", "^.", "é$", ".{2,3}b", "中?b", ".*b", "b.+?a", "[é中]{2}",
    r"\d.", "(?:.é)+", r"[^\n]b", "a[^b]*$", "(?P<x>.)b(?P=x)", "(?s:.)b", "(?<=é)b", "(?<!a)b", "b(?=中)", "(?i:É)b",
    "[Ä-ü]", r"\u00e9", "(.)?(?(1)b|é)",
]  # fmt: skip
texts = st.lists(st.sampled_from("aé中😀 bß\nZ1É"), max_size=8).map("".join)


@settings(max_examples=400)
@given(pattern=st.sampled_from(PATTERNS), text=texts)
def test_a_pattern_finds_in_utf_8_what_it_finds_in_text(pattern: str, text: str) -> None:
    expected, found = re.search(pattern, text), compile_pattern(pattern).search(text.encode())
    assert (None if found is None else found[0].decode()) == (
        None if expected is None else expected[0]
    )


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [
        ("Z.rich", "Zürich", True),
        ("Z..rich", "Zürich", False),
        ("[ü]", "Zürich", True),
        ("[^ü]rich", "Zürich", False),
        (r"\bcafé\b", "au café noir", True),
        (r"\bcaf\b", "café", False),
        (r"^\w+$", "Zürich_1", True),
        (r"\W", "é", False),
        (r"\u00ff", "ÿ", True),
        (r"\xff", "ÿ", False),
    ],
)
def test_characters_beyond_ascii(pattern: str, text: str, is_found: bool) -> None:
    compiled = compile_pattern(pattern)
    assert bool(compiled.search(text.encode())) is is_found
    automaton = automaton_of(compiled)
    assert automaton is not None
    assert automaton.accepts(text.encode()) is is_found


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [
        ("ZÜRICH", "zürich", True),
        ("[Ä-Ü]rich", "zürich", True),
        ("σ", "ς", True),
        ("привет", "ПРИВЕТ", True),
        ("[^É]", "é", False),
        ("[^a]", "A", False),
        ("lagos", "LaGoS", True),
        ("k", "\u212a", False),  # the Kelvin sign: letters of ASCII match each other alone
        ("straße", "STRASSE", False),  # no simple folding
    ],
)
def test_case_is_folded_beyond_ascii(pattern: str, text: str, is_found: bool) -> None:
    assert bool(compile_pattern(pattern, re.IGNORECASE).search(text.encode())) is is_found


def test_bytes_that_are_not_utf_8_are_found() -> None:
    assert compile_pattern("Z.rich").search("Zürich".encode("latin-1"))
    assert compile_pattern("^caf. au$").search("café au".encode("latin-1"))
    assert compile_pattern(r"\xff\xfe").search(b"a\xff\xfe")
    assert compile_pattern(r"^[\x80-\xff]{2}$").search("é".encode())
    assert compile_pattern("a\udcffb").search(b"a\xffb")  # as Python passes arguments on
    # A character that is broken off counts as one.
    assert compile_pattern("^a.b$").search(b"a\xe2\x82b")
    assert not compile_pattern("^a..b$").search(b"a\xe2\x82b")


@given(data=st.binary(max_size=6), pattern=st.sampled_from(["^.*$", "^[^q]*$", "(?s)^.$", "[^a]b"]))
def test_any_bytes_may_be_searched(data: bytes, pattern: str) -> None:
    found = compile_pattern(pattern).search(data) is not None
    if pattern.endswith("*$"):
        assert found or b"\n" in data or b"q" in data
    automaton = automaton_of(compile_pattern(pattern))
    assert automaton is not None
    assert automaton.accepts(data) is found


def test_patterns_of_ascii_stay_what_the_kernel_searches_quickly() -> None:
    assert compile_pattern("refund").pattern == b"refund"
    assert compile_pattern("Zürich").pattern == re.escape("Zürich".encode())


def test_the_sequences_of_a_range_are_its_characters() -> None:
    for first, last in ((0x80, 0x10FFFF), (0x41, 0xE000), (0x7F0, 0x812), (0xFFF0, 0x10010)):
        found = list(sequences(first, last))
        for code in {*range(first, min(last, first + 40)), *range(max(first, last - 40), last + 1)}:
            data = chr(code).encode("utf-8", "surrogatepass")
            fitting = [
                each
                for each in found
                if len(each) == len(data)
                and all(low <= byte <= high for byte, (low, high) in zip(data, each, strict=True))
            ]
            assert len(fitting) == 1, hex(code)
