"""An automaton finds what `re` finds, and what it cannot find is left to `re`."""

from __future__ import annotations

import re
from types import ModuleType

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from engine.columns.columns import RECORD_ROW, Columns
from engine.columns.matching import Automaton, Fields
from kafkafs.records.conditions.regex_automaton import automaton_of
from tests.engine.kernel.kernels import KERNELS, each_kernel

leaves = st.sampled_from(
    ["a", "b", "A", "_", " ", ".", "[ab]", "[^a]", r"\d", r"\W", r"[\s\w]", r"\n", r"\xff", "^", "$", r"\b", r"\B", r"\A",
     r"\Z", "[^\\W_]", "[Y-b]", "[^Y-b]", "", "(?<=[ab])", "(?<!a)", r"(?=\w)", r"(?![b\n])", "(?!)"]
)  # fmt: skip


def more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??"])
    return (
        st.lists(inner, min_size=1, max_size=4).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda ways: f"(?:{'|'.join(ways)})")
        | st.tuples(inner, repeats).map(lambda each: f"(?:{each[0]}){each[1]}")
        | inner.map(lambda each: f"({each})")
        | st.tuples(st.sampled_from(["i", "s", "m", "-i", "-s"]), inner).map(
            lambda each: f"(?{each[0]}:{each[1]})"
        )
    )


patterns = st.recursive(leaves, more, max_leaves=8)
fields = st.lists(
    st.sampled_from([b"a", b"b", b"A", b"B", b"_", b" ", b"\n", b"7", b"\xff", b"Z", b"["]),
    max_size=8,
).map(b"".join)


def found(kernel: ModuleType, automaton: Automaton, texts: list[bytes]) -> list[bool]:
    """What a kernel says of each text as a value."""
    table = np.zeros(len(texts), RECORD_ROW.dtype)
    at = 0
    for row, text in zip(table, texts, strict=True):
        row["key_start"] = row["value_start"] = at
        row["key_size"], row["value_size"] = -1, len(text)
        at += len(text)
        row["headers_start"] = at
    columns = Columns(table, memoryview(b"".join(texts)), [], 0)
    marks = kernel.matching(columns, Fields.VALUE, automaton=automaton)
    return [bool(mark) for mark in marks]


@settings(max_examples=300)
@given(
    text=patterns,
    flags=st.sampled_from(
        [0, re.IGNORECASE, re.DOTALL, re.MULTILINE, re.MULTILINE | re.IGNORECASE]
    ),
    texts=st.lists(fields, min_size=1, max_size=12),
)
def test_an_automaton_finds_what_re_finds(text: str, flags: int, texts: list[bytes]) -> None:
    pattern = re.compile(text.encode("latin-1"), flags)
    automaton = automaton_of(pattern)
    assume(automaton is not None)
    assert automaton is not None
    expected = [pattern.search(each) is not None for each in texts]
    for kernel in KERNELS.values():
        assert found(kernel, automaton, texts) == expected


@pytest.mark.parametrize(
    "text",
    ["[0-9]{3}-x", "x.y", "^a.*b$", r"\b\w+@\w+\.com\b", "(?i)err(or)?", "a|b|cd", "(?s)^.*x", "(?m)^a$", "", r"\d+\s"],
)  # fmt: skip
def test_usual_patterns_have_an_automaton(text: str) -> None:
    automaton = automaton_of(re.compile(text.encode()))
    assert automaton is not None
    assert len(automaton.accepts_end) < 60


@pytest.mark.parametrize(
    "text",
    [r"(a)\1", "a(?=bc)", "(?<!ab)b", "a$b", "(?>a+)b", "a++b", "(?:a|b)*a(?:a|b){9}", "a{3000}", "(?L)\\w",
     "(?:){4000000000}", "(a)?(?(1)b|c)"],
)  # fmt: skip
def test_what_an_automaton_cannot_do_is_left_to_re(text: str) -> None:
    assert automaton_of(re.compile(text.encode())) is None


@each_kernel
def test_long_fields_are_searched_to_their_end(kernel: ModuleType) -> None:
    automaton = automaton_of(re.compile(rb"x[0-9]y\Z"))
    assert automaton is not None
    for size in range(40):
        texts = [b"-" * size + b"x1y", b"-" * size + b"x1", b"x1y" + b"-" * size, b"-" * size]
        assert found(kernel, automaton, texts) == [True, False, size == 0, False]


@each_kernel
def test_a_table_with_a_state_that_does_not_exist_is_refused(kernel: ModuleType) -> None:
    if kernel is not KERNELS["compiled"]:
        return
    bad = Automaton(np.full(512, 512, np.uint32), np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="a state of the automaton does not exist"):
        found(kernel, bad, [b"a"])
