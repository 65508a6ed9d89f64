"""What Kafka's LogValidatorTest asks of a leader: what is refused, and why."""

from __future__ import annotations

import pytest

from engine.broker.append.validation_result import OffsetCounter, ValidationMetrics
from engine.coding.compression import Compression, CompressionType
from engine.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordValidationError,
    UnsupportedForMessageFormatError,
)
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding import building, writable_batch
from engine.record.encoding.batch_encoding import encode_empty_batch
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.writing.state.append_origin import AppendOrigin
from tests.builders import message, wrapper
from tests.conformance.log_validation import (
    CREATE_TIME,
    GZIP,
    HELLO,
    LOG_APPEND_TIME,
    LZ4,
    NONE,
    NOW,
    OFFSET,
    SNAPPY,
    ZSTD,
    all_at_offset_zero,
    check_offsets,
    two_batches,
    validated,
    validator,
    values_of,
    with_header_fields,
    with_inner_magic,
)

CODECS = tuple(CompressionType)
HOUR = 3_600_000
SIMPLE = [SimpleRecord(value=value) for value in HELLO]


def refused(records: MemoryRecords, *arguments, **named) -> RecordValidationError:
    with pytest.raises(RecordValidationError) as caught:
        validated(records, *arguments, **named)
    return caught.value


@pytest.mark.conformance("LogValidatorTest.testValidationOfBatchesWithNonSequentialInnerOffsets")
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_validation_of_batches_with_non_sequential_inner_offsets(magic):
    records = all_at_offset_zero(magic, GZIP, 20)
    if magic == 2:
        with pytest.raises(InvalidRecordError):
            validated(records, GZIP, now=0)
    else:
        result = validated(records, GZIP, magic=magic, now=0)
        check_offsets(result.records, 0)
        assert len(list(result.records.records())) == 20


@pytest.mark.conformance("LogValidatorTest.checkOnlyOneBatch")
@pytest.mark.parametrize(
    ("magic", "source", "target"),
    [
        *((magic, GZIP, target) for magic in (0, 1, 2) for target in (NONE, GZIP)),
        *((magic, source, GZIP) for magic in (0, 1, 2) for source in (SNAPPY, LZ4)),
        *((2, NONE, NONE), (2, NONE, GZIP), (2, ZSTD, GZIP)),
    ],
)
def test_check_only_one_batch(magic, source, target):
    with pytest.raises(InvalidRecordError, match="more than one batch"):
        validated(two_batches(magic, source), source, target, magic, now=0)


@pytest.mark.conformance("LogValidatorTest.testBatchWithoutRecordsNotAllowed")
@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_batch_without_records_not_allowed(source, target):
    empty = encode_empty_batch(
        base_offset=0,
        last_offset=5,
        producer_id=1324,
        producer_epoch=10,
        base_sequence=984,
        partition_leader_epoch=40,
        timestamp_type=CREATE_TIME,
        timestamp=NOW,
        is_transactional=True,
        is_control=False,
    )
    with pytest.raises(InvalidRecordError, match="no records"):
        validated(MemoryRecords(empty), source, target, offset=OFFSET)


@pytest.mark.conformance("LogValidatorTest.checkMismatchMagic")
@pytest.mark.parametrize(("magic", "inner"), [(0, 1), (1, 0)])
def test_check_mismatch_magic(magic, inner):
    metrics = ValidationMetrics()
    checking = validator(with_inner_magic(magic, inner, GZIP), GZIP, magic=magic, now=0)
    with pytest.raises(RecordValidationError):
        checking.validate(OffsetCounter(0), metrics)
    assert metrics == ValidationMetrics(invalid_magic=20)


@pytest.mark.conformance("LogValidatorTest.checkAllowMultiBatch")
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("target", [NONE, GZIP])
def test_check_allow_multi_batch(magic, target):
    result = validated(two_batches(magic, NONE), NONE, target, magic, now=0)
    check_offsets(result.records, 0)
    assert [record.value for record in result.records.records()] == [b"a", b"b", b"c"]


def count_overrides(last_offset_delta: int, count: int) -> MemoryRecords:
    return with_header_fields(values_of(timestamp=1234), {57: count, 23: last_offset_delta})


@pytest.mark.conformance("LogValidatorTest.testRecordBatchWithCountOverrides")
def test_record_batch_with_count_overrides():
    result = validated(count_overrides(2, 3), GZIP, kind=LOG_APPEND_TIME)
    assert len(list(result.records.records())) == 3


