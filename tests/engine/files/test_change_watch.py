"""What was read may be old until a tick of the file system's clock has passed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.clock import SYSTEM_CLOCK
from engine.files.change_watch import ChangeWatch

SECOND_NS = 1_000_000_000


def status(path: Path, *, modified_ns: int, changed_ns: int) -> os.stat_result:
    real = os.stat(path)
    times = {name: getattr(real, name) for name in dir(real) if name.startswith("st_")}
    times |= {"st_mtime_ns": modified_ns, "st_ctime_ns": changed_ns}
    return os.stat_result(list(real), times)


def now_ns() -> int:
    return SYSTEM_CLOCK.now_ms() * 1_000_000


@pytest.mark.parametrize(
    ("part_of_second_ns", "tick"), [(4_000_000, 0.05), (0, 2.05)], ids=["fine", "whole seconds"]
)
def test_what_just_changed_is_read_at_each_look_until_a_tick_has_passed_and_once_after_it(
    tmp_path: Path, part_of_second_ns: int, tick: float
) -> None:
    recent = now_ns() // SECOND_NS * SECOND_NS + part_of_second_ns
    seen = status(tmp_path, modified_ns=recent, changed_ns=recent)
    watch = ChangeWatch()
    looks = [watch.has_changed(seen, tick * part) for part in (0, 0.1, 0.9, 1.5, 1.6, 100)]
    assert looks == [True, True, True, True, False, False]
    assert not watch.replaced


def test_what_changed_long_ago_is_read_once(tmp_path: Path) -> None:
    old = now_ns() - 25 * 3600 * SECOND_NS
    watch = ChangeWatch()
    looks = [
        watch.has_changed(status(tmp_path, modified_ns=old, changed_ns=old), at) for at in (0, 9)
    ]
    assert looks == [True, False]


def test_a_change_whose_time_was_set_back_shows_in_the_other_time(tmp_path: Path) -> None:
    """As rsync and tar do: the time of modification is the one from before."""
    old = now_ns() - 25 * 3600 * SECOND_NS
    watch = ChangeWatch()
    watch.has_changed(status(tmp_path, modified_ns=old, changed_ns=old), 0)
    assert watch.has_changed(status(tmp_path, modified_ns=old, changed_ns=old + 1), 9)


def test_another_file_of_the_same_name_is_told(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.touch()
    two.touch()
    watch = ChangeWatch()
    told = []
    for path in (one, two, two, one):
        watch.has_changed(os.stat(path), 0)
        told.append(watch.replaced)
    assert told == [False, True, False, True]
