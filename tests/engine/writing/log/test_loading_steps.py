"""The steps of the loading: which segments are checked and recovered when, and what of it is on the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import DISK, Disk, WritableFile
from engine.files.file_names import (
    log_file_name,
    offset_index_name,
    time_index_name,
    transaction_index_name,
)
from engine.index.transaction_index import AbortedTxn
from engine.record.encoding.building import records_of
from engine.units import MAX_INT32, MAX_INT64
from engine.writing.log_config import LogConfig
from engine.writing.state.snapshot_file import read_snapshot
from tests.conformance.unified_log_steps import (
    ABORT,
    LogBench,
    aborted_transactions,
    all_records,
    append_plain,
    end_txn,
    of_producer,
    one,
    producer,
    rec,
)
from tests.crash.recording import RecordingDisk

CONFIG = LogConfig(segment_size=400, index_interval=100, max_index_size=240)


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path)


def written(bench: LogBench, count: int = 20) -> list[int]:
    """A log of several segments that is closed; the base offsets of its segments."""
    with bench.open(CONFIG) as log:
        for number in range(count):
            log.append_as_leader(one(f"value {number}", bench.now + number), 0)
        bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 3
    return bases


def remove(bench: LogBench, *names: str) -> None:
    for name in names:
        (bench.folder / name).unlink()


# Missing and damaged indexes


@pytest.mark.parametrize("recovery_point", [0, 7, 20])
def test_a_missing_offset_index_is_made_again_wherever_the_recovery_point_is(
    bench: LogBench, recovery_point: int
) -> None:
    bases = written(bench)
    names = [offset_index_name(base) for base in (*bases[:2], bases[-1])]
    before = [(bench.folder / name).read_bytes() for name in names]
    remove(bench, *names)
    with bench.open(CONFIG, recovery_point=recovery_point) as log:
        assert log.segments[0].offset_index.entries > 0
    assert [(bench.folder / name).read_bytes() for name in names] == before


def test_after_a_crash_the_indexes_below_the_recovered_segments_are_checked_too(
    bench: LogBench,
) -> None:
    bases = written(bench)
    name = offset_index_name(bases[1])
    before = (bench.folder / name).read_bytes()
    remove(bench, name)
    with bench.open(CONFIG, last_shutdown_clean=False, recovery_point=bases[2]):
        assert (bench.folder / name).exists()
    assert (bench.folder / name).read_bytes() == before


def test_the_first_segment_to_recover_is_not_repaired_before_its_recovery(bench: LogBench) -> None:
    bases = written(bench)
    path = bench.folder / log_file_name(bases[1])
    path.write_bytes(path.read_bytes()[:-1])
    remove(bench, offset_index_name(bases[1]))
    with bench.open(CONFIG, last_shutdown_clean=False, recovery_point=bases[1]) as log:
        assert [segment.base_offset for segment in log.segments] == bases[:2]
        assert bases[1] < log.log_end_offset < bases[2]


def test_a_transaction_index_that_contradicts_itself_is_made_again(bench: LogBench) -> None:
    with bench.open() as log:
        append_plain(log, 1)
        log.roll()
        producer(log, 1, 0, bench.now)(2)
        end_txn(log, 1, 0, ABORT, bench.now)
        aborted = aborted_transactions(log)
    path = bench.folder / transaction_index_name(1)
    before = path.read_bytes()
    path.write_bytes(before.replace((3).to_bytes(8, "big"), (0).to_bytes(8, "big")))
    assert path.read_bytes() != before
    with bench.open(recovery_point=4) as log:
        assert aborted_transactions(log) == aborted == [AbortedTxn(0, 1, 1, 3, 4)]
    assert path.read_bytes() == before


def test_indexes_that_are_made_again_are_on_the_device(bench: LogBench) -> None:
    bases = written(bench)
    names = [offset_index_name(base) for base in bases[:2]]
    remove(bench, *names)
    disk = RecordingDisk(bench.log_dir)
    bench.open(CONFIG, recovery_point=20, disk=disk).close_handlers()
    calls = disk.recording.calls
    wanted = [f"sync {names[0]}", "sync folder topic-0", f"sync {names[1]}", "sync folder topic-0"]
    assert [call for call in calls if call in wanted][:4] == wanted


# Segments whose offsets are too far apart


class Counting(Disk):
    """Keeps the files that were opened."""

    def __init__(self) -> None:
        self.opened: list[WritableFile] = []

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        self.opened.append(super()._file(fd, path, writable))
        return self.opened[-1]


def far_apart(bench: LogBench, first: int) -> None:
    """A segment 0, and a segment 1 from offset `first` on, with offsets too far apart; both without indexes."""
    bench.folder.mkdir()
    offsets = (first, first + MAX_INT32, first + 2 * MAX_INT32)
    far = [records_of(rec("a"), base_offset=offset) for offset in offsets]
    for base, batches in ((0, [one()]), (1, far)):
        data = b"".join(bytes(batch.buffer) for batch in batches)
        (bench.folder / log_file_name(base)).write_bytes(data)


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("was_clean", [True, False])
def test_a_segment_that_is_split_goes_also_where_its_first_offset_is_above_its_base(
    bench: LogBench, first: int, was_clean: bool
) -> None:
    far_apart(bench, first)
    with bench.open(CONFIG, last_shutdown_clean=was_clean) as log:
        last = first + 2 * MAX_INT32
        bases = [segment.base_offset for segment in log.segments]
        assert bases == [0, first, last]
        assert [record[0] for record in all_records(log)] == [0, first, first + MAX_INT32, last]
    bench.clock.sleep(CONFIG.file_delete_delay_ms)
    assert bench.names(".log") == [log_file_name(base) for base in bases]


def test_a_split_while_segments_are_opened_leaves_no_file_open_twice(bench: LogBench) -> None:
    far_apart(bench, 1)
    disk = Counting()
    log = bench.open(CONFIG, disk=disk)
    log.close()
    bench.clock.sleep(CONFIG.file_delete_delay_ms)
    assert disk.opened
    assert all(file.is_closed for file in disk.opened)


# Recovery


def going_back(bench: LogBench) -> None:
    """Segments 0, 3, 7 and 8; the offsets of the second go back."""
    bench.folder.mkdir()
    for base, offsets in ((0, (0, 1, 2)), (3, (3, 5, 4, 6)), (7, (7,)), (8, (8,))):
        batches = [records_of(rec("a" * 200), base_offset=offset) for offset in offsets]
        data = b"".join(bytes(batch.buffer) for batch in batches)
        (bench.folder / log_file_name(base)).write_bytes(data)


def test_a_segment_whose_offsets_go_back_is_emptied_and_the_later_ones_go(bench: LogBench) -> None:
    going_back(bench)
    disk = RecordingDisk(bench.log_dir)
    with bench.open(CONFIG, last_shutdown_clean=False, disk=disk) as log:
        assert [(segment.base_offset, segment.size > 0) for segment in log.segments] == [
            (0, True),
            (3, False),
        ]
        assert log.log_end_offset == 3
        append_plain(log, 1)
        assert [record[0] for record in all_records(log)] == [0, 1, 2, 3]
    calls = [call.split(" to ")[0] for call in disk.recording.calls]
    cut = calls.index(f"truncate {log_file_name(3)}")
    gone = [calls.index(f"rename {log_file_name(base)}") for base in (7, 8)]
    assert max(gone) < calls.index("sync folder topic-0", max(gone)) < cut


def producers_of(log: UnifiedLog) -> dict[int, tuple[int, int | None]]:
    """Last sequence, and start of the open transaction, of each producer."""
    found = ((number, log.producer_state.last_entry(number)) for number in range(10))
    return {
        number: (entry.last_sequence, entry.current_txn_first_offset)
        for number, entry in found
        if entry is not None
    }


@pytest.mark.parametrize("expiration_ms", [MAX_INT64, MAX_INT64 - 1])
@pytest.mark.parametrize("has_snapshots", [True, False])
def test_producers_after_a_recovery_are_those_of_before_whenever_they_expire(
    bench: LogBench, expiration_ms: int, has_snapshots: bool
) -> None:
    log = bench.open(CONFIG, producer_id_expiration_ms=expiration_ms)
    for number in range(12):
        log.append_as_leader(of_producer(number % 3, number // 3, rec("a" * 90, bench.now)), 0)
    producer(log, 9, 0, bench.now)(1)
    assert len(log.segments) > 3
    before = producers_of(log)
    assert before == {0: (3, None), 1: (3, None), 2: (3, None), 9: (0, 12)}
    log.close()
    if not has_snapshots:
        remove(bench, *bench.names(".snapshot"))
    log = bench.open(CONFIG, producer_id_expiration_ms=expiration_ms, last_shutdown_clean=False)
    assert producers_of(log) == before
    assert log.watermarks.first_unstable_offset == 12
    log.close()


def test_one_byte_behind_the_last_batch_ends_the_log_there(
    bench: LogBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    bases = written(bench)
    with (bench.folder / log_file_name(bases[1])).open("ab") as file:
        file.write(b"\0")
    with bench.open(CONFIG, last_shutdown_clean=False) as log:
        assert [segment.base_offset for segment in log.segments] == bases[:2]
        assert log.log_end_offset == bases[2]
    assert caplog.text.count("recovering WritableSegment(base_offset=") == 2


def test_an_empty_active_segment_stays_where_the_one_before_ends_at_it(bench: LogBench) -> None:
    log = bench.open()
    append_plain(log, 2)
    log.roll()
    log.close()
    with bench.open(last_shutdown_clean=False) as log:
        assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_that_went_with_an_emptied_one_are_not_recovered(
    bench: LogBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    going_back(bench)
    bench.open(CONFIG, last_shutdown_clean=False).close()
    assert caplog.text.count("recovering WritableSegment(base_offset=") == 2


def test_producers_that_have_expired_are_not_in_the_snapshots_of_a_recovery(
    bench: LogBench,
) -> None:
    log = bench.open(CONFIG, producer_id_expiration_ms=1000)
    for number in range(4):
        log.append_as_leader(of_producer(number, 0, rec("a" * 300, bench.now)), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3]
    log.close()
    bench.clock.sleep(1000)
    log = bench.open(CONFIG, producer_id_expiration_ms=1000, last_shutdown_clean=False)
    found = {
        offset: [
            entry.producer_id
            for entry in read_snapshot(bench.folder / f"{offset:020}.snapshot", DISK)
        ]
        for offset in bench.snapshot_offsets
    }
    assert found == {offset: [offset - 1] for offset in (1, 2, 3, 4)}
    assert producers_of(log) == {}
    log.close()


def test_the_snapshot_of_a_segment_goes_when_its_parts_begin_above_it(bench: LogBench) -> None:
    far_apart(bench, 2)
    for base in (0, 1):
        (bench.folder / offset_index_name(base)).touch()
        (bench.folder / time_index_name(base)).touch()
    log = bench.open(CONFIG)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert bench.snapshot_offsets == [1, log.log_end_offset]
    parts = log.split_overflowed_segment(log.segments[1])
    assert [part.base_offset for part in parts] == [2, 2 + 2 * MAX_INT32]
    assert bench.names(".snapshot.deleted") == [f"{1:020}.snapshot.deleted"]
    log.close()
