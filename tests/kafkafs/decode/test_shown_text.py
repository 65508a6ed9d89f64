"""Names and sentences on their way to a terminal or into JSON."""

import json

import pytest
from hypothesis import given, strategies as st

from kafkafs.decode.shown_text import json_text, printable, printable_lines, valid_text


def test_letters_of_all_scripts_stay() -> None:
    for name in ("orders-0", "café münchen", "заказы", "注文", "a b", "weird\\x1b"):
        assert printable(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\nb\rc\td", r"a\x0ab\x0dc\x09d"),
        ("\u202egnp", r"\xe2\x80\xaegnp"),
        ("\u200bx\ufeff", r"\xe2\x80\x8bx\xef\xbb\xbf"),
        ("caf\udce9", r"caf\xe9"),
        ("\ud800", r"\xed\xa0\x80"),
        ("\x7f\x9b", r"\x7f\xc2\x9b"),
    ],
)
def test_what_could_drive_a_terminal_is_escaped(name: str, shown: str) -> None:
    assert printable(name) == shown


def test_lines_stay_lines() -> None:
    assert printable_lines("a\x1b\nb\n") == "a\\x1b\nb\n"


names = st.text(st.characters(exclude_categories=()))


@given(names)
def test_every_text_becomes_one_line_of_utf_8(name: str) -> None:
    shown = printable(name)
    assert shown.isprintable()
    assert shown.encode().decode() == shown


@given(names)
def test_json_of_every_text_is_valid_and_plain(name: str) -> None:
    text = json_text({name: [name, {"x": (name,)}]})
    assert text.isprintable()
    assert text.isascii()
    shown = valid_text(name)
    assert json.loads(text) == {shown: [shown, {"x": [shown]}]}
    shown.encode()
