"""A file system's clock moves in ticks, and a change in the tick of the last look does not show in any time or size."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.files.change_watch import ChangeWatch
from engine.log.view.log_view import LogView
from tests.engine.log.folders import LogWriter, live_log, offsets_of

TIMES = 20

Change = Callable[[LogWriter, int], None]
Facts = Callable[[LogView], object]


@pytest.fixture(params=[40_000_000, 2_000_000_000], ids=["milliseconds", "whole seconds"])
def ticks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of all files and folders move in ticks, as on older kernels and file systems."""
    has_changed = ChangeWatch.has_changed
    length_ns = request.param

    def in_ticks(self: ChangeWatch, status: os.stat_result, now: float) -> bool:
        times = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
        for name in ("st_mtime_ns", "st_ctime_ns"):
            times[name] = times[name] // length_ns * length_ns
        return has_changed(self, os.stat_result(list(status), times), now)

    monkeypatch.setattr(ChangeWatch, "has_changed", in_ticks)


def roll(writer: LogWriter, number: int) -> None:
    writer.roll(index_interval=None)
    writer.append_records(b"%d" % number)


def drop_the_oldest(writer: LogWriter, number: int) -> None:
    roll(writer, number)
    roll(writer, number)
    min(writer.folder.glob("*.log")).unlink()


def rename_the_oldest(writer: LogWriter, number: int) -> None:
    roll(writer, number)
    oldest = min(writer.folder.glob("*.log"))
    oldest.rename(oldest.with_suffix(".log.deleted"))


def write_anew(writer: LogWriter, number: int) -> None:
    """The last batch is another one of the same size, as after a change of the leader."""
    size = len(writer.batches.pop())
    os.truncate(writer.records_file, writer.records_file.stat().st_size - size)
    writer.next_offset -= 1
    writer.append_records(b"%02d" % number, leader_epoch=number)
    assert len(writer.batches[-1]) == size


def write_anew_and_append(writer: LogWriter, number: int) -> None:
    write_anew(writer, number)
    writer.append_records(b"%02d" % number, leader_epoch=number)


def replace_the_high_watermark(writer: LogWriter, number: int) -> None:
    """Twice: the second file may get the inode of the one before the first."""
    writer.high_watermark(0)
    writer.high_watermark(number % 10)


def move_the_log_start(writer: LogWriter, number: int) -> None:
    writer.log_start(0)
    writer.log_start(number % 10)


def contents(view: LogView) -> object:
    epochs = [
        int(row["leader_epoch"]) for _, item in view.runs() for row in getattr(item, "table", ())
    ]
    return (
        view.base_offsets,
        view.log_start_offset,
        view.log_end_offset,
        view.high_watermark,
        [leftover.name for leftover in view.listing.leftovers],
        offsets_of(view),
        epochs,
    )


@pytest.mark.usefixtures("ticks")
@pytest.mark.parametrize(
    "change",
    [
        roll,
        drop_the_oldest,
        rename_the_oldest,
        write_anew,
        write_anew_and_append,
        replace_the_high_watermark,
        move_the_log_start,
    ],
)
def test_each_change_is_in_the_next_look(tmp_path: Path, change: Change) -> None:
    writer = LogWriter(tmp_path)
    for number in range(10):
        writer.append_records(b"%02d" % number)
    writer.high_watermark(0)
    followed = live_log(writer)
    followed.view()
    for number in range(TIMES):
        change(writer, number)
        assert contents(followed.view(max_age=0)) == contents(live_log(writer).view())
