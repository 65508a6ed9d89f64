"""Names of groups and transactional ids as file names."""

from __future__ import annotations

import pytest

from kafkafs.escaped_names import MOST_BYTES, escaped, name_of

ODD = [
    "", ".", "..", "...", "/", "a/b", "%", "%2F", "100%", "%~", "a\x00b", "line\nfeed", "\x1b[31mred",
    "\x7f", "\x85", "\u202egnirts", "\udcff\udcfe", "Gruppe-ä", "gruppe-ä", "ＡＢＣ",
    "é", "e\u0301", "\U0001f600", " ", " leading", "a" * 255, "ä" * 127, "-n", "~", "\u00a0", "\xad",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_a_name_comes_back_from_its_file_name(name: str) -> None:
    assert name_of(escaped(name), ()) == name


@pytest.mark.parametrize("name", ODD)
def test_a_file_name_is_one_that_a_file_can_have(name: str) -> None:
    shown = escaped(name)
    assert shown not in ("", ".", "..")
    assert "/" not in shown
    assert shown.isprintable()
    assert len(shown.encode()) <= MOST_BYTES


def test_plain_names_stay_as_they_are() -> None:
    for name in ("billing", "a.b_c-7", "connect-sink 2", "Zürich", "group@host:1", "..."):
        assert escaped(name) == name


def test_different_names_have_different_file_names() -> None:
    names = [*ODD]
    names += [f"{'x' * 300}{end}" for end in ("", "a", "b")]
    assert len({escaped(name) for name in names}) == len(names)


@pytest.mark.parametrize("name", ["a" * 256, "%" * 86, "ä" * 200, "\n" * 90, "x" * 32000])
def test_a_name_that_is_too_long_is_cut_and_found_by_comparing(name: str) -> None:
    shown = escaped(name)
    assert len(shown.encode()) <= MOST_BYTES
    assert name_of(shown, ["other", name]) == name
    assert name_of(shown, ["other"]) is None


@pytest.mark.parametrize(
    "file_name", ["%2f", "%41", "a%", "%%", "%GG", "%2", "a%2Eb", "%c3%a4", "%C3%A4"]
)
def test_what_is_not_the_one_file_name_of_a_name_is_none(file_name: str) -> None:
    assert name_of(file_name, ()) is None