@pytest.mark.conformance("LogValidatorTest.testInconsistentCountAndOffset")
@pytest.mark.parametrize("delta", [0, 15, -3])
def test_inconsistent_count_and_offset(delta):
    metrics = ValidationMetrics()
    checking = validator(count_overrides(delta, 3), GZIP, kind=LOG_APPEND_TIME)
    with pytest.raises(InvalidRecordError, match="offsets"):
        checking.validate(OffsetCounter(0), metrics)
    assert metrics.invalid_offset == 1


@pytest.mark.conformance("LogValidatorTest.testUnmatchedNumberOfRecords")
@pytest.mark.parametrize(("delta", "count"), [(5, 6), (1, 2)])
def test_unmatched_number_of_records(delta, count):
    with pytest.raises(InvalidRecordError):
        validated(count_overrides(delta, count), GZIP, kind=LOG_APPEND_TIME)


@pytest.mark.conformance("LogValidatorTest.testInvalidCreateTimeNonCompressedV1")
def test_invalid_create_time_non_compressed_v1():
    refused(values_of(magic=1, timestamp=NOW - 1001), magic=1)


@pytest.mark.conformance("LogValidatorTest.testInvalidCreateTimeCompressedV1")
def test_invalid_create_time_compressed_v1():
    refused(values_of(magic=1, timestamp=NOW - 1001, codec=GZIP), GZIP, magic=1)


@pytest.mark.conformance("LogValidatorTest.testInvalidCreateTimeNonCompressedV2")
def test_invalid_create_time_non_compressed_v2():
    refused(values_of(timestamp=NOW - 1001))


@pytest.mark.conformance("LogValidatorTest.testInvalidCreateTimeCompressedV2")
def test_invalid_create_time_compressed_v2():
    refused(values_of(timestamp=NOW - 1001, codec=GZIP), GZIP)


@pytest.mark.conformance("LogValidatorTest.checkInvalidChecksum")
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, LZ4, SNAPPY])
def test_check_invalid_checksum(magic, codec):
    inner = bytearray(message(0, None, b"hello", magic=magic, timestamp=0))
    assert inner[12]
    inner[12] = 0
    records = MemoryRecords(wrapper([bytes(inner)], 0, codec, magic=magic, timestamp=0))
    metrics = ValidationMetrics()
    with pytest.raises(CorruptRecordError, match="checksum"):
        validator(records, codec, magic=magic).validate(OffsetCounter(0), metrics)
    assert metrics == ValidationMetrics(invalid_checksums=1)


@pytest.mark.conformance("LogValidatorTest.checkInvalidSequence")
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("source", CODECS)
def test_check_invalid_sequence(magic, codec, source):
    builder = RecordsBuilder(compression=codec, producer_id=1234, producer_epoch=0, base_sequence=0)
    builder.append(-1, None, b"hello")
    records = with_header_fields(builder.build(), {53: -2})
    metrics = ValidationMetrics()
    with pytest.raises(InvalidRecordError, match="sequence"):
        validator(records, source, codec, magic).validate(OffsetCounter(0), metrics)
    assert metrics == ValidationMetrics(invalid_sequence=1)


@pytest.mark.conformance("LogValidatorTest.checkNoKeyCompactedTopic")
@pytest.mark.parametrize(
    ("magic", "codec"),
    [*((magic, codec) for magic in (0, 1, 2) for codec in (GZIP, LZ4, SNAPPY)), (2, ZSTD)],
)
def test_check_no_key_compacted_topic(magic, codec):
    metrics = ValidationMetrics()
    checking = validator(values_of(magic=magic, codec=codec), codec, magic=magic, compact=True)
    with pytest.raises(RecordValidationError, match="without a key"):
        checking.validate(OffsetCounter(0), metrics)
    assert metrics == ValidationMetrics(no_key_compacted_topic=3)


COMMIT = EndTransactionMarker(ControlRecordType.COMMIT, 0)
MARKER = building.end_transaction_marker(COMMIT, producer_id=23423, producer_epoch=5, timestamp=NOW)


@pytest.mark.conformance("LogValidatorTest.testControlRecordsNotAllowedFromClients")
def test_control_records_not_allowed_from_clients():
    with pytest.raises(InvalidRecordError, match="control"):
        validated(MARKER, before=5000, after=5000, offset=OFFSET)


@pytest.mark.conformance("LogValidatorTest.testDownConversionOfTransactionalRecordsNotPermitted")
def test_down_conversion_of_transactional_records_not_permitted():
    records = building.records_of(
        *SIMPLE, producer_id=1344, producer_epoch=16, base_sequence=0, is_transactional=True
    )
    with pytest.raises(UnsupportedForMessageFormatError, match="transactional"):
        validated(records, GZIP, magic=1, before=5000, after=5000, offset=OFFSET)


