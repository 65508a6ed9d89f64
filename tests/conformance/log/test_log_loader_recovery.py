"""What Kafka's LogLoaderTest asks of loading: indexes, damage, leftovers, offsets that jump."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.coding.compression import CompressionType
from engine.files.file_names import offset_index_name, producer_snapshot_name, time_index_name
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.log_config import LogConfig
from tests.conformance.unified_log_steps import LogBench, all_records, append_many, one, rec

NUM_MESSAGES = 100
MESSAGE_SIZE = 100


def random_one(size: int, timestamp: int) -> MemoryRecords:
    return records_of(rec("x" * size, timestamp)._replace(value=os.urandom(size)))


def append_timed(bench: LogBench, log: UnifiedLog, count: int, size: int) -> None:
    for number in range(count):
        log.append_as_leader(random_one(size, bench.now + number * 10), 0)


def assert_every_record_is_found(bench: LogBench, log: UnifiedLog, count: int) -> None:
    for number in range(count):
        batch = next(iter(log.read(number, 100).records.batches()))
        assert batch.last_offset == number
        found = log.fetch_offset_by_timestamp(bench.now + number * 10)
        assert found is not None
        assert found.offset == number


@pytest.mark.conformance("LogLoaderTest.testLogRecoversToCorrectOffset")
def test_log_recovers_to_correct_offset(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(
        segment_size=7 * MESSAGE_SIZE, index_interval=3 * MESSAGE_SIZE, max_index_size=4096
    )
    log = bench.open(config)
    append_timed(bench, log, NUM_MESSAGES, MESSAGE_SIZE)
    assert log.log_end_offset == NUM_MESSAGES
    last_index_offset = log.active_segment.offset_index.last_offset
    index_entries = log.active_segment.offset_index.entries
    last_offset = log.log_end_offset
    last_timestamp = log.active_segment.largest_timestamp
    time_entries = log.active_segment.time_index.entries
    if log.active_segment.time_index.last_entry.offset != log.log_end_offset - 1:
        time_entries += 1
    log.close()

    def verify(log: UnifiedLog, recovery_point: int) -> None:
        assert log.recovery_point == recovery_point
        assert log.log_end_offset == NUM_MESSAGES
        active = log.active_segment
        assert active.offset_index.last_offset == last_index_offset
        assert active.offset_index.entries == index_entries
        assert active.time_index.last_entry == (last_timestamp, last_offset - 1)
        assert active.time_index.entries == time_entries

    log = bench.open(config, recovery_point=last_offset, last_shutdown_clean=False)
    verify(log, last_offset)
    log.close()

    log = bench.open(config, recovery_point=10, last_shutdown_clean=False)
    verify(log, 10)
    log.flush()
    verify(log, last_offset)
    log.close()


@pytest.mark.conformance("LogLoaderTest.testIndexRebuild")
def test_index_rebuild(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=200, index_interval=1)
    log = bench.open(config)
    append_timed(bench, log, 200, 10)
    log.close()
    for name in [*bench.names(".index"), *bench.names(".timeindex")]:
        (bench.folder / name).unlink()

    log = bench.open(config, last_shutdown_clean=False)
    assert log.log_end_offset == 200
    assert log.segments[0].offset_index.entries > 0
    assert log.segments[0].time_index.entries > 0
    assert_every_record_is_found(bench, log, 200)
    log.close()


@pytest.mark.conformance("LogLoaderTest.testCorruptIndexRebuild")
def test_corrupt_index_rebuild(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=200, index_interval=1)
    log = bench.open(config)
    append_timed(bench, log, 200, 10)
    log.close()
    for name in [*bench.names(".index"), *bench.names(".timeindex")]:
        (bench.folder / name).write_text("  ")

    log = bench.open(config, last_shutdown_clean=False)
    assert log.log_end_offset == 200
    assert_every_record_is_found(bench, log, 200)
    log.close()


@pytest.mark.conformance("LogLoaderTest.testBogusIndexSegmentsAreRemoved")
def test_bogus_index_segments_are_removed(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bench.folder.mkdir()
    first, first_time = (bench.folder / name(0) for name in (offset_index_name, time_index_name))
    bogus, bogus_time = (bench.folder / name(5) for name in (offset_index_name, time_index_name))
    bogus.touch()
    bogus_time.touch()
    size = bench.at_now().size
    log = bench.open(LogConfig(segment_size=size * 5, max_index_size=1000, index_interval=1))
    assert log.segments[0].offset_index is not None
    assert log.segments[0].time_index is not None
    assert first.stat().st_size > 0
    assert first_time.stat().st_size > 0
    assert not bogus.exists()
    assert not bogus_time.exists()
    append_many(log, 10, bench.at_now)
    log.delete()
    assert not bench.folder.exists()


@pytest.mark.conformance("LogLoaderTest.testReopenThenTruncate")
def test_reopen_then_truncate(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(
        segment_size=bench.at_now().size * 5, max_index_size=1000, index_interval=10_000
    )
    log = bench.open(config)
    append_many(log, 100, bench.at_now)
    log.close()
    log = bench.open(config, last_shutdown_clean=False)
    log.truncate_to(3)
    assert len(log.segments) == 1
    assert log.log_end_offset == 3
    log.close()


@pytest.mark.conformance("LogLoaderTest.testOpenDeletesObsoleteFiles")
def test_open_deletes_obsolete_files(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)

    def old() -> MemoryRecords:
        return one("test", bench.now - 1000)

    config = LogConfig(segment_size=old().size * 5, max_index_size=1000, retention_ms=999)
    log = bench.open(config)
    append_many(log, 100, old)
    log.update_high_watermark(log.log_end_offset)
    log.delete_old_segments()
    log.close()
    assert bench.names(".deleted"), "they wait for their time"
    log = bench.open(config, last_shutdown_clean=False)
    assert len(log.segments) == 1
    assert not bench.names(".deleted")
    log.close()


@pytest.mark.conformance("LogLoaderTest.testCorruptLog")
def test_corrupt_log(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=1000, index_interval=1, max_message_size=64 * 1024)
    rng = random.Random(7)
    for _ in range(10):
        log = bench.open(config)
        count = 50 + rng.randrange(50)
        append_many(log, count, bench.at_now)
        records = all_records(log)
        index, data = log.active_segment.offset_index.path, log.active_segment.log.path
        log.close()
        for path in (index, data):
            with Path(path).open("ab") as file:
                file.write(rng.randbytes(rng.randrange(1024) + 1))
        log = bench.open(config, recovery_point=50, last_shutdown_clean=False)
        assert log.log_end_offset == count
        assert all_records(log) == records
        log.close()
        shutil.rmtree(bench.folder)


def over_compacted(bench: LogBench) -> UnifiedLog:
    return bench.open(LogConfig(segment_size=1000, index_interval=1, max_message_size=64 * 1024))


def pairs(base_offset: int, first: int, magic: int) -> MemoryRecords:
    """Two records in a compressed batch."""
    records = [rec(f"k{number}", key=b"v%d" % number) for number in (first, first + 1)]
    return from_leader(
        0 if magic == 2 else -1,
        *records,
        base_offset=base_offset,
        magic=magic,
        compression=CompressionType.GZIP,
    )


def from_leader(epoch: int, *records: SimpleRecord, **options: Any) -> MemoryRecords:
    return records_of(*records, partition_leader_epoch=epoch, **options)


def assert_indexes_end_in_the_log(bench: LogBench, count: int) -> None:
    names = bench.names(".index")
    assert len(names) == count
    for name in names:
        with contextlib.closing(
            WritableOffsetIndex(bench.folder / name, int(name.removesuffix(".index")))
        ) as index:
            assert index.last_offset >= 0


@pytest.mark.conformance("LogLoaderTest.testOverCompactedLogRecovery")
def test_over_compacted_log_recovery(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = over_compacted(bench)
    sets = [
        from_leader(0, rec(f"k{number}", key=b"v%d" % number), base_offset=offset)
        for number, offset in ((1, 0), (3, MAX_INT32 + 2), (4, MAX_INT32 + 3), (5, MAX_INT32 + 4))
    ]
    log.append_as_follower(sets[0], MAX_INT32)
    assert log.active_segment.base_offset == 0
    for records in sets[1:]:
        log.append_as_follower(records, MAX_INT32)
        assert log.active_segment.base_offset == MAX_INT32 + 2
        assert (bench.folder / producer_snapshot_name(MAX_INT32 + 2)).exists()
    log.close()
    assert_indexes_end_in_the_log(bench, 2)


@pytest.mark.conformance("LogLoaderTest.testOverCompactedLogRecoveryMultiRecord")
def test_over_compacted_log_recovery_multi_record(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = over_compacted(bench)
    log.append_as_follower(from_leader(0, rec("k1", key=b"v1")), MAX_INT32)
    assert log.active_segment.base_offset == 0
    for first, offset in ((3, MAX_INT32 + 2), (5, MAX_INT32 + 4), (7, MAX_INT32 + 6)):
        log.append_as_follower(pairs(offset, first, magic=2), MAX_INT32)
        assert log.active_segment.base_offset == MAX_INT32 + 2
        assert (bench.folder / producer_snapshot_name(MAX_INT32 + 2)).exists()
    log.close()
    assert_indexes_end_in_the_log(bench, 2)


@pytest.mark.conformance("LogLoaderTest.testOverCompactedLogRecoveryMultiRecordV1")
def test_over_compacted_log_recovery_multi_record_v1(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = over_compacted(bench)
    log.append_as_follower(records_of(rec("k1", key=b"v1"), base_offset=0, magic=1), MAX_INT32)
    assert log.active_segment.base_offset == 0
    # A wrapper tells its last offset only, so the new segment begins as far below it as it may.
    log.append_as_follower(pairs(MAX_INT32 + 2, 3, magic=1), MAX_INT32)
    assert log.active_segment.base_offset == 3
    assert (bench.folder / producer_snapshot_name(3)).exists()
    for first, offset in ((5, MAX_INT32 + 4), (7, MAX_INT32 + 6)):
        log.append_as_follower(pairs(offset, first, magic=1), MAX_INT32)
        assert log.active_segment.base_offset == MAX_INT32 + 4
        assert (bench.folder / producer_snapshot_name(MAX_INT32 + 4)).exists()
    log.close()
    assert_indexes_end_in_the_log(bench, 3)


@pytest.mark.conformance("LogLoaderTest.testCleanShutdownFile")
def test_clean_shutdown_file(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=1000, index_interval=1, max_message_size=64 * 1024)
    append_many(log, 100, bench.at_now)
    log.close()
    recovery_point = log.log_end_offset
    log = bench.log(segment_size=1000, index_interval=1, max_message_size=64 * 1024)
    assert log.log_end_offset == recovery_point
    assert log.recovery_point == recovery_point
    log.close()


@pytest.mark.conformance("LogLoaderTest.testLogEndLessThanStartAfterReopen")
def test_log_end_less_than_start_after_reopen(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig()
    log = bench.open(config)
    for number in range(5):
        log.append_as_leader(one(str(number), bench.now), 0)
        log.roll()
    assert len(log.segments) == 6
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(4, "client record deletion")
    assert log.log_end_offset > log.log_start_offset
    Path(log.segments[1].log.path).write_text("corruptRecord")
    log.close()

    log = bench.open(config, log_start_offset=4, last_shutdown_clean=False)
    bench.clock.sleep(config.file_delete_delay_ms)
    assert len(log.segments) == 1
    assert log.log_start_offset == 4
    assert log.log_end_offset == 4
    only = log.segments[0]
    assert only.base_offset == 4
    assert [Path(path).exists() for path in only.files.paths[:3]] == [True, True, True]
    log.close()


@pytest.mark.conformance("LogLoaderTest.testRecoverWithEmptyActiveSegment")
def test_recover_with_empty_active_segment(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(
        segment_size=7 * MESSAGE_SIZE, index_interval=3 * MESSAGE_SIZE, max_index_size=4096
    )
    log = bench.open(config)
    append_timed(bench, log, NUM_MESSAGES, MESSAGE_SIZE)
    assert log.log_end_offset == NUM_MESSAGES
    log.roll()
    log.flush()
    with pytest.raises(FileNotFoundError):
        log.active_segment.sanity_check(True)
    last_offset = log.log_end_offset
    log.close_handlers()

    log = bench.open(config, recovery_point=last_offset, last_shutdown_clean=False)
    assert log.recovery_point == last_offset
    assert log.log_end_offset == NUM_MESSAGES
    assert log.active_segment.time_index.entries == 0
    log.active_segment.sanity_check(True)

    append_timed(bench, log, NUM_MESSAGES, MESSAGE_SIZE)
    log.roll()
    with pytest.raises(FileNotFoundError):
        log.active_segment.sanity_check(True)
    log.flush(force_active_segment=True)
    log.active_segment.sanity_check(True)
    last_offset = log.log_end_offset
    log.close_handlers()

    log = bench.open(config, recovery_point=last_offset, last_shutdown_clean=False)
    assert log.recovery_point == last_offset
    assert log.log_end_offset == 2 * NUM_MESSAGES
    assert log.active_segment.time_index.entries == 0
    log.active_segment.sanity_check(True)
    log.close()
