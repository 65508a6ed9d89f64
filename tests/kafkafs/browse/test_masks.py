"""A masked field reaches no screen, no clipboard and no file; a search sees masked lines alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafkafs.browse.driven import Driven, driven
from tests.kafkafs.masked_source import CANARY, found_in, write_source, written_policy


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked") / "data"
    write_source(folder)
    return folder


@pytest.fixture(scope="module")
def mask(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written_policy(tmp_path_factory.mktemp("policy"))


def walk(screen: Driven) -> list[str]:
    """Each screen of a partition, and what it copies and writes."""
    shown = [screen.draw(), screen.press("c"), screen.press("enter")]
    for _ in range(30):
        shown += [
            screen.press("y", "w", "type out"),
            screen.press("enter"),
            screen.press("x"),
            screen.press("end"),
        ]
        shown += [
            screen.press("pageup"),
            screen.press("y"),
            screen.press("c"),
            screen.press("back"),
        ]
        shown.append(screen.press("down"))
    shown += [screen.press("end"), screen.press("/", f"type {CANARY}"), screen.press("N")]
    shown += [screen.press("home"), screen.press("n"), screen.press("back")]
    return shown


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_no_screen_shows_what_a_mask_hides(source: Path, mask: str, size: tuple[int, int]) -> None:
    with driven(source, "customers-0", *size, mask=mask) as screen:
        shown = walk(screen)
        for text in [
            *(each.encode() for each in shown),
            *screen.copied,
            *(data for _, data in screen.saved),
        ]:
            assert found_in(text) == []
        assert screen.copied
        assert screen.saved
        assert any("the mask hides" in text for text in shown)


def test_without_the_mask_the_same_walk_shows_it(source: Path) -> None:
    with driven(source, "customers-0", 200, 60) as screen:
        assert any(found_in(text.encode()) for text in walk(screen))


def test_a_search_says_nothing_about_what_a_mask_hides(source: Path, mask: str) -> None:
    with driven(source, "customers-0/records", mask=mask) as screen:
        before = screen.draw().splitlines()
        after = screen.press("/", f"type {CANARY}").splitlines()
        assert after[-2] == "no other record matches in this direction"
        assert after[:-2] == before[:-2]
        assert "found at offset" in screen.press("/", "type open").splitlines()[-2]


def test_a_check_of_masked_records_is_refused(source: Path, mask: str) -> None:
    with driven(source, "customers-0", mask=mask) as screen:
        assert "which the mask hides" in screen.press("c")
        assert not screen.session.partitions["customers-0"].is_checked