@pytest.mark.conformance("LogValidatorTest.testDownConversionOfIdempotentRecordsNotPermitted")
def test_down_conversion_of_idempotent_records_not_permitted():
    records = building.records_of(*SIMPLE, producer_id=1344, producer_epoch=16, base_sequence=0)
    with pytest.raises(UnsupportedForMessageFormatError, match="idempotent"):
        validated(records, GZIP, magic=1, before=5000, after=5000, offset=OFFSET)


@pytest.mark.conformance("LogValidatorTest.testNonIncreasingOffsetRecordBatchHasMetricsLogged")
def test_non_increasing_offset_record_batch_has_metrics_logged():
    builder = RecordsBuilder()
    for offset, value in zip((0, 2, 3), HELLO, strict=True):
        builder.append_with_offset(offset, -1, None, value)
    buffer = bytearray(builder.build().buffer)
    writable_batch.set_last_offset(buffer, 0, 2)
    metrics = ValidationMetrics()
    checking = validator(MemoryRecords(buffer), GZIP, magic=0, before=5000, after=5000)
    with pytest.raises(InvalidRecordError):
        checking.validate(OffsetCounter(0), metrics)
    assert metrics == ValidationMetrics(invalid_offset=1)


def assert_timestamps_refused(error: RecordValidationError, count: int) -> None:
    assert isinstance(error.__cause__, InvalidTimestampError)
    assert [index for index, _ in error.batch_index_errors] == list(range(count))


@pytest.mark.conformance("LogValidatorTest.testInvalidTimestampExceptionHasBatchIndex")
def test_invalid_timestamp_exception_has_batch_index():
    records = values_of(timestamp=NOW - 1001, codec=GZIP)
    assert_timestamps_refused(refused(records, GZIP, magic=1), 3)


@pytest.mark.conformance("LogValidatorTest.testInvalidRecordExceptionHasBatchIndex")
def test_invalid_record_exception_has_batch_index():
    error = refused(with_inner_magic(0, 1, GZIP), GZIP, magic=0, now=0)
    assert isinstance(error.__cause__, InvalidRecordError)
    assert [index for index, _ in error.batch_index_errors] == list(range(20))
    assert all(reason for _, reason in error.batch_index_errors)


@pytest.mark.conformance("LogValidatorTest.testBatchWithInvalidRecordsAndInvalidTimestamp")
def test_batch_with_invalid_records_and_invalid_timestamp():
    inside = [message(0, None, b"timestamp", timestamp=1200)]
    inside += [message(30 * i + 30, None, b"%d" % i, magic=0) for i in range(5)]
    records = MemoryRecords(wrapper(inside, 150, GZIP, timestamp=1200))
    assert_timestamps_refused(refused(records, GZIP, magic=0, now=0), 6)


@pytest.mark.conformance("LogValidatorTest.testRecordWithPastTimestampIsRejected")
def test_record_with_past_timestamp_is_rejected():
    records = values_of(timestamp=NOW - 24 * HOUR - 300_000, codec=GZIP)
    error = refused(records, GZIP, before=24 * HOUR, after=HOUR)
    assert_timestamps_refused(error, 3)


@pytest.mark.conformance("LogValidatorTest.testRecordWithFutureTimestampIsRejected")
def test_record_with_future_timestamp_is_rejected():
    records = values_of(timestamp=NOW + HOUR + 300_000, codec=GZIP)
    error = refused(records, GZIP, before=24 * HOUR, after=HOUR)
    assert_timestamps_refused(error, 3)


@pytest.mark.conformance("LogValidatorTest.testControlRecordsNotCompressed")
def test_control_records_not_compressed():
    result = validated(
        *(MARKER, NONE, SNAPPY),
        before=5000,
        after=5000,
        origin=AppendOrigin.COORDINATOR,
        offset=OFFSET,
    )
    (batch,) = result.records.batches()
    assert not batch.is_compressed
    assert batch.base_offset == OFFSET


@pytest.mark.conformance("LogValidatorTest.testDifferentLevelDoesNotCauseRecompression")
def test_different_level_does_not_cause_recompression():
    values = (b"some" * 256, b"data" * 256)
    hardest = values_of(values, codec=GZIP, level=9)
    easiest = values_of(values, codec=GZIP, level=1)
    assert hardest != easiest
    result = validated(hardest, GZIP, Compression(GZIP, 1), before=5000, after=5000)
    assert result.records == hardest
    assert result.records != easiest


@pytest.mark.conformance("LogValidatorTest.testDifferentCodecCausesRecompression")
def test_different_codec_causes_recompression():
    values = (b"somedata", b"moredata")
    hardest = values_of(values, codec=GZIP, level=9)
    result = validated(hardest, GZIP, Compression(LZ4, 1), before=5000, after=5000)
    assert result.records == values_of(values, codec=LZ4, level=1)
