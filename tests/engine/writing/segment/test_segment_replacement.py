"""Splitting and replacing segments, and what stays when a step of it fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from engine.disk.disk import DISK, Disk
from engine.log.log_segments import LogSegments
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import MAX_INT32, TopicPartition
from engine.writing.log.leftovers import clear_leftovers
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.segment_replacement import (
    create_new_cleaned_segment,
    replace_segments,
    split_overflowed_segment,
)
from engine.writing.segment.writable_segment import WritableSegment
from tests.clocks import MockClock, MockScheduler
from tests.crash.recording import Naming, RecordingDisk, everything, materialize

CONFIG = LogConfig(index_interval=100, max_index_size=120, file_delete_delay_ms=1000)


class NotingDisk(Disk):
    """Notes renames and synced folders, and fails the one that it is told to."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.fails_at: int | None = None

    def rename(self, old: Any, new: Any) -> None:
        self.note(f"{Path(old).name} -> {Path(new).name}")
        super().rename(old, new)

    def sync_folder(self, path: Any) -> None:
        self.note("sync")
        super().sync_folder(path)

    def note(self, step: str) -> None:
        if len(self.steps) == self.fails_at:
            raise OSError(errno.EIO, "failed")
        self.steps.append(step)


def folder_of(path: Path, clock: MockClock | None = None, disk: Disk = DISK) -> WritableLogFolder:
    clock = clock or MockClock()
    scheduler = MockScheduler(clock)
    return WritableLogFolder(path, TopicPartition("topic", 0), CONFIG, scheduler, clock, disk=disk)


