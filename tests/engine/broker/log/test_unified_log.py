"""The log of a partition: reading back, looking up times, refusing, failing disks."""

from __future__ import annotations

import errno
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker.log.log_reader import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from engine.broker.log.unified_log import UnifiedLog
from engine.coding.compression import CompressionType
from engine.disk.disk import Bytes, Disk, StrPath, WritableFile
from engine.errors import (
    CorruptRecordError,
    InconsistentTopicIdError,
    InvalidNameError,
    InvalidRecordError,
    LogDirFailureError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    StateError,
)
from engine.log.segment.fetch import FetchIsolation
from engine.record.attributes import TimestampType
from engine.record.control_records import EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.memory_records import MemoryRecords
from engine.units import EpochEntry, FoundTimestamp, LogOffsetMetadata, TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.state.append_origin import AppendOrigin
from tests.clocks import MockScheduler, MockTask
from tests.conformance.unified_log_steps import (
    ABORT,
    COMMIT,
    LARGEST,
    LogBench,
    all_records,
    append_plain,
    end_txn,
    of_producer,
    one,
    producer,
    rec,
)


def offsets(log: UnifiedLog, start: int, isolation: FetchIsolation) -> list[int]:
    fetched = log.read(start, LARGEST, isolation)
    return [record.offset for record in fetched.records.records()]


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path)


def with_epochs(bench: LogBench) -> UnifiedLog:
    """Records at 0 (epoch 3), 1 and 2 (epoch 5), a segment each; the second has the largest timestamp."""
    log = bench.log(segment_size=one().size)
    for timestamp, epoch in ((100, 3), (300, 5), (200, 5)):
        log.append_as_leader(one("x", timestamp), epoch)
    return log


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (LATEST_TIMESTAMP, FoundTimestamp(-1, 3, 5)),
        (EARLIEST_TIMESTAMP, FoundTimestamp(-1, 0, 3)),
        (EARLIEST_LOCAL_TIMESTAMP, FoundTimestamp(-1, 0, 3)),
        (MAX_TIMESTAMP, FoundTimestamp(300, 1, 5)),
        (LATEST_TIERED_TIMESTAMP, FoundTimestamp(-1, -1, -1)),
        (EARLIEST_PENDING_UPLOAD_TIMESTAMP, FoundTimestamp(-1, -1, -1)),
        (50, FoundTimestamp(100, 0, 3)),
        (150, FoundTimestamp(300, 1, 5)),
        (301, None),
    ],
)
def test_times_lead_to_offsets(
    bench: LogBench, target: int, expected: FoundTimestamp | None
) -> None:
    log = with_epochs(bench)
    assert log.fetch_offset_by_timestamp(target) == expected
    log.close()
    assert bench.log(segment_size=one().size).fetch_offset_by_timestamp(target) == expected


def test_an_empty_log_has_ends_but_no_largest_timestamp(bench: LogBench) -> None:
    log = bench.open(log_start_offset=7)
    assert log.fetch_offset_by_timestamp(LATEST_TIMESTAMP) == FoundTimestamp(-1, 7, -1)
    assert log.fetch_offset_by_timestamp(EARLIEST_TIMESTAMP) == FoundTimestamp(-1, 7, -1)
    assert log.fetch_offset_by_timestamp(MAX_TIMESTAMP) is None
    assert log.fetch_offset_by_timestamp(0) is None


def test_the_earliest_offset_has_no_epoch_when_the_first_known_one_begins_above(
    bench: LogBench,
) -> None:
    log = bench.open()
    log.append_as_leader(records_of(rec("old"), magic=1), 5, to_magic=1)
    log.append_as_leader(one("new"), 5)
    assert log.fetch_offset_by_timestamp(EARLIEST_TIMESTAMP) == FoundTimestamp(-1, 0, -1)


