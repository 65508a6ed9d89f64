"""What LocalLog does that Kafka's own tests of it leave out."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.broker.log.aborted_transactions import aborted_between
from engine.broker.log.local_log import LocalLog
from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import Disk
from engine.errors import LogDirFailureError, OffsetOutOfRangeError, StateError
from engine.index.transaction_index import AbortedTxn
from engine.log.log_segments import LogSegments
from engine.units import LogOffsetMetadata, TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.segment_files import log_path, time_index_path
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.completed_txn import CompletedTxn
from tests.clocks import MockClock, MockScheduler
from tests.conformance.local_logs import LocalLogSetUp, key_values
from tests.conformance.unified_log_steps import LogBench, append_many, append_plain, one
from tests.crash.recording import RecordingDisk


class BrokenDisk(Disk):
    """Refuses one kind of call once it is told to."""

    refuses = ""
    code = errno.EIO

    def sync_folder(self, path: Any) -> None:
        self.check("sync_folder")
        super().sync_folder(path)

    def rename(self, old: Any, new: Any) -> None:
        self.check("rename")
        super().rename(old, new)

    def open(self, path: Any, **how: Any) -> Any:
        self.check("open")
        return super().open(path, **how)

    def check(self, call: str) -> None:
        if self.refuses == call:
            raise OSError(self.code, call)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[LocalLogSetUp]:
    made = LocalLogSetUp(tmp_path, LogConfig(index_interval=0))
    yield made
    made.log.close_handlers()


def on_a_broken_disk(log_dir: Path) -> tuple[LocalLog, BrokenDisk]:
    disk, clock, folder = BrokenDisk(), MockClock(), log_dir / "topic-0"
    folder.mkdir()
    config = LogConfig()
    log = LocalLog(
        WritableLogFolder(
            folder, TopicPartition("topic", 0), config, MockScheduler(clock), clock, disk=disk
        ),
        LogSegments([WritableSegment.open(folder, 0, config, clock, disk=disk)]),
        0,
        LogOffsetMetadata(0, 0, 0),
    )
    return log, disk


def test_a_read_beyond_the_end_or_before_the_first_segment_is_refused(made: LocalLogSetUp) -> None:
    made.append_a(0)
    assert key_values(made.read(1)) == []
    with pytest.raises(OffsetOutOfRangeError, match="not 2"):
        made.read(2)
    made.log.truncate_fully_and_start_at(10)
    with pytest.raises(OffsetOutOfRangeError, match="not 9"):
        made.read(9)


def test_a_read_goes_on_in_the_next_segment_where_the_rest_of_one_is_gone(
    made: LocalLogSetUp,
) -> None:
    made.append_a(0)
    made.log.roll(5)  # offsets 1 to 4 were compacted away, say
    made.append_a(5)
    assert made.read(3).fetch_offset_metadata == LogOffsetMetadata(5, 5, 0)
    assert made.log.convert_to_offset_metadata(2) == LogOffsetMetadata(5, 5, 0)


def test_a_read_tells_the_aborted_transactions_that_touch_it(made: LocalLogSetUp) -> None:
    for offset in range(6):
        made.append_a(offset)
        made.log.segments.active_segment.update_txn_index(
            CompletedTxn(7, offset, offset, offset != 3), offset
        )
        if offset % 2:
            made.log.roll()
    end = made.log.log_end_offset_metadata

    def aborted(start: int, size: int) -> list[int] | None:
        found = made.log.read(start, size, True, end, True).aborted_transactions
        return None if found is None else [txn.first_offset for txn in found]

    assert made.log.read(0, 1, True, end).aborted_transactions is None
    assert aborted(0, 1) == [0]
    assert aborted(1, 1) == [1]
    assert aborted(2, 10_000) == [2]
    assert aborted(6, 1) == []
    collected = aborted_between(made.log.segments, 1, 1, 6)
    assert collected == [AbortedTxn(0, 7, each, each, each) for each in (1, 2, 4, 5)]
    assert aborted_between(made.log.segments, -1, 0, 6) == []


def test_what_lies_in_the_way_of_a_new_segment_is_removed(
    made: LocalLogSetUp, caplog: pytest.LogCaptureFixture
) -> None:
    made.append_a(0)
    for path in (log_path(made.folder, 1), time_index_path(made.folder, 1)):
        Path(path).write_bytes(b"left behind")
    assert made.log.roll().size == 0
    assert caplog.text.count("in the way") == 2
    made.append_a(1)
    assert key_values(made.read(1)) == [("", "a")]


def test_a_roll_into_an_existing_segment_changes_nothing(made: LocalLogSetUp) -> None:
    made.append_a(0)
    made.log.roll()
    made.append_a(1)
    made.log.update_log_end_offset(1)
    before = made.files
    with pytest.raises(StateError, match="cannot roll at 1"):
        made.log.roll()
    assert made.files == before


def test_the_recovery_point_does_not_stay_above_the_log_end(made: LocalLogSetUp) -> None:
    for offset in range(4):
        made.append_a(offset)
    made.log.flush(4)
    made.log.mark_flushed(4)
    assert made.log.recovery_point == made.log.log_end_offset
    made.log.mark_flushed(2)
    assert made.log.recovery_point == 4
    made.log.truncate_to(3)
    assert made.log.recovery_point == 3


def test_a_disk_that_fails_takes_the_log_dir_offline(tmp_path: Path) -> None:
    log, disk = on_a_broken_disk(tmp_path)
    log.segments.active_segment.flush()
    disk.refuses = "open"
    log.next_offset_metadata = LogOffsetMetadata(5, 0, 0)
    with pytest.raises(LogDirFailureError) as caught:
        log.roll()
    assert (caught.value.log_dir, caught.value.errno) == (str(tmp_path), errno.EIO)
    disk.refuses = ""
    with pytest.raises(LogDirFailureError, match="offline"):
        log.roll()
    assert log.segments.base_offsets == [0]
    assert log.folder.channel.take_next_offline_log_dir(0) == str(tmp_path)
    log.close_handlers()


def test_a_folder_that_was_renamed_is_known_by_its_new_name_whatever_follows(
    tmp_path: Path,
) -> None:
    log, disk = on_a_broken_disk(tmp_path)
    disk.refuses = "rename"
    with pytest.raises(LogDirFailureError):
        log.rename_dir("moved-0")
    assert log.folder.name == "topic-0"
    log.close_handlers()
    (tmp_path / "other").mkdir()
    log, disk = on_a_broken_disk(tmp_path / "other")
    disk.refuses = "sync_folder"
    with pytest.raises(LogDirFailureError):
        log.rename_dir("moved-0")
    assert log.folder.name == "moved-0"
    assert os.path.exists(log.segments.active_segment.log.path)
    log.close_handlers()


def test_a_flush_to_below_the_recovery_point_does_nothing(made: LocalLogSetUp) -> None:
    made.append_a(0)
    made.append_a(1)
    made.log.mark_flushed(2)
    made.log.flush(1)
    assert made.log.recovery_point == 2


def test_only_a_move_of_the_recovery_point_counts_as_a_flush(made: LocalLogSetUp) -> None:
    made.append_a(0)
    made.log.mark_flushed(1)
    flushed = made.clock.ms
    made.clock.sleep(5)
    made.log.mark_flushed(1)
    assert made.log.last_flush_time == flushed


def test_the_folder_of_a_log_with_open_files_is_not_removed(made: LocalLogSetUp) -> None:
    made.log.remove_and_delete_segments(list(made.log.segments), False, "a test")
    with pytest.raises(StateError, match="open"):
        made.log.delete_empty_dir()
    made.log.roll()
    made.log.close_handlers()
    with pytest.raises(StateError, match="has 1 segments"):
        made.log.delete_empty_dir()
    assert made.folder.exists()


def test_a_log_closed_without_a_flush_refuses_every_change(made: LocalLogSetUp) -> None:
    made.append_a(0)
    made.log.close_handlers()
    for change in (
        lambda: made.log.mark_flushed(1),
        lambda: made.log.roll(),
        lambda: made.log.truncate_fully_and_start_at(5),
        lambda: made.log.close(),
    ):
        with pytest.raises(StateError, match="are closed"):
            change()
    assert (made.log.recovery_point, made.log.log_end_offset) == (0, 1)
    assert made.log.segments.base_offsets == [0]


def test_a_roll_into_an_older_segment_is_refused_also_when_the_active_one_is_empty(
    made: LocalLogSetUp,
) -> None:
    made.append_a(0)
    made.log.roll(5)
    made.log.update_log_end_offset(0)
    with pytest.raises(StateError, match="cannot roll at 0"):
        made.log.roll()
    assert made.log.segments.base_offsets == [0, 5]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[UnifiedLog, list[str]]]:
    """A log of one record in each of three segments, all on the device, and the calls of its disk from now on."""
    disk, bench = RecordingDisk(tmp_path), LogBench(tmp_path)
    log = bench.log(disk=disk, segment_size=one().size)
    append_many(log, 3, lambda: one(timestamp=bench.now))
    log.flush()
    calls = disk.recording.calls
    calls.clear()
    yield log, calls
    log.close_handlers()


def test_the_folder_is_synced_by_the_first_flush_of_a_segment_only(
    watched: tuple[UnifiedLog, list[str]],
) -> None:
    log, calls = watched
    log.update_config(LogConfig())
    for has_new_segment in (False, True, False):
        if has_new_segment:
            log.local_log.roll()
        append_plain(log, 1)
        calls.clear()
        log.flush()
        assert ("sync folder topic-0" in calls) == has_new_segment


def test_a_segment_is_on_the_device_when_the_log_rolls_at_its_recovery_point(
    watched: tuple[UnifiedLog, list[str]],
) -> None:
    log, calls = watched
    indexes = [f"sync {2:020}.index", f"sync {2:020}.timeindex"]
    assert log.recovery_point == log.log_end_offset == 3
    log.local_log.roll()
    assert [call for call in calls if call in indexes] == indexes
    append_plain(log, 1)
    calls.clear()
    log.local_log.roll()
    assert not [call for call in calls if call.startswith("sync ")], "a later flush does it"


def test_a_cut_is_on_the_device_segment_by_segment_from_the_end(
    watched: tuple[UnifiedLog, list[str]],
) -> None:
    log, calls = watched
    log.local_log.truncate_to(0)
    assert [call.split(" to ")[0] for call in calls if "index" not in call] == [
        f"rename {2:020}.log",
        "sync folder topic-0",
        f"rename {1:020}.log",
        "sync folder topic-0",
        f"truncate {0:020}.log",
        f"sync {0:020}.log",
    ]


def test_a_log_that_starts_anew_is_on_the_device(watched: tuple[UnifiedLog, list[str]]) -> None:
    log, calls = watched
    log.local_log.truncate_fully_and_start_at(9)
    assert calls[-1] == "sync folder topic-0"


def test_a_flush_of_a_folder_that_is_renamed_meanwhile_succeeds(tmp_path: Path) -> None:
    log, disk = on_a_broken_disk(tmp_path)
    disk.refuses, disk.code = "sync_folder", errno.ENOENT
    log.update_log_end_offset(1)
    log.flush(1)
    disk.code = errno.EIO
    with pytest.raises(OSError, match="sync_folder"):
        log.flush(1)
    log.close_handlers()
