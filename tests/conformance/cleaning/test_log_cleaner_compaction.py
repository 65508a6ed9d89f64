"""What Kafka's LogCleanerTest asks of a cleaning: what stays, what goes, where it stops."""

from __future__ import annotations

import threading

import pytest

from engine.broker.cleaning.cleaner_stats import CleanerStats
from engine.broker.cleaning.log_to_clean import LogToClean
from engine.broker.log.unified_log import UnifiedLog
from engine.errors import CorruptRecordError, LogCleaningAbortedError
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import MAX_INT32, MAX_INT64
from tests.conformance.log_cleaning import (
    CleaningBench,
    FakeOffsetMap,
    append_next,
    append_until,
    clean,
    clean_segments,
    key,
    keys_in,
    last_offsets,
    last_sequences,
    message_with_offset,
    offsets_in,
    producer_of,
    record,
    write_to_log,
)

LARGE = 1024 * 1024


@pytest.fixture
def bench(tmp_path) -> CleaningBench:
    return CleaningBench(tmp_path)


@pytest.mark.conformance("LogCleanerTest.testCleanSegments")
def test_clean_segments(bench):
    log = bench.compacted()
    append_until(log, 4)
    assert keys_in(log) == list(range(log.log_end_offset))
    chosen = FakeOffsetMap(keys=(1, 3, 5, 7, 9))
    segments = log.segments[:3]
    expected_bytes = sum(segment.size for segment in segments)
    remain = [number for number in keys_in(log) if number not in (1, 3, 5, 7, 9)]
    stats = clean_segments(bench.cleaner(), log, segments, chosen)
    assert keys_in(log) == remain
    assert stats.bytes_read == expected_bytes


class SlowToReplace(UnifiedLog):
    """Lets someone else delete old segments before it replaces some."""

    def prepare(self) -> None:
        self.is_ready = threading.Event()
        self.is_deleted = threading.Event()

    def replace_segments(self, new, old):
        self.is_ready.set()
        assert self.is_deleted.wait(5)
        super().replace_segments(new, old)

    def delete_all_old(self) -> None:
        assert self.is_ready.wait(5)
        base = self.active_segment.base_offset
        self.update_high_watermark(base)
        self.maybe_increment_log_start_offset(base, "the leader's did")
        self.update_high_watermark(base)
        self.delete_old_segments()
        self.is_deleted.set()


@pytest.mark.conformance("LogCleanerTest.testCleanSegmentsWithConcurrentSegmentDeletion")
def test_clean_segments_with_concurrent_segment_deletion(bench):
    log = SlowToReplace.create(
        bench.folder, bench.config(delete=True), bench.scheduler, clock=bench.clock
    )
    log.prepare()
    thread = threading.Thread(target=log.delete_all_old)
    thread.start()
    while len(log.segments) < 3:
        log.append_as_leader(record(0, log.log_end_offset), 0)
        log.roll()
    assert len(log.segments) == 3
    first = log.segments[0].log
    expected = first.path + ".deleted"
    offset_map, cleaner = FakeOffsetMap(), bench.cleaner()
    base = log.active_segment.base_offset
    segments = log.segments_between(0, base)
    cleaner.build_offset_map(log, 0, base, offset_map, CleanerStats())
    clean_segments(cleaner, log, segments, offset_map)
    thread.join()
    assert first.path == expected
    assert len(log.segments) == 2


@pytest.mark.conformance("LogCleanerTest.testSizeTrimmedForPreallocatedAndCompactedTopic")
def test_size_trimmed_for_preallocated_and_compacted_topic(bench):
    log = bench.compacted(preallocate=True)
    for number in (0, 1, 0, 1, 0):
        log.append_as_leader(record(number, number), 0)
    log.roll()
    clean(bench.cleaner(2), log, 2)
    assert log.segments[0].log.file.size() == log.segments[0].size < 1024


