"""What Kafka's UnifiedLogTest asks of appending: offsets, what is refused, when the log rolls."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from engine.errors import (
    InvalidRecordError,
    OffsetsOutOfOrderError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    RecordValidationError,
    UnexpectedAppendOffsetError,
)
from engine.record.attributes import TimestampType
from engine.record.encoding.building import records_of
from engine.record.memory_records import MemoryRecords
from engine.units import NO_TIMESTAMP
from engine.writing.log_config import LogConfig
from engine.writing.state.append_origin import AppendOrigin
from tests.conformance.unified_log_steps import (
    CODECS,
    LARGEST,
    CompressionType,
    LogBench,
    append_many,
    batches_at,
    create_empty_logs,
    joined,
    one,
    rec,
    recs,
)

MIB = 1024 * 1024
HOUR = 60 * 60
"""Of a clock on which a segment gets old in seconds, as in Kafka's tests."""


@pytest.mark.conformance("UnifiedLogTest.testAppendAsLeaderWithRaftLeader")
def test_append_as_leader_with_raft_leader(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=MIB)

    def append(offset: int) -> None:
        records = records_of(*recs("abc", bench.now), base_offset=offset, partition_leader_epoch=0)
        log.append_as_leader(records, 0, AppendOrigin.RAFT_LEADER)

    append(0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    with pytest.raises(UnexpectedAppendOffsetError):
        append(1)
    assert log.log_end_offset == 3
    append(3)
    assert log.log_end_offset == 6


@pytest.mark.conformance("UnifiedLogTest.testAppendInfoFirstOffset")
def test_append_info_first_offset(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=MIB)
    records = records_of(*recs("abc", bench.now))
    assert log.append_as_leader(records, 0).first_offset == 0
    assert log.append_as_leader(records, 0).first_offset == 3
    log.roll()
    assert log.append_as_leader(records, 0).first_offset == 6


@pytest.mark.conformance("UnifiedLogTest.testTimeBasedLogRollDuringAppend")
def test_time_based_log_roll_during_append(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open(LogConfig(segment_ms=HOUR), producer_id_expiration_ms=24 * 60)
    assert len(log.segments) == 1

    bench.clock.sleep(HOUR + 1)
    log.append_as_leader(one(), 0)
    assert len(log.segments) == 1, "an empty segment does not roll"
    log.append_as_leader(one(), 0)
    assert len(log.segments) == 2, "without timestamps, the wall clock counts"
    for count in (3, 4):
        bench.clock.sleep(HOUR + 1)
        log.append_as_leader(one(), 0)
        assert len(log.segments) == count

    timestamp = bench.now + HOUR + 1
    log.append_as_leader(one(timestamp=timestamp), 0)
    assert len(log.segments) == 4, "the first record of the segment has no timestamp"
    bench.clock.sleep(HOUR + 1)
    log.append_as_leader(one(timestamp=timestamp), 0)
    assert len(log.segments) == 5
    bench.clock.sleep(HOUR + 1)
    log.append_as_leader(one(timestamp=timestamp), 0)
    assert len(log.segments) == 5, "the timestamp of the first record counts, not the wall clock"
    log.append_as_leader(one(timestamp=bench.now), 0)
    assert len(log.segments) == 6

    bench.clock.sleep(HOUR + 1)
    log.append_as_leader(MemoryRecords(b""), 0)
    assert len(log.segments) == 6, "nothing to append does not roll"


@pytest.mark.conformance("UnifiedLogTest.testTimeBasedLogRollJitter")
def test_time_based_log_roll_jitter(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    jitter = 20 * 60
    log = bench.log(segment_ms=HOUR, segment_jitter_ms=jitter)
    assert len(log.segments) == 1
    log.append_as_leader(bench.at_now(), 0)
    bench.clock.sleep(HOUR - jitter)
    log.append_as_leader(bench.at_now(), 0)
    assert len(log.segments) == 1, "earlier than any jitter"
    bench.clock.sleep(jitter - log.active_segment.roll_jitter_ms + 1)
    log.append_as_leader(bench.at_now(), 0)
    assert len(log.segments) == 2


@pytest.mark.conformance("UnifiedLogTest.testSizeBasedLogRoll")
def test_size_based_log_roll(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=10 * (bench.at_now().size - 1))
    assert len(log.segments) == 1
    append_many(log, 11, bench.at_now)
    assert len(log.segments) == 2


@pytest.mark.conformance("UnifiedLogTest.testRollSegmentThatAlreadyExists")
def test_roll_segment_that_already_exists(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_ms=HOUR)

    def append(offset: int, later: int) -> None:
        record = rec(f"v{offset}", bench.now + later, b"k%d" % offset)
        log.append_as_follower(records_of(record, base_offset=offset, partition_leader_epoch=0), 0)

    assert len(log.segments) == 1
    log.roll(0)
    assert len(log.segments) == 1, "an empty segment of the same base offset is made anew"
    append(0, 0)
    assert (len(log.segments), log.active_segment.base_offset) == (1, 0)
    append(1, 10)
    assert log.log_end_offset == 2
    assert [batches_at(log, offset)[0].last_offset for offset in (0, 1)] == [0, 1]

    log.roll()
    assert (len(log.segments), log.active_segment.base_offset) == (2, 2)
    log.active_segment.offset_index.resize(0)
    append(2, 12)
    assert log.active_segment.offset_index.max_entries > 1
    assert batches_at(log, 2)[0].last_offset == 2
    assert len(log.segments) == 2


@pytest.mark.conformance("UnifiedLogTest.testLogSegmentsCallCorrect")
def test_log_segments_call_correct(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=10 * bench.at_now().size)
    assert len(log.segments) == 1
    append_many(log, 22, bench.at_now)
    assert len(log.segments) == 3

    def between(start: int, end: int) -> list[int]:
        return [segment.base_offset for segment in log.segments_between(start, end)]

    assert between(10, 10) == between(15, 15) == []
    assert between(0, 21) == [0, 10, 20]
    assert between(1, 5) == [0]
    assert between(13, 21) == [10, 20]
    assert between(13, 17) == [10]
    with pytest.raises(ValueError, match="above"):
        between(10, 0)


@pytest.mark.conformance("UnifiedLogTest.testLoadEmptyLog")
def test_load_empty_log(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    create_empty_logs(bench.folder, 0)
    log = bench.open()
    assert log.append_as_leader(bench.at_now(), 0).first_offset == 0


@pytest.mark.conformance("UnifiedLogTest.testMessageSetSizeCheck")
def test_message_set_size_check(tmp_path: Path) -> None:
    records = records_of(rec("You"), rec("bethe"))
    log = LogBench(tmp_path).log(segment_size=records.size - 1)
    with pytest.raises(RecordBatchTooLargeError):
        log.append_as_leader(records, 0)
    assert log.log_end_offset == 0


@pytest.mark.conformance("UnifiedLogTest.testMessageSizeCheck")
def test_message_size_check(tmp_path: Path) -> None:
    first = records_of(rec("You"), rec("bethe"))
    second = records_of(
        rec("change (I need more bytes)... blah blah blah."), rec("More padding boo hoo")
    )
    log = LogBench(tmp_path).log(max_message_size=second.size - 1)
    log.append_as_leader(first, 0)
    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(second, 0)
    assert log.log_end_offset == 2


@pytest.mark.conformance("UnifiedLogTest.testMessageSizeCheckInAppendAsFollower")
def test_message_size_check_in_append_as_follower(tmp_path: Path) -> None:
    first = records_of(rec("You"), rec("bethe"), partition_leader_epoch=0)
    second = records_of(
        rec("change (I need more bytes)... blah blah blah."),
        rec("More padding boo hoo"),
        base_offset=5,
        partition_leader_epoch=0,
    )
    log = LogBench(tmp_path).log(max_message_size=second.size - 1)
    log.append_as_follower(first, LARGEST)
    log.append_as_follower(second, LARGEST)
    assert log.log_end_offset == 7


@pytest.mark.conformance("UnifiedLogTest.testCompactedTopicConstraints")
def test_compacted_topic_constraints(tmp_path: Path) -> None:
    keyed = rec("this message has a key", key=b"and here it is")
    another = rec("this message also has a key", key=b"another key")
    unkeyed = rec("this message does not have a key")
    gzip = CompressionType.GZIP
    log = LogBench(tmp_path).log(compact=True, delete=False)
    refused = {
        0: [records_of(unkeyed, keyed), records_of(unkeyed)],
        1: [records_of(keyed, unkeyed, compression=gzip)],
    }
    for place, sets in refused.items():
        for records in sets:
            with pytest.raises(RecordValidationError) as caught:
                log.append_as_leader(records, 0)
            assert isinstance(caught.value.__cause__, InvalidRecordError)
            ((index, message),) = caught.value.batch_index_errors
            assert index == place
            assert "key" in message
    assert log.validation_metrics.no_key_compacted_topic == 3
    assert log.log_end_offset == 0

    log.append_as_leader(records_of(keyed), 0)
    log.append_as_leader(records_of(keyed, another), 0)
    log.append_as_leader(records_of(keyed, compression=gzip), 0)
    assert log.log_end_offset == 4


@pytest.mark.conformance("UnifiedLogTest.testInvalidLeaderEpoch")
def test_invalid_leader_epoch(tmp_path: Path) -> None:
    log = LogBench(tmp_path).open()
    epoch = (log.leader_epoch_cache.latest_epoch or 0) + 1
    digits = recs("0123456789")
    valid = records_of(*digits, base_offset=0, partition_leader_epoch=epoch)
    invalid = records_of(*digits, base_offset=10, partition_leader_epoch=epoch + 1)
    log.append_as_follower(joined(valid, invalid), epoch)
    assert log.log_end_offset == 10
    assert log.leader_epoch_cache.latest_epoch == epoch


@pytest.mark.conformance("UnifiedLogTest.testBuildTimeIndexWhenNotAssigningOffsets")
def test_build_time_index_when_not_assigning_offsets(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=10000, index_interval=1)
    for number in range(100):
        record = rec(str(number), bench.now + number)
        records = records_of(record, base_offset=100 + number, partition_leader_epoch=0)
        log.append_as_follower(records, LARGEST)
    assert sum(len(segment.time_index) for segment in log.segments) == 99
    assert log.active_segment.time_index.last_entry.timestamp == bench.now + 99


@pytest.mark.conformance("UnifiedLogTest.testAppendWithOutOfOrderOffsetsThrowsException")
def test_append_with_out_of_order_offsets_throws_exception(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    records = joined(
        *(
            records_of(
                rec("value", key=b"key"),
                base_offset=offset,
                timestamp_type=TimestampType.LOG_APPEND_TIME,
                log_append_time=bench.now,
                producer_id=1,
                producer_epoch=0,
                base_sequence=0,
                partition_leader_epoch=0,
            )
            for offset in (0, 1, 3, 2, 4)
        )
    )
    with pytest.raises(OffsetsOutOfOrderError):
        log.append_as_follower(records, 0)
    assert log.log_end_offset == 0


@pytest.mark.conformance("UnifiedLogTest.testAppendBelowExpectedOffsetThrowsException")
def test_append_below_expected_offset_throws_exception(tmp_path: Path) -> None:
    log = LogBench(tmp_path).open()
    for text in "01":
        log.append_as_leader(one(text), 0)
    for magic, codec in itertools.product((0, 1, 2), CODECS):
        with pytest.raises(UnexpectedAppendOffsetError):
            log.append_as_follower(records_of(rec("1"), magic=magic, compression=codec), LARGEST)
    assert log.log_end_offset == 2


@pytest.mark.conformance("UnifiedLogTest.testAppendEmptyLogBelowLogStartOffsetThrowsException")
def test_append_empty_log_below_log_start_offset_throws_exception(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    create_empty_logs(bench.folder, 7)
    log = bench.open()
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    for magic, codec in itertools.product((0, 1, 2), CODECS):
        records = records_of(
            *(rec(f"v{n}", key=b"k%d" % n) for n in (1, 2, 3)),
            magic=magic,
            compression=codec,
            base_offset=4,
        )
        with pytest.raises(UnexpectedAppendOffsetError) as caught:
            log.append_as_follower(records, LARGEST)
        assert (caught.value.first_offset, caught.value.last_offset) == (4, 6)


@pytest.mark.conformance("UnifiedLogTest.testAppendWithNoTimestamp")
def test_append_with_no_timestamp(tmp_path: Path) -> None:
    log = LogBench(tmp_path).open()
    info = log.append_as_leader(one("value", NO_TIMESTAMP, b"key"), 0)
    assert info.max_timestamp == NO_TIMESTAMP
    (batch,) = batches_at(log, 0)
    assert [record.timestamp for record in batch.records()] == [NO_TIMESTAMP]


@pytest.mark.conformance("UnifiedLogTest.shouldApplyEpochToMessageOnAppendIfLeader")
def test_should_apply_epoch_to_message_on_append_if_leader(tmp_path: Path) -> None:
    log = LogBench(tmp_path).open()
    log.leader_epoch_cache.assign(72, 50)
    for number in range(50):
        log.append_as_leader(one(str(number)), 72)
    for offset in range(50):
        assert batches_at(log, offset)[0].leader_epoch == 72
