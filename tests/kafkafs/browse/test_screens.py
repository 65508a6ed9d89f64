"""Each screen as text, of a fixed size, after some keys; the texts are in screens/.

python -m tests.kafkafs.browse.test_screens     writes them anew
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from kafkafs.browse.explorer import HELP
from kafkafs.browse.lines import width_of
from tests.fixtures_data import copy_of, log_dir
from tests.kafkafs.browse.driven import driven

SCREENS = Path(__file__).parent / "screens"
WIDE, NARROW = (80, 24), (60, 16)
PAGE = "pagedown"

SAMPLE = {
    "topics": (WIDE, "", []),
    "topics-narrow": (NARROW, "", ["down"]),
    "partitions": (WIDE, "", ["enter"]),
    "partition": (WIDE, "", ["enter", "enter", "down"]),
    "partition-checked": (NARROW, "orders-0", ["c"]),
    "records": (WIDE, "orders-0", ["enter", "down", "down"]),
    "records-narrow": (NARROW, "orders-0", ["enter", PAGE]),
    "records-by-time": (WIDE, "orders-0", ["g", "type 2023-11-14T22:20:00Z"]),
    "records-found": (WIDE, "orders-0/records", ["/", "type Lagos", "n"]),
    "record": (WIDE, "orders-0/offset/35", []),
    "record-bytes": (NARROW, "orders-0/offset/35", ["x", "end"]),
    "control-record": (WIDE, "txn-0", ["enter", "end", "/", "type no such text", "N"]),
    "question": (NARROW, "orders-0", ["g", "2", "0"]),
    "help": (WIDE, "", ["?"]),
}
DAMAGED = {
    "damaged-topics": (WIDE, "orders", ["c"]),
    "damaged-partition": (WIDE, "orders-0", ["c"]),
    "damaged-records": (WIDE, "orders-0", ["g", "type 560"]),
    "damaged-record": (WIDE, "orders-0/offset/570", ["c"]),
}


def hurt_copy(folder: Path) -> Path:
    """The sample with one flipped bit in orders-0, which costs the offsets 568 to 579."""
    data = copy_of("sample", folder / "data")
    log = data / "orders-0" / f"{395:020}.log"
    content = bytearray(log.read_bytes())
    content[29000] ^= 1
    log.write_bytes(content)
    return data


def shown(name: str, folder: Path) -> str:
    size, path, keys = (SAMPLE | DAMAGED)[name]
    source = log_dir("sample") if name in SAMPLE else hurt_copy(folder)
    with driven(source, path, *size) as screen:
        text = screen.press(*keys) if keys else screen.draw()
    return text.replace(str(source), "SOURCE").replace(str(source)[-60:], "SOURCE")


def without_place(text: str) -> str:
    """A screen without the folder in its first line."""
    first, rest = text.split("\n", 1)
    return f"{first.split('  ')[0]}\n{rest}"


@pytest.mark.parametrize("name", SAMPLE | DAMAGED)
def test_a_screen_shows_what_its_snapshot_shows(name: str, tmp_path: Path) -> None:
    expected = (SCREENS / f"{name}.txt").read_text(encoding="utf-8")
    assert without_place(shown(name, tmp_path)) == expected


def test_each_snapshot_is_of_a_screen() -> None:
    assert {path.stem for path in SCREENS.iterdir()} == set(SAMPLE | DAMAGED)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("path", ["", "orders-0", "orders-0/records", "orders-0/offset/35"])
def test_a_line_is_as_wide_as_the_screen_and_never_wider(width: int, path: str) -> None:
    with driven(log_dir("sample"), path, width, 12) as screen:
        for keys in [], ["?"], ["back"], ["c"], ["g"]:
            screen.press(*keys) if keys else screen.draw()
            assert {width_of(line.text) for line in screen.explorer.lines(width, 12)} == {width}


def test_the_keys_of_the_help_do_what_it_says(tmp_path: Path) -> None:
    assert all(len(line) <= 72 for line in HELP.splitlines())
    with driven(log_dir("sample"), "orders-0/records") as screen:
        before = screen.draw()
        screen.press("y", "w", f"type {tmp_path}/out")
        assert screen.copied == [screen.saved[0][1][:-1]]
        assert screen.press("G").count("999") == 2  # the row, and the line below
        assert screen.press("down").splitlines()[-2] == "the end of the log"
        assert screen.press("home") == before
        screen.press("enter", ">", ">")
        assert screen.press("escape").splitlines()[-3].startswith("  2 of 0..1000")
        screen.press("q")
        assert screen.explorer.is_over


def test_without_colours_damage_is_marked_by_a_character(tmp_path: Path) -> None:
    for name in DAMAGED:
        if name != "damaged-record":
            lines = (SCREENS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
            assert any(line.startswith("! ") for line in lines), name


if __name__ == "__main__":
    for each in sys.argv[1:] or SAMPLE | DAMAGED:
        with tempfile.TemporaryDirectory() as made:
            text = without_place(shown(each, Path(made)))
        (SCREENS / f"{each}.txt").write_text(text, encoding="utf-8")
