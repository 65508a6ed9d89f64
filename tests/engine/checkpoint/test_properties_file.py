"""engine.checkpoint.properties_file: Java's properties format."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from engine.checkpoint.properties_file import parse_properties, render_properties, required_int
from engine.errors import CorruptCheckpointError, LimitExceededError


def escaped(text: str) -> str:
    """The text as Properties.store writes it: safe in a key and in a value."""
    special = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    special |= {mark: "\\" + mark for mark in " =:#!"}
    return "".join(
        special.get(each, each if " " <= each <= "~" else f"\\u{ord(each):04x}") for each in text
    )


basic = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(basic, basic), st.sampled_from(["=", ":", " ", " = ", "\t:\f"]))
def test_what_java_stores_is_read(properties: dict[str, str], between: str) -> None:
    text = "#\n#Sat Nov 21 04:38:41 UTC 2026\n"
    text += "".join(f"{escaped(k)}{between}{escaped(v)}\n" for k, v in properties.items())
    if between.isspace():  # an empty key cannot be told from a line that begins with blanks
        properties = {key: value for key, value in properties.items() if key}
        text = "".join(f"{escaped(k)}{between}{escaped(v)}\n" for k, v in properties.items())
    assert parse_properties(text.encode("iso-8859-1")) == properties


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"\n\n  \t\n# a=1\n  ! b=2\n", {}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"  a  =  1  ", {"a": "1  "}),
        (b"a b c", {"a": "b c"}),
        (b"a==b", {"a": "=b"}),
        (b"a = = b", {"a": "= b"}),
        (b"a", {"a": ""}),
        (b"a=", {"a": ""}),
        (b"=1", {"": "1"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=x\\\n   y\\\n\tz", {"a": "xyz"}),
        (b"a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        (b"a=x\\\r\n  # not a comment", {"a": "x# not a comment"}),
        (b"a=x\\\n\nb=1", {"a": "x", "b": "1"}),
        (b"a=x\\", {"a": "x"}),
        (b"a\\ b\\=c=1", {"a b=c": "1"}),
        (b"a=\\u0041\\u00e9\\q\\t", {"a": "Aéq\t"}),
        (b"a=\xe9", {"a": "é"}),
        (b"node.id=1\nversion=1\n", {"node.id": "1", "version": "1"}),
    ],
)
def test_lines_are_split_as_java_splits_them(data: bytes, expected: dict[str, str]) -> None:
    assert parse_properties(data) == expected


@pytest.mark.parametrize("data", [b"a=1\nb=\\u00", b"a=1\nb=\\u00zz", b"a=1\n\\u=2"])
def test_a_malformed_escape_is_corrupt_at_its_line(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_properties(data, path="meta.properties")
    assert (caught.value.line, caught.value.path) == (2, "meta.properties")


@pytest.mark.parametrize("line", [b"a=1\n", b"\\\n", b"\n", b"# none\n", b"\r"])
def test_a_file_of_millions_of_lines_is_not_read_to_its_end(line: bytes) -> None:
    with pytest.raises(LimitExceededError, match="too many lines"):
        parse_properties(line * 1_000_000)


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse_properties(data)
    except CorruptCheckpointError:
        assert b"\\u" in data


def test_a_required_number_is_there() -> None:
    assert required_int({"a": "-5"}, "a") == -5
    for properties in ({}, {"a": ""}, {"a": "x"}, {"a": "2147483648"}, {"a": " 1"}):
        with pytest.raises(CorruptCheckpointError):
            required_int(properties, "a")


@given(
    st.dictionaries(
        st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1),
        st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])),
    )
)
def test_what_is_rendered_is_read(properties: dict[str, str]) -> None:
    assert parse_properties(render_properties(properties)) == properties


def test_what_java_must_not_take_for_syntax_is_escaped() -> None:
    rendered = render_properties({" a b": " x y", "#k": "1=2:3!\\", "é": "\U0001f600\t"})
    assert rendered == (b"#\n\\ a\\ b=\\ x y\n\\#k=1\\=2\\:3\\!\\\\\n\\u00E9=\\uD83D\\uDE00\\t\n")
