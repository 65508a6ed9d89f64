"""What Kafka's LogCleanerTest asks of grouping segments, of the offset map, of overflow and of crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.cleaning.cleaner_stats import CleanerStats
from engine.broker.cleaning.log_to_clean import LogToClean
from engine.broker.cleaning.segment_groups import group_segments_by_size
from engine.broker.log.unified_log import UnifiedLog
from engine.coding.compression import CompressionType
from engine.errors import LogCleaningAbortedError
from engine.record.attributes import TimestampType
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32, MAX_INT64
from engine.writing.log_config import LogConfig
from engine.writing.segment.segment_files import log_path, offset_index_path, time_index_path
from engine.writing.segment.writable_file_records import WritableFileRecords
from engine.writing.segment.writable_segment import WritableSegment
from tests.builders import message, wrapper
from tests.conformance.log_cleaning import (
    CleaningBench,
    FakeOffsetMap,
    append_next,
    append_until,
    clean,
    clean_segments,
    key,
    keys_in,
    message_with_offset,
    record,
    write_to_log,
)
from tests.conformance.unified_log_steps import overflows


@pytest.mark.conformance("LogCleanerTest.testClientHandlingOfCorruptMessageSet")
def test_client_handling_of_corrupt_message_set():
    # A wrapper of magic 1 around messages of magic 0, as an old cleaner wrote it (KAFKA-4298).
    keys, first = range(1, 10), 50
    inside = [
        message(place, str(key).encode(), str(first + place).encode(), magic=0)
        for place, key in enumerate(keys)
    ]
    data = wrapper(inside, first + len(keys) - 1, CompressionType.GZIP, magic=1, timestamp=-1)
    found = list(MemoryRecords(data).records())
    assert [record.offset for record in found] == [int(record.value or b"") for record in found]
    assert [record.offset for record in found] == list(range(50, 59))
    assert {record.timestamp_type for record in found} == {TimestampType.NO_TIMESTAMP_TYPE}
    assert {record.timestamp for record in found} == {-1}


HELLO = records_of(SimpleRecord(b"hello", b"hello"))


@pytest.fixture
def bench(tmp_path) -> CleaningBench:
    return CleaningBench(tmp_path)


def groups_of(
    log: UnifiedLog, max_size: int, max_index_size: int, first_uncleanable: int | None = None
) -> list[list[WritableSegment]]:
    end = log.log_end_offset if first_uncleanable is None else first_uncleanable
    groups = group_segments_by_size(log.segments, max_size, max_index_size, end)
    bases = [segment.base_offset for group in groups for segment in group]
    assert bases == sorted(bases)
    return groups


@pytest.mark.conformance("LogCleanerTest.testSegmentGrouping")
def test_segment_grouping(bench):
    log = bench.compacted(segment_size=300, index_interval=1)
    while len(log.segments) < 10:
        log.append_as_leader(HELLO, 0)
    assert [len(group) for group in groups_of(log, MAX_INT32, MAX_INT32)] == [10]
    assert [len(group) for group in groups_of(log, 1, MAX_INT32)] == [1] * 10
    assert [len(group) for group in groups_of(log, MAX_INT32, 1)] == [1] * 10
    three = log.segments[:3]
    size = sum(segment.size for segment in three) + 1
    assert {len(group) for group in groups_of(log, size, MAX_INT32)[:-1]} == {3}
    size = sum(segment.offset_index.size_in_bytes for segment in three) + 1
    assert {len(group) for group in groups_of(log, MAX_INT32, size)[:-1]} == {3}


@pytest.mark.conformance("LogCleanerTest.testSegmentGroupingWithSparseOffsetsAndEmptySegments")
def test_segment_grouping_with_sparse_offsets_and_empty_segments(bench):
    cleaner = bench.cleaner()
    log = bench.compacted()
    one = records_of(SimpleRecord(b"key", b"val"))
    for number in range(1, 4):
        log.append_as_leader(one, 0)
        last = message_with_offset(b"key", b"val", number * 2**31 - 1)
        log.append_as_follower(last, MAX_INT32)
        assert len(log.segments) == number
    log.append_as_leader(one, 0)
    end = log.log_end_offset - 1
    assert len(log.segments) == 4
    assert len(groups_of(log, MAX_INT32, MAX_INT32, end)) == 3
    cleaner.clean(LogToClean.of(log, 0, end))
    assert len(log.segments) == 4
    assert log.segments[0].size == 0
    # Two empty segments go together, a third that is not empty does not.
    assert len(groups_of(log, MAX_INT32, MAX_INT32, end)) == 2
    cleaner.clean(LogToClean.of(log, 0, end))
    assert len(log.segments) == 3


@pytest.mark.conformance("LogCleanerTest.testSegmentGroupingWithSparseOffsets")
def test_segment_grouping_with_sparse_offsets(bench):
    log = bench.compacted(segment_size=400, index_interval=1)
    while len(log.segments) == 1:
        log.append_as_leader(HELLO, 0)
    log.append_as_follower(message_with_offset(b"hello", b"hello", MAX_INT32 - 1), MAX_INT32)
    log.append_as_leader(HELLO, 0)
    assert log.active_segment.offset_index.last_offset == MAX_INT32
    assert len(groups_of(log, MAX_INT32, MAX_INT32)) == 1
    log.append_as_leader(HELLO, 0)
    assert len(groups_of(log, MAX_INT32, MAX_INT32)) == 2
    while len(log.segments) < 4:
        log.append_as_leader(HELLO, 0)
    groups = groups_of(log, MAX_INT32, MAX_INT32)
    assert len(groups) == len(log.segments) - 1
    for group in groups:
        assert group[-1].offset_index.last_offset - group[0].offset_index.base_offset <= MAX_INT32


@pytest.mark.conformance("LogCleanerTest.testSegmentGroupingFollowingLoadOfZeroIndex")
def test_segment_grouping_following_load_of_zero_index(bench):
    # No index entry is written, as if the index files had been empty when the log was loaded.
    log = bench.compacted(segment_size=400, index_interval=400)
    middle = MAX_INT32 // 2
    for offset in (0, 1):
        log.append_as_follower(message_with_offset(b"hello", b"hello", offset), MAX_INT32)
    log.roll(middle)
    for offset in (middle, MAX_INT32 + 1):
        log.append_as_follower(message_with_offset(b"hello", b"hello", offset), MAX_INT32)
    assert log.log_end_offset - 1 - log.log_start_offset > MAX_INT32
    assert log.segments[-1].offset_index.last_offset - log.log_start_offset <= MAX_INT32
    groups = groups_of(log, MAX_INT32, MAX_INT32)
    assert len(groups) == 2
    for group in groups:
        assert group[-1].read_next_offset() - 1 - group[0].base_offset <= MAX_INT32


@pytest.mark.conformance("LogCleanerTest.testBuildOffsetMap")
def test_build_offset_map(bench):
    log, cleaner = bench.compacted(), bench.cleaner()
    for _ in range(500):
        append_next(log)
    second, fourth = (log.segments[place].base_offset for place in (1, 3))
    offset_map = FakeOffsetMap(1000)
    for start, end in ((0, second), (second, fourth), (fourth, log.log_end_offset)):
        stats = CleanerStats()
        cleaner.build_offset_map(log, start, end, offset_map, stats)
        assert offset_map.latest_offset + 1 == end
        assert offset_map.size == end - start
        assert [offset_map.get(key(n)) for n in range(start, end)] == list(range(start, end))
        assert offset_map.get(key(start - 1)) == offset_map.get(key(end)) == -1
        assert stats.map_messages_read == end - start


@pytest.mark.conformance("LogCleanerTest.testBuildOffsetMapFakeLarge")
def test_build_offset_map_fake_large(bench):
    log = bench.compacted(segment_size=120, max_index_size=120)
    last = 7_206_178
    write_to_log(log, range(2), [0, last])
    offset_map = FakeOffsetMap(1000)
    bench.cleaner().build_offset_map(log, 0, last + 1, offset_map, CleanerStats())
    assert offset_map.latest_offset == last
    assert offset_map.size == 2
    assert offset_map.get(key(0)) == 0
    assert offset_map.get(key(1)) == last


@pytest.mark.conformance("LogCleanerTest.testBuildPartialOffsetMap")
def test_build_partial_offset_map(bench):
    # The map holds two keys: 3 slots, of which three quarters may be taken.
    log, cleaner = bench.compacted(), bench.cleaner(3)
    for number in range(5):
        log.append_as_leader(record(number, number), 0)
    log.roll()
    offset_map, stats = cleaner.offset_map, CleanerStats()
    cleaner.build_offset_map(log, 2, MAX_INT32, offset_map, stats)
    assert offset_map.size == 2
    assert [offset_map.get(key(number)) for number in (0, 2, 3, 4)] == [-1, 2, 3, -1]
    assert stats.map_messages_read == 4


def invalid_cleaned_message(first: int, keys: list[int]) -> MemoryRecords:
    """A wrapper of magic 1 around messages of magic 0, as an old cleaner wrote it; a value is its offset."""
    inside = [
        message(place, key(number), key(first + place), magic=0)
        for place, number in enumerate(keys)
    ]
    last = first + len(keys) - 1
    return MemoryRecords(wrapper(inside, last, CompressionType.GZIP, magic=1, timestamp=-1))


@pytest.mark.conformance("LogCleanerTest.testCleanCorruptMessageSet")
def test_clean_corrupt_message_set(bench):
    log = bench.open(LogConfig(compression_type="gzip"))
    log.append_as_follower(invalid_cleaned_message(25, [0, 1, 0, 1]), MAX_INT32)
    log.append_as_follower(invalid_cleaned_message(50, [3, 4]), MAX_INT32)
    log.roll()
    clean(bench.cleaner(10), log, 0)
    batches = [batch for segment in log.segments for batch in segment.log.batches()]
    assert {batch.magic for batch in batches} == {2}
    found = [record for batch in batches for record in batch.records()]
    assert [each.offset for each in found] == [27, 28, 50, 51]
    assert [int(each.value or b"") for each in found] == [27, 28, 50, 51]


def write_sample_batches(base: int, records: WritableFileRecords, folder: Path) -> int:
    """Four records over nearly all that a segment can hold; the offset after that."""
    for offset, count in ((base, 1), (base + 1, 2), (base + MAX_INT32 - 1, 1)):
        numbers = map(key, range(offset, offset + count))
        made = [SimpleRecord(number, number) for number in numbers]
        records.append(records_of(*made, base_offset=offset, partition_leader_epoch=0))
    for path in (offset_index_path(folder, base), time_index_path(folder, base)):
        Path(path).touch(exist_ok=False)
    return base + MAX_INT32


@pytest.mark.conformance("LogCleanerTest.testSegmentWithOffsetOverflow")
def test_segment_with_offset_overflow(bench):
    bench.folder.mkdir()
    base = 0
    for times in (1, 2, 1):
        with WritableFileRecords.open(log_path(bench.folder, base)) as records:
            for _ in range(times):
                base = write_sample_batches(base, records, bench.folder)
    cleaner = bench.cleaner()
    config = bench.config(index_interval=1, file_delete_delay_ms=1000)
    log = bench.open(config, recovery_point=MAX_INT64)
    (overflowed,) = overflows(log)
    before, keys = len(log.segments), keys_in(log)
    offset_map = FakeOffsetMap(keys=keys[1::2])
    # The segment is split, and the cleaning leaves it at that.
    with pytest.raises(LogCleaningAbortedError):
        clean_segments(cleaner, log, [overflowed], offset_map)
    assert len(log.segments) == before + 1
    assert keys_in(log) == keys
    assert not overflows(log)
    assert not bench.names(".cleaned")
    for segment in log.segments:
        clean_segments(cleaner, log, [segment], offset_map)
    assert keys_in(log) == keys[::2]
    assert not overflows(log)
    log.close()


class Crashing:
    """A log that is cleaned, and loaded again after what a crash would have left."""

    def __init__(self, bench: CleaningBench) -> None:
        self.bench = bench
        self.config = bench.config(segment_size=300, index_interval=1, file_delete_delay_ms=10)
        self.cleaner = bench.cleaner()
        self.log = bench.open(self.config)
        append_until(self.log, 10)
        self.keys = keys_in(self.log)
        self.offset_map = FakeOffsetMap(keys=range(1, self.log.log_end_offset, 2))

    def clean(self) -> list[int]:
        """Clean nine segments; the old files are never removed. The keys that are left."""
        clean_segments(self.cleaner, self.log, self.log.segments[:9], self.offset_map)
        self.bench.scheduler.clear()
        return keys_in(self.log)

    def append_and_clean(self) -> list[int]:
        append_until(self.log, 10)
        for number in range(1, self.log.log_end_offset, 2):
            self.offset_map.put(key(number), MAX_INT64)
        return self.clean()

    def rename_first(self, suffix: str) -> WritableSegment:
        """Give the cleaned segment the names of an earlier step."""
        first = self.log.segments[0]
        first.files.change_suffixes("", suffix)
        return first

    def take_back_deletions(self) -> None:
        for name in self.bench.names(".deleted"):
            path = self.bench.folder / name
            path.rename(path.with_name(name.removesuffix(".deleted")))

    def recover_and_check(self, keys: list[int]) -> None:
        self.log = self.bench.open(self.config, last_shutdown_clean=False)
        self.bench.clock.sleep(self.config.file_delete_delay_ms + 1)
        for ending in (".deleted", ".cleaned", ".swap"):
            assert not self.bench.names(ending)
        assert keys_in(self.log) == keys
        assert not overflows(self.log)


@pytest.mark.conformance("LogCleanerTest.testRecoveryAfterCrash")
def test_recovery_after_crash(bench):
    crashing = Crashing(bench)
    all_keys = crashing.keys
    # .cleaned is written, none of it renamed: the old segments count.
    assert len(crashing.clean()) < len(all_keys)
    crashing.log.close()
    crashing.rename_first(".cleaned")
    crashing.take_back_deletions()
    crashing.recover_and_check(all_keys)
    # Some of .cleaned is renamed to .swap: the old segments count.
    crashing.clean()
    crashing.log.close()
    records = crashing.rename_first(".cleaned").log
    records.rename_to(records.path.removesuffix(".cleaned") + ".swap")
    crashing.take_back_deletions()
    crashing.recover_and_check(all_keys)
    # All of it is renamed to .swap: the new segment counts.
    cleaned = crashing.clean()
    crashing.log.close()
    crashing.rename_first(".swap")
    crashing.take_back_deletions()
    crashing.recover_and_check(cleaned)
    # The old ones are renamed to .deleted, too.
    cleaned = crashing.append_and_clean()
    crashing.rename_first(".swap")
    crashing.recover_and_check(cleaned)
    # One file of .swap has not got its name yet.
    cleaned = crashing.append_and_clean()
    path = Path(crashing.log.segments[0].time_index.path)
    path.rename(path.with_name(path.name + ".swap"))
    crashing.recover_and_check(cleaned)
    # Only the removal of .deleted is left to do.
    cleaned = crashing.append_and_clean()
    crashing.log.close()
    crashing.recover_and_check(cleaned)
    crashing.log.close()