def test_readers_see_up_to_their_bound(bench: LogBench) -> None:
    log = bench.open()
    append = producer(log, 1, 0, bench.now)
    append_plain(log, 2)
    append(3)
    append_plain(log, 2)
    assert offsets(log, 0, FetchIsolation.HIGH_WATERMARK) == []
    log.update_high_watermark(6)
    assert (log.last_stable_offset, log.high_watermark) == (2, 6)
    assert offsets(log, 0, FetchIsolation.TXN_COMMITTED) == [0, 1]
    assert offsets(log, 0, FetchIsolation.HIGH_WATERMARK) == [0, 1, 2, 3, 4]
    assert offsets(log, 0, FetchIsolation.LOG_END) == [0, 1, 2, 3, 4, 5, 6]
    end_txn(log, 1, 0, COMMIT, bench.now)
    assert log.last_stable_offset == 2, "the marker is not replicated yet"
    log.update_high_watermark(8)
    assert log.last_stable_offset == 8
    assert offsets(log, 0, FetchIsolation.TXN_COMMITTED) == list(range(8))


def test_reading_outside_of_the_log_is_refused(bench: LogBench) -> None:
    log = bench.log(segment_size=one().size)
    for _ in range(3):
        log.append_as_leader(one(), 0)
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(1, "deleted")
    for offset in (0, 4):
        with pytest.raises(OffsetOutOfRangeError, match=str(offset)):
            log.read(offset, 100)
    assert log.read(3, 100).records.size == 0


def test_a_read_gives_the_first_batch_whole_only_when_asked_to(bench: LogBench) -> None:
    log = bench.open()
    log.append_as_leader(one("a" * 100), 0)
    size = log.size
    assert log.read(0, 1).records.size == size
    cut = log.read(0, 1, min_one_message=False)
    assert cut.first_entry_incomplete
    assert cut.records.size == 1


def test_aborted_transactions_are_found_by_offsets(bench: LogBench) -> None:
    log = bench.open()
    producer(log, 1, 0, bench.now)(3)
    end_txn(log, 1, 0, ABORT, bench.now)
    append_plain(log, 2)
    (found,) = log.collect_aborted_transactions(0, 6)
    assert (found.producer_id, found.first_offset, found.last_offset) == (1, 0, 3)
    assert log.collect_aborted_transactions(0, 0) == []