@pytest.mark.conformance("LogCleanerTest.testDuplicateCheckAfterCleaning")
def test_duplicate_check_after_cleaning(bench):
    cleaner = bench.cleaner()
    log = bench.compacted(segment_size=2048)

    def append(producer_id: int, *keys: int):
        return producer_of(bench, log, producer_id, is_transactional=False)(*keys)

    append(1, 1, 2, 3)
    append(2, 3, 1, 4)
    append(3, 1, 4)
    log.roll()
    clean(cleaner, log, 0)
    assert last_offsets(log) == [2, 5, 7]
    assert last_sequences(log) == {1: 2, 2: 2, 3: 1}
    assert keys_in(log) == [2, 3, 1, 4]
    assert offsets_in(log) == [1, 3, 6, 7]
    log.close()
    log = bench.compacted(segment_size=2048)
    for producer_id, keys, offsets in (
        (1, (1, 2, 3), (0, 2)),
        (3, (1, 4), (6, 7)),
        (2, (3, 1, 4), (3, 5)),
    ):
        info = append(producer_id, *keys)
        assert (info.first_offset, info.last_offset) == offsets
    append(4, 2)
    log.roll()
    clean(cleaner, log, 0)
    assert last_sequences(log) == {1: 2, 2: 2, 3: 1, 4: 0}
    assert last_offsets(log) == [2, 5, 7, 8]
    assert keys_in(log) == [3, 1, 4, 2]
    assert offsets_in(log) == [3, 6, 7, 8]
    log.close()
    log = bench.compacted(segment_size=2048)
    info = append(1, 1, 2, 3)
    assert (info.first_offset, info.last_offset) == (0, 2)


def append_large(log: UnifiedLog) -> None:
    """Records of 1 MiB up to the second segment."""
    while len(log.segments) < 2:
        log.append_as_leader(record(log.log_end_offset, bytes(LARGE)), 0)
    assert keys_in(log) == list(range(log.log_end_offset))


@pytest.mark.conformance("LogCleanerTest.testLargeMessage")
def test_large_message(bench):
    cleaner = bench.cleaner(max_message_size=1024)
    log = bench.compacted(segment_size=LARGE * 16, max_message_size=LARGE * 2)
    append_large(log)
    remain = [number for number in keys_in(log) if number not in (1, 3, 5, 7, 9)]
    clean_segments(cleaner, log, log.segments[:1], FakeOffsetMap(keys=(1, 3, 5, 7, 9)))
    assert keys_in(log) == remain