class Around:
    """What a log has around its segments."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self.folder = folder
        self.noting = NotingDisk()
        self.disk = disk or self.noting
        self.clock = MockClock()
        self.log_folder = folder_of(folder, self.clock, self.disk)
        self.segments: LogSegments[WritableSegment] = LogSegments()

    def add(self, base: int, *offsets: int) -> WritableSegment:
        segment = WritableSegment.open(self.folder, base, CONFIG, self.clock, disk=self.disk)
        self.segments.add(segment)
        for offset in offsets:
            segment.log.append(batch_at(offset))
        return segment

    def cleaned(self, *offsets: int) -> WritableSegment:
        segment = create_new_cleaned_segment(self.log_folder, offsets[0])
        for offset in offsets:
            segment.append(offset, batch_at(offset))
        segment.on_become_inactive_segment()
        segment.flush()
        return segment

    def split(self, segment: WritableSegment) -> Any:
        return split_overflowed_segment(self.log_folder, self.segments, segment)

    def replace(self, new: list[WritableSegment], old: list[WritableSegment]) -> Any:
        return replace_segments(self.log_folder, self.segments, new, old)

    @property
    def records_files(self) -> list[str]:
        return [name for name in sorted(os.listdir(self.folder)) if ".log" in name]

    def offsets(self) -> list[int]:
        return [batch.last_offset for segment in self.segments for batch in segment.log.batches()]

    def close(self) -> None:
        for segment in self.segments:
            segment.close_handlers()


@pytest.fixture
def around(tmp_path: Path) -> Any:
    around = Around(tmp_path)
    yield around
    around.close()


def batch_at(offset: int) -> Any:
    return records_of(SimpleRecord(value=b"v" * 50, timestamp=offset % 1000), base_offset=offset)


FAR = [0, 5, MAX_INT32 + 1, MAX_INT32 + 7, 3 * 2**31]


def test_a_split_keeps_every_batch_and_leaves_no_offset_too_far(around: Around) -> None:
    segment = around.add(0, *FAR)
    data = Path(segment.log.path).read_bytes()
    Path(segment.log.path).touch()
    modified = segment.files.last_modified
    result = around.split(segment)
    assert [each.base_offset for each in result.new_segments] == [0, MAX_INT32 + 1, 3 * 2**31]
    assert list(around.segments) == result.new_segments
    assert result.deleted_segments == []
    assert b"".join(Path(each.log.path).read_bytes() for each in around.segments) == data
    assert not any(each.has_overflow() for each in around.segments)
    assert {each.files.last_modified for each in around.segments} == {modified}
    assert segment.files.has_suffix(".deleted")
    around.clock.sleep(CONFIG.file_delete_delay_ms + 1)
    assert segment.files.are_deleted
    assert around.records_files == [Path(each.log.path).name for each in around.segments]


def test_a_split_names_the_old_segment_when_no_new_one_takes_its_place(around: Around) -> None:
    segment = around.add(0, 3, MAX_INT32 + 5)
    assert segment.base_offset == 0
    result = around.split(segment)
    assert [each.base_offset for each in result.new_segments] == [3, MAX_INT32 + 5]
    assert result.deleted_segments == [segment]
    assert around.segments.base_offsets == [3, MAX_INT32 + 5]


def test_a_segment_without_overflow_is_not_split(around: Around) -> None:
    segment = around.add(0, 0, 1)
    with pytest.raises(ValueError, match="not too far apart"):
        around.split(segment)
    segment.files.change_suffixes("", ".swap")
    with pytest.raises(ValueError, match="not part of the log"):
        around.split(segment)
    assert around.records_files == ["00000000000000000000.log.swap"]


def test_files_are_renamed_from_the_end_on_and_each_step_is_synced(around: Around) -> None:
    old = [around.add(0, 0, 1), around.add(10, 10), around.add(20, 20)]
    new = [around.cleaned(0), around.cleaned(10)]
    around.noting.steps.clear()
    assert around.replace(list(reversed(new)), old) == [old[2]]
    renamed = [step for step in around.noting.steps if ".log" in step or step == "sync"]
    assert renamed == [
        "sync",
        "00000000000000000010.log.cleaned -> 00000000000000000010.log.swap",
        "sync",
        "00000000000000000000.log.cleaned -> 00000000000000000000.log.swap",
        "sync",
        "00000000000000000000.log -> 00000000000000000000.log.deleted",
        "00000000000000000010.log -> 00000000000000000010.log.deleted",
        "00000000000000000020.log -> 00000000000000000020.log.deleted",
        "sync",
        "00000000000000000000.log.swap -> 00000000000000000000.log",
        "sync",
        "00000000000000000010.log.swap -> 00000000000000000010.log",
        "sync",
    ]
    assert list(around.segments) == new
    assert around.offsets() == [0, 10]


def test_a_segment_that_was_removed_meanwhile_is_passed_over(around: Around) -> None:
    old = [around.add(0, 0), around.add(10, 10)]
    around.segments.remove(10)
    assert around.replace([around.cleaned(0)], old) == []
    assert not old[1].files.has_suffix(".deleted")
    old[1].close_handlers()


def test_a_split_that_cannot_be_written_leaves_nothing_behind(
    around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = around.add(0, *FAR)
    flush = WritableSegment.flush

    def failing(part: WritableSegment) -> None:
        if part.base_offset > MAX_INT32:
            raise OSError(errno.ENOSPC, "full")
        flush(part)

    monkeypatch.setattr(WritableSegment, "flush", failing)
    with pytest.raises(OSError, match="full"):
        around.split(segment)
    assert list(around.segments) == [segment]
    assert around.offsets() == FAR
    assert around.records_files == ["00000000000000000000.log"]


def test_no_failing_step_of_a_replacement_loses_a_batch(tmp_path: Path) -> None:
    """Whatever rename or sync fails: the old files are all there, or the new ones are."""
    step = 0
    while True:
        folder = tmp_path / str(step)
        folder.mkdir()
        around = Around(folder)
        segment = around.add(0, *FAR)
        data = Path(segment.log.path).read_bytes()
        around.noting.fails_at = step
        try:
            around.split(segment)
        except OSError:
            step += 1
        else:
            break
        finally:
            around.close()
            segment.close_handlers()
        contents = {name: (folder / name).read_bytes() for name in around.records_files}
        old = [content for name, content in contents.items() if name.startswith("0" * 20)]
        new = b"".join(
            content for name, content in contents.items() if not name.endswith(".deleted")
        )
        assert data in old or new == data
        if data not in old:
            assert not any(name.endswith(".cleaned") for name in contents)
    assert step > 15


def base_of(naming: Naming) -> str:
    place = naming.new or naming.old
    assert place is not None
    return place[1][:20]


def test_no_order_in_which_the_renames_of_a_split_reach_the_device_loses_a_batch(
    tmp_path: Path,
) -> None:
    """After any call: of one segment's names all are lost and the others' kept, or the other way round."""
    folder = tmp_path / "made"
    folder.mkdir()
    offsets = [5, MAX_INT32 + 1, 2 * 2**31, 4 * 2**31, 6 * 2**31]
    Around(folder).add(0, *offsets).close()
    data = (folder / "00000000000000000000.log").read_bytes()
    recording_disk = RecordingDisk(folder)
    around = Around(folder, recording_disk)
    around.split(around.add(0))
    around.close()
    recording = recording_disk.recording
    assert len(around.segments) == 4
    seen = 0
    for crash in range(recording.clock + 1):
        pending = recording.open_names(crash)
        for base in {base_of(each) for each in pending}:
            for is_kept in (True, False):
                seen += 1
                left = tmp_path / str(seen)
                kept = [each for each in pending if (base_of(each) == base) is is_kept]
                materialize(recording.tree(crash, kept.__contains__, everything), left)
                clear_leftovers(folder_of(left))
                assert records_in(left) == data, (recording.calls[:crash], base, is_kept)
    assert seen > 100


def records_in(folder: Path) -> bytes:
    """Those of all segments; without the one that begins at 0 if others have its batches."""
    contents = [path.read_bytes() for path in sorted(folder.glob("*.log"))]
    if len(contents) > 1 and contents[0] == b"".join(contents[1:]):
        del contents[0]
    return b"".join(contents)