def test_log_append_time_is_given_back(bench: LogBench) -> None:
    log = bench.log(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    records = of_producer(1, 0, rec("a", 5))
    info = log.append_as_leader(records, 0)
    assert info.log_append_time == info.max_timestamp == bench.now
    then = bench.now
    bench.clock.sleep(10)
    repeated = log.append_as_leader(records, 0)
    assert (repeated.log_append_time, repeated.first_offset) == (then, 0)
    assert log.log_end_offset == 1


def test_a_leader_writes_the_codec_of_the_topic(bench: LogBench) -> None:
    log = bench.log(compression_type="lz4")
    log.append_as_leader(one("a" * 500), 0)
    (batch,) = log.read(0, 1).records.batches()
    assert batch.compression is CompressionType.LZ4
    assert [record.value for record in batch.records()] == [b"a" * 500]


def test_batches_that_grow_by_conversion_are_measured_again(bench: LogBench) -> None:
    packed = records_of(rec("a" * 5000), compression=CompressionType.GZIP)
    log = bench.log(compression_type="uncompressed", max_message_size=1000)
    assert packed.size < 1000
    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(packed, 0)
    assert log.log_end_offset == 0
    exact = records_of(rec("a" * 5000)).size
    log.update_config(LogConfig(compression_type="uncompressed", max_message_size=exact))
    log.append_as_leader(packed, 0)
    assert log.log_end_offset == 1


def test_nothing_whole_is_nothing_appended(bench: LogBench) -> None:
    log = bench.open()
    part = MemoryRecords(bytes(one().buffer)[:-1])
    for records in (MemoryRecords(b""), part):
        assert log.append_as_leader(records, 0).valid_bytes == 0
        assert log.append_as_follower(records, 0).valid_bytes == 0
    assert (log.log_end_offset, log.size) == (0, 0)


def test_what_is_not_whole_at_the_end_is_left_out(bench: LogBench) -> None:
    log = bench.open()
    whole = bytes(records_of(rec("a"), partition_leader_epoch=0).buffer)
    next_one = bytes(records_of(rec("b"), base_offset=1, partition_leader_epoch=0).buffer)
    info = log.append_as_follower(MemoryRecords(whole + next_one[:-1]), 0)
    assert info.valid_bytes == len(whole) == log.size
    assert log.log_end_offset == 1


def test_an_epoch_begins_earlier_when_a_followers_batch_goes_back(bench: LogBench) -> None:
    log = bench.log()
    forth = records_of(rec("a"), rec("b"), base_offset=84, partition_leader_epoch=4)
    back = records_of(
        rec("a"), rec("b"), rec("c"), rec("d"), base_offset=83, partition_leader_epoch=4
    )
    log.append_as_follower(MemoryRecords(bytes(forth.buffer) + bytes(back.buffer)), 4)
    assert log.leader_epoch_cache.epoch_entries == [EpochEntry(4, 83)]


def test_a_batch_of_a_wrong_checksum_changes_nothing(bench: LogBench) -> None:
    log = bench.open()
    damaged = bytearray(one("abc").buffer)
    damaged[-1] ^= 1
    for append in (log.append_as_leader, log.append_as_follower):
        with pytest.raises(CorruptRecordError):
            append(MemoryRecords(bytes(damaged)), 0)
    assert (log.log_end_offset, log.size, log.leader_epoch_cache.latest_epoch) == (0, 0, None)


def test_who_sends_must_keep_to_his_offsets_and_epoch(bench: LogBench) -> None:
    log = bench.open()
    with pytest.raises(InvalidRecordError, match="base offset"):
        log.append_as_leader(records_of(rec("a"), base_offset=1), 0)
    with pytest.raises(InvalidRecordError, match="leader epoch"):
        log.append_as_leader(
            records_of(rec("a"), partition_leader_epoch=4), 5, AppendOrigin.RAFT_LEADER
        )
    marker = end_transaction_marker(
        EndTransactionMarker(COMMIT, 0), producer_id=1, producer_epoch=0, timestamp=bench.now
    )
    with pytest.raises(ValueError, match="version"):
        log.append_as_leader(marker, 0, AppendOrigin.COORDINATOR)
    assert (log.log_end_offset, log.size) == (0, 0)


def test_the_high_watermark_stays_within_the_log(bench: LogBench) -> None:
    log = bench.open()
    for _ in range(3):
        append_plain(log, 1)
    with pytest.raises(ValueError, match="above"):
        log.maybe_increment_high_watermark(LogOffsetMetadata(4))
    assert log.maybe_increment_high_watermark(LogOffsetMetadata(2)) is not None
    assert log.maybe_increment_high_watermark(LogOffsetMetadata(1)) is None
    assert log.high_watermark == 2
    assert log.update_high_watermark(-5) == 0


def test_a_high_watermark_inside_a_batch_moves_to_its_beginning_when_its_place_is_asked_for(
    bench: LogBench,
) -> None:
    log = bench.open()
    append_plain(log, 3)
    log.update_high_watermark(2)
    assert log.high_watermark == 2
    assert log.watermarks.snapshot().high_watermark == LogOffsetMetadata(0, 0, 0)
    assert log.high_watermark == 0


def test_a_negative_offset_is_nothing_to_truncate_to(bench: LogBench) -> None:
    log = bench.open()
    append_plain(log, 3)
    with pytest.raises(ValueError, match="-1"):
        log.truncate_to(-1)
    assert log.log_end_offset == 3


def test_epochs_end_where_the_next_begins(bench: LogBench) -> None:
    log = with_epochs(bench)
    assert log.leader_epoch_cache.end_offset_for(3, 3) == (3, 1)
    assert log.leader_epoch_cache.end_offset_for(4, 3) == (3, 1)
    assert log.leader_epoch_cache.end_offset_for(5, 3) == (5, 3)
    assert log.leader_epoch_cache.end_offset_for(6, 3) is None


def test_a_flush_moves_the_recovery_point(bench: LogBench) -> None:
    log = bench.log(flush_interval=3)
    append_plain(log, 2)
    assert log.recovery_point == 0
    append_plain(log, 1)
    assert log.recovery_point == 3
    append_plain(log, 2)
    log.flush_up_to(4)
    assert log.recovery_point == 4
    log.flush()
    assert log.recovery_point == 5


def test_a_closed_log_refuses_everything_but_deletion(bench: LogBench) -> None:
    log = bench.open()
    append_plain(log, 3)
    log.close()
    log.close()
    refused: list[Callable[[], object]] = [
        lambda: append_plain(log, 1),
        lambda: log.append_as_follower(records_of(rec("a"), base_offset=3), 0),
        lambda: log.read(0, 100),
        lambda: log.roll(),
        lambda: log.truncate_to(1),
        lambda: log.truncate_fully_and_start_at(1),
        lambda: log.fetch_offset_by_timestamp(1),
    ]
    for action in refused:
        with pytest.raises(StateError):
            action()
    reopened = bench.open()
    assert reopened.log_end_offset == 3
    log.close_handlers()


def test_a_log_is_a_context_that_closes_it(bench: LogBench) -> None:
    with bench.open() as log:
        append_plain(log, 3)
    with pytest.raises(StateError):
        append_plain(log, 1)
    with bench.open() as reopened:
        assert reopened.log_end_offset == 3
        assert "0..3" in repr(reopened)


def test_a_configuration_takes_effect_at_once(bench: LogBench) -> None:
    log = bench.open()
    old = log.update_config(LogConfig(max_message_size=80))
    assert old == LogConfig()
    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(one("a" * 100), 0)


def test_a_log_knows_whose_it_is(bench: LogBench) -> None:
    log = bench.open()
    assert log.topic_partition == TopicPartition("topic", 0)
    assert (log.log_folder.name, log.parent_dir) == ("topic-0", str(bench.log_dir))
    assert not log.log_folder.is_future
    assert log.topic_id is None
    log.assign_topic_id("sgf5MsZgRTuEMv68ZXKJbQ")
    log.assign_topic_id("sgf5MsZgRTuEMv68ZXKJbQ")
    bench.clock.sleep(0)
    content = (bench.folder / "partition.metadata").read_text()
    assert content == "version: 0\ntopic_id: sgf5MsZgRTuEMv68ZXKJbQ"


def test_a_timestamp_in_the_future_is_not_expired(bench: LogBench) -> None:
    log = bench.log(segment_size=one().size, retention_ms=100)
    log.append_as_leader(one("a", bench.now + 1000), 0)
    log.append_as_leader(one("b", bench.now - 1000), 0)
    log.update_high_watermark(2)
    assert log.delete_old_segments() == 0
    assert log.log_start_offset == 0


class FailingFile(WritableFile):
    disk: FailingDisk

    def write_at(self, position: int, data: Bytes) -> None:
        if self.disk.is_failing:
            super().write_at(position, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "no space left")
        super().write_at(position, data)


class FailingDisk(Disk):
    """Full, from when it is told; half of what is written still fits."""

    is_failing = False

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        file = FailingFile(fd, path, writable=writable)
        file.disk = self
        return file


def test_a_full_disk_takes_the_log_dir_offline_and_nothing_with_it(bench: LogBench) -> None:
    disk = FailingDisk()
    log = bench.open(disk=disk)
    append_plain(log, 3)
    before = all_records(log)
    disk.is_failing = True
    with pytest.raises(LogDirFailureError, match="No space left") as caught:
        append_plain(log, 2)
    assert caught.value.errno == errno.ENOSPC
    assert log.log_folder.channel.has_offline_log_dir(str(bench.log_dir))
    assert log.log_end_offset == 3
    disk.is_failing = False
    for action in (
        lambda: append_plain(log, 1),
        lambda: log.read(0, 100),
        lambda: log.flush(),
        lambda: log.roll(),
        lambda: log.truncate_to(0),
        lambda: log.delete_old_segments() or log.maybe_increment_log_start_offset(0, "x"),
    ):
        with pytest.raises(LogDirFailureError, match="offline"):
            action()
    log.close_handlers()

    reopened = bench.open(last_shutdown_clean=False)
    assert all_records(reopened) == before
    append_plain(reopened, 2)
    assert reopened.log_end_offset == 5


@pytest.mark.parametrize("segment_size", [1024 * 1024, 500])
def test_readers_never_see_what_is_not_replicated(bench: LogBench, segment_size: int) -> None:
    """As LogConcurrencyTest: a writer appends, truncates above the high watermark and moves it on."""
    log = bench.log(segment_size=segment_size)
    total, seen, failures = 300, [], []

    def read() -> None:
        offset = 0
        try:
            while offset < total:
                batches = list(
                    log.read(offset, 1000, FetchIsolation.HIGH_WATERMARK).records.batches()
                )
                for batch in batches:
                    seen.extend((record.offset, record.value) for record in batch.records())
                    offset = batch.next_offset
        except Exception as error:  # noqa: BLE001  whatever it is, the test must not wait for ever
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    epoch, expected = 0, []
    while log.high_watermark < total and not failures:
        epoch += 1
        base = log.log_end_offset
        values = [f"{epoch}-{base + n}" for n in range(4)]
        sent = records_of(
            *(rec(value) for value in values), base_offset=base, partition_leader_epoch=epoch
        )
        log.append_as_follower(sent, epoch)
        if epoch % 3 == 0:
            log.truncate_to(base)
            continue
        expected += list(enumerate((value.encode() for value in values), start=base))
        log.update_high_watermark(log.log_end_offset)
    reader.join(60)
    assert not failures
    assert not reader.is_alive()
    assert seen == expected


def test_a_name_that_is_no_partitions_makes_no_folder(bench: LogBench) -> None:
    with pytest.raises(InvalidNameError):
        bench.open(folder=bench.log_dir / "nonsense")
    assert not (bench.log_dir / "nonsense").exists()


class UnlistableDisk(Disk):
    def list(self, folder: StrPath) -> list[str]:
        raise OSError(errno.EIO, "input/output error")


def test_a_log_that_cannot_be_loaded_takes_the_log_dir_offline(bench: LogBench) -> None:
    channel = LogDirFailureChannel()
    with pytest.raises(LogDirFailureError, match="topic-0") as caught:
        UnifiedLog.create(
            bench.folder,
            LogConfig(),
            bench.scheduler,
            log_dir_failure_channel=channel,
            disk=UnlistableDisk(),
        )
    assert caught.value.errno == errno.EIO
    assert channel.has_offline_log_dir(str(bench.log_dir))


def test_another_topics_log_is_closed_again(bench: LogBench) -> None:
    with bench.open() as log:
        log.assign_topic_id("sgf5MsZgRTuEMv68ZXKJbQ")
    gc.collect()  # closes what other tests left behind
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(InconsistentTopicIdError):
        bench.open(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert bench.open().topic_id == "sgf5MsZgRTuEMv68ZXKJbQ"


def test_a_flush_that_comes_after_closing_does_nothing(bench: LogBench) -> None:
    later: list[Callable[[], object]] = []

    class Waiting(MockScheduler):
        def schedule(
            self, name: str, task: Callable[[], object], delay_ms: int = 0, period_ms: int = -1
        ) -> MockTask:
            if name == "flush-log":
                later.append(task)
                return MockTask(name, task, -1)
            return super().schedule(name, task, delay_ms, period_ms)

    log = UnifiedLog.create(bench.folder, LogConfig(), Waiting(bench.clock), clock=bench.clock)
    append_plain(log, 1)
    log.roll()
    assert log.recovery_point == 0
    log.close()
    (flush,) = later
    flush()
    assert log.recovery_point == 0
    assert not log.log_folder.channel.has_offline_log_dir(str(bench.log_dir))


def test_the_start_moves_back_with_an_end_that_is_cut_below_it(bench: LogBench) -> None:
    log = bench.open()
    for _ in range(4):
        append_plain(log, 1)
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(3, "deleted")
    log.truncate_to(1)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1, 1, 1)
    append_plain(log, 1)
    assert offsets(log, 1, FetchIsolation.LOG_END) == [1]