def log_with_messages_larger_than_allowed(bench: CleaningBench) -> UnifiedLog:
    config = {"segment_size": LARGE * 16, "max_message_size": LARGE * 2}
    log = bench.compacted(**config)
    append_large(log)
    log.update_config(bench.config(**config | {"max_message_size": LARGE // 2}))
    return log


@pytest.mark.conformance("LogCleanerTest.testMessageLargerThanMaxMessageSize")
def test_message_larger_than_max_message_size(bench):
    log = log_with_messages_larger_than_allowed(bench)
    remain = [number for number in keys_in(log) if number not in (1, 3, 5, 7, 9)]
    cleaner = bench.cleaner(max_message_size=1024)
    clean_segments(cleaner, log, log.segments[:1], FakeOffsetMap(keys=(1, 3, 5, 7, 9)))
    assert keys_in(log) == remain


def assert_refuses_to_clean(bench: CleaningBench, log: UnifiedLog, message: str) -> None:
    cleaner = bench.cleaner(max_message_size=1024)
    offset_map = FakeOffsetMap(keys=(1, 3, 5, 7, 9))
    first = log.segments[0]
    size = first.log.file.size()
    with pytest.raises(CorruptRecordError, match=message):
        clean_segments(cleaner, log, [first], offset_map)
    assert log.segments[0] is first
    assert first.log.file.size() == size
    assert not bench.names(".cleaned")


@pytest.mark.conformance("LogCleanerTest.testMessageLargerThanMaxMessageSizeWithCorruptHeader")
def test_message_larger_than_max_message_size_with_corrupt_header(bench):
    log = log_with_messages_larger_than_allowed(bench)
    with open(log.segments[0].log.path, "r+b") as file:
        file.seek(16)
        file.write(b"\xff")
    assert_refuses_to_clean(bench, log, "magic of a batch is unknown: expected 0, 1 or 2, found -1")


@pytest.mark.conformance("LogCleanerTest.testCorruptMessageSizeLargerThanBytesAvailable")
def test_corrupt_message_size_larger_than_bytes_available(bench):
    log = log_with_messages_larger_than_allowed(bench)
    with open(log.segments[0].log.path, "r+b") as file:
        file.truncate(1024)
    assert_refuses_to_clean(bench, log, "longer than the rest of its file.* found 1024 bytes")


@pytest.mark.conformance("LogCleanerTest.testCleaningWithDeletes")
def test_cleaning_with_deletes(bench):
    log = bench.compacted()
    append_until(log, 2)
    end = log.log_end_offset
    for number in range(0, end, 2):
        log.append_as_leader(record(number, None), 0)
    append_until(log, 4)
    clean(bench.cleaner(), log, 0)
    assert not set(range(0, end, 2)) & set(keys_in(log))


@pytest.mark.conformance("LogCleanerTest.testLogCleanerRetainsProducerLastSequence")
def test_log_cleaner_retains_producer_last_sequence(bench):
    log = bench.compacted()
    log.append_as_leader(record(0, 0), 0)
    log.append_as_leader(record(0, 1, producer=1, sequence=0), 0)
    log.append_as_leader(record(0, 2, producer=2, sequence=0), 0)
    log.append_as_leader(record(0, 3, producer=3, sequence=0), 0)
    log.append_as_leader(record(1, 1, producer=2, sequence=1), 0)
    log.roll()
    clean(bench.cleaner(10), log, 0)
    assert last_offsets(log) == [1, 3, 4]
    assert last_sequences(log) == {1: 0, 2: 1, 3: 0}
    assert keys_in(log) == [0, 1]
    assert offsets_in(log) == [3, 4]


@pytest.mark.conformance("LogCleanerTest.testPartialSegmentClean")
def test_partial_segment_clean(bench):
    # The map holds one key: 2 slots, of which three quarters may be taken.
    cleaner = bench.cleaner(2)
    log = bench.compacted()
    for number in (0, 1, 0, 1, 0):
        log.append_as_leader(record(number, number), 0)
    log.roll()
    clean(cleaner, log, 2)
    assert keys_in(log) == [1, 0, 1, 0]
    assert offsets_in(log) == [1, 2, 3, 4]
    clean(cleaner, log, 3)
    assert keys_in(log) == [0, 1, 0]
    assert offsets_in(log) == [2, 3, 4]
    clean(cleaner, log, 4)
    assert keys_in(log) == [1, 0]
    assert offsets_in(log) == [3, 4]


@pytest.mark.conformance("LogCleanerTest.testCleaningWithUncleanableSection")
def test_cleaning_with_uncleanable_section(bench):
    log = bench.compacted()
    distinct, cleanable, total = 10, 2, 7

    def append_up_to(segments: int) -> None:
        while len(log.segments) < segments:
            log.append_as_leader(record(log.log_end_offset % distinct, log.log_end_offset), 0)

    def values_by_segment() -> list[int]:
        return [len({found.value for found in each.log.records()}) for each in log.segments]

    append_up_to(cleanable + 1)
    first_uncleanable = log.log_end_offset + 1
    append_up_to(total - 1)
    before = values_by_segment()
    assert all(count > distinct for count in before[:-1])
    bench.cleaner().clean(LogToClean.of(log, 0, first_uncleanable))
    after = values_by_segment()
    assert all(new < old for old, new in zip(before[:2], after[:2], strict=True))
    assert after[cleanable:] == before[cleanable:]


def unkeyed_in(log: UnifiedLog) -> int:
    return sum(
        found.value is not None and found.key is None
        for segment in log.segments
        for found in segment.log.records()
    )


@pytest.mark.conformance("LogCleanerTest.testCleaningWithUnkeyedMessages")
def test_cleaning_with_unkeyed_messages(bench):
    log = bench.compacted(compact=False, delete=True)
    while len(log.segments) < 2:
        log.append_as_leader(records_of(SimpleRecord(None, key(log.log_end_offset))), 0)
    invalid = unkeyed_in(log)
    size_with_unkeyed = log.size
    append_until(log, 3)
    expected_size = log.size - size_with_unkeyed
    to_clean = LogToClean.of(log, 0, log.active_segment.base_offset)
    _, stats = bench.cleaner().clean(to_clean)
    assert unkeyed_in(log) == 0
    assert log.size == expected_size
    assert stats.invalid_messages_read == invalid > 0


@pytest.mark.conformance("LogCleanerTest.testCleanSegmentsWithAbort")
def test_clean_segments_with_abort(bench):
    def abort(partition):
        raise LogCleaningAbortedError(f"{partition} was aborted")

    log = bench.compacted()
    append_until(log, 4)
    keys = keys_in(log)
    segments = log.segments[:3]
    with pytest.raises(LogCleaningAbortedError):
        clean_segments(bench.cleaner(check_done=abort), log, segments, FakeOffsetMap(keys=keys))
    assert keys_in(log) == keys
    assert not bench.names(".cleaned")


@pytest.mark.conformance("LogCleanerTest.testCleanSegmentsRetainingLastEmptyBatch")
def test_clean_segments_retaining_last_empty_batch(bench):
    log = bench.compacted()
    append_until(log, 4)
    keys = keys_in(log)
    assert keys == list(range(log.log_end_offset))
    log.update_high_watermark(log.segments[3].base_offset)
    clean_segments(bench.cleaner(), log, log.segments[:3], FakeOffsetMap(keys=keys))
    assert len(log.segments) == 2
    (retained,) = log.segments[0].log.batches()
    assert retained.last_offset == log.segments[-1].base_offset - 1
    assert list(retained.records()) == []


@pytest.mark.conformance("LogCleanerTest.testCleanTombstone")
def test_clean_tombstone(bench):
    log = bench.open(bench.config(
        message_timestamp_after_max_ms=MAX_INT64,
        segment_size=1024**3,
        max_index_size=10 * 1024**2,
        compact=False,
        delete=True,
    ))  # fmt: skip
    cleaner = bench.cleaner(10)
    retention = log.config.delete_retention_ms

    def append_and_roll(number: int, value: bytes | None, timestamp: int) -> None:
        log.append_as_leader(records_of(SimpleRecord(key(number), value, timestamp)), 0)
        log.roll()

    def last_offset_of_first_batch() -> int:
        return next(log.segments[0].log.batches()).last_offset

    append_and_roll(0, b"0", bench.now + retention + 10_000)
    clean(cleaner, log, 0)
    append_and_roll(0, None, bench.now - retention - 10_000)
    clean(cleaner, log, 1)
    assert last_offset_of_first_batch() == 1
    append_and_roll(1, b"1", bench.now)
    clean(cleaner, log, 2)
    assert last_offset_of_first_batch() == 1


@pytest.mark.conformance("LogCleanerTest.testCleaningBeyondMissingOffsets")
@pytest.mark.parametrize("gaps", [[(10, 11)], [(10, 15), (25, 30)]])
def test_cleaning_beyond_missing_offsets(bench, gaps):
    log = bench.compacted(segment_size=1024 * 1024)
    start = 0
    for end, following in gaps:
        write_to_log(log, range(start, end), range(start, end))
        log.roll(following)
        start = following
    log.append_as_follower(message_with_offset(1015, 1015, start), MAX_INT32)
    assert clean(bench.cleaner(), log, 0) == log.active_segment.base_offset == start


def test_a_log_is_as_it_was_when_the_disk_fails_while_a_segment_is_written(bench, monkeypatch):
    log = bench.compacted()
    append_until(log, 4)
    append_next(log)
    keys = keys_in(log)
    cleaner = bench.cleaner()
    monkeypatch.setattr(
        "engine.writing.segment.writable_segment.WritableSegment.flush",
        lambda self: (_ for _ in ()).throw(OSError(28, "No space left on device")),
    )
    with pytest.raises(OSError, match="No space"):
        clean_segments(cleaner, log, log.segments[:3], FakeOffsetMap(keys=(1, 3)))
    assert keys_in(log) == keys
    assert not bench.names(".cleaned")
