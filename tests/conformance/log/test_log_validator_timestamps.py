"""What Kafka's LogValidatorTest asks of a leader: offsets, timestamps and formats of what it takes."""

from __future__ import annotations

import pytest

from engine.broker.append.validation_result import ValidationResult
from engine.coding.compression import CompressionType
from engine.record.encoding import building
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from tests.builders import is_valid
from tests.conformance.log_validation import (
    CREATE_TIME,
    GZIP,
    HELLO,
    LOG_APPEND_TIME,
    NONE,
    NOW,
    OFFSET,
    check_base_timestamp,
    check_log_append_time,
    check_offsets,
    check_stats,
    validated,
    values_of,
)

STAMPS = (NOW - 1, NOW + 1, NOW)
"""The second record is the newest."""
PRODUCER = {
    "producer_id": 1324,
    "producer_epoch": 10,
    "base_sequence": 984,
    "is_transactional": True,
    "partition_leader_epoch": 40,
}
NOBODY = dict.fromkeys(PRODUCER, -1) | {"is_transactional": False}


def stamped(magic: int, codec: CompressionType) -> MemoryRecords:
    records = [SimpleRecord(value=v, timestamp=t) for v, t in zip(HELLO, STAMPS, strict=True)]
    producer = PRODUCER if magic == 2 else {}
    return building.records_of(*records, magic=magic, compression=codec, **producer)


def check_kept(result: ValidationResult, magic: int) -> None:
    """All fields are those of the producer, and so are the timestamps."""
    wanted = PRODUCER if magic == 2 else NOBODY
    stamps = []
    for batch in result.records.batches():
        assert is_valid(batch)
        assert batch.timestamp_type is CREATE_TIME
        check_base_timestamp(batch, STAMPS[0])
        assert batch.producer_id == wanted["producer_id"]
        assert batch.producer_epoch == wanted["producer_epoch"]
        assert batch.base_sequence == wanted["base_sequence"]
        assert batch.is_transactional == wanted["is_transactional"]
        assert batch.leader_epoch == wanted["partition_leader_epoch"]
        stamps += [record.timestamp for record in batch.records()]
    assert tuple(stamps) == STAMPS
    assert result.max_timestamp_ms == NOW + 1


def check_up_converted(result: ValidationResult, records: MemoryRecords, timestamp: int) -> None:
    for batch in result.records.batches():
        assert is_valid(batch)
        check_base_timestamp(batch, timestamp)
        assert (batch.max_timestamp, batch.timestamp_type) == (timestamp, CREATE_TIME)
        assert (batch.producer_epoch, batch.producer_id, batch.base_sequence) == (-1, -1, -1)
    assert result.max_timestamp_ms == timestamp
    assert result.message_size_maybe_changed
    check_stats(result.conversion_stats, 3, records, compressed=True)


@pytest.mark.conformance("LogValidatorTest.testCreateTimeUpConversionV1ToV2")
def test_create_time_up_conversion_v1_to_v2():
    records = values_of(magic=1, timestamp=NOW, codec=GZIP)
    check_up_converted(validated(records, GZIP), records, NOW)


@pytest.mark.conformance("LogValidatorTest.checkCreateTimeUpConversionFromV0")
@pytest.mark.parametrize("magic", [1, 2])
def test_check_create_time_up_conversion_from_v0(magic):
    records = values_of(magic=0, codec=GZIP)
    check_up_converted(validated(records, GZIP, magic=magic), records, -1)


@pytest.mark.conformance("LogValidatorTest.checkRecompression")
@pytest.mark.parametrize("magic", [1, 2])
def test_check_recompression(magic):
    records = stamped(magic, NONE)
    assert len(list(records.batches())) == (1 if magic == 2 else 3)
    result = validated(records, NONE, GZIP, magic, epoch=40)
    check_kept(result, magic)
    assert len(list(result.records.batches())) == 1
    assert result.message_size_maybe_changed
    check_stats(result.conversion_stats, 3, records, compressed=True)


@pytest.mark.conformance("LogValidatorTest.checkCompressed")
@pytest.mark.parametrize("magic", [1, 2])
def test_check_compressed(magic):
    records = stamped(magic, GZIP)
    result = validated(records, GZIP, magic=magic, epoch=40)
    check_kept(result, magic)
    assert not result.message_size_maybe_changed
    check_stats(result.conversion_stats, 0, records, compressed=True)


@pytest.mark.conformance("LogValidatorTest.checkNonCompressed")
@pytest.mark.parametrize("magic", [1, 2])
def test_check_non_compressed(magic):
    records = stamped(magic, NONE)
    result = validated(records, magic=magic, epoch=40)
    check_kept(result, magic)
    assert len(list(result.records.batches())) == (1 if magic == 2 else 3)
    assert not result.message_size_maybe_changed
    check_stats(result.conversion_stats, 0, records, compressed=False)


@pytest.mark.conformance("LogValidatorTest.checkLogAppendTimeWithoutRecompression")
@pytest.mark.parametrize("magic", [1, 2])
def test_check_log_append_time_without_recompression(magic):
    records = values_of(magic=magic, timestamp=1234, codec=GZIP)
    result = validated(records, GZIP, magic=magic, kind=LOG_APPEND_TIME)
    assert result.records.size == records.size
    for batch in result.records.batches():
        check_log_append_time(batch, NOW, 1234)
    assert result.max_timestamp_ms == NOW
    assert not result.message_size_maybe_changed
    check_stats(result.conversion_stats, 0, records, compressed=True)


@pytest.mark.conformance("LogValidatorTest.checkLogAppendTimeWithRecompression")
@pytest.mark.parametrize("magic", [1, 2])
def test_check_log_append_time_with_recompression(magic):
    records = values_of(magic=0, codec=GZIP)
    result = validated(records, GZIP, magic=magic, kind=LOG_APPEND_TIME)
    assert len(list(result.records.records())) == 3
    for batch in result.records.batches():
        check_log_append_time(batch, NOW, -1)
    assert result.max_timestamp_ms == NOW
    assert result.message_size_maybe_changed
    check_stats(result.conversion_stats, 3, records, compressed=True)


@pytest.mark.conformance("LogValidatorTest.checkLogAppendTimeNonCompressed")
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_check_log_append_time_non_compressed(magic):
    records = values_of(magic=magic, timestamp=1234)
    result = validated(records, magic=magic, kind=LOG_APPEND_TIME)
    assert len(list(result.records.records())) == 3
    if magic:
        for batch in result.records.batches():
            check_log_append_time(batch, NOW, 1234)
    assert result.max_timestamp_ms == (NOW if magic else -1)
    assert not result.message_size_maybe_changed
    check_stats(result.conversion_stats, 0, records, compressed=False)


def check_assigned(
    source: int, target: int, codec: CompressionType, timestamp: int, **named
) -> tuple[ValidationResult, MemoryRecords]:
    records = values_of(magic=source, timestamp=timestamp, codec=codec)
    check_offsets(records, 0)
    result = validated(records, codec, magic=target, offset=OFFSET, **named)
    check_offsets(result.records, OFFSET)
    assert [record.value for record in result.records.records()] == list(HELLO)
    assert {batch.magic for batch in result.records.batches()} == {target}
    check_offsets(records, 0)
    return result, records


@pytest.mark.conformance("LogValidatorTest.testAbsoluteOffsetAssignmentNonCompressed")
def test_absolute_offset_assignment_non_compressed():
    check_assigned(0, 0, NONE, -1)


@pytest.mark.conformance("LogValidatorTest.testAbsoluteOffsetAssignmentCompressed")
def test_absolute_offset_assignment_compressed():
    check_assigned(0, 0, GZIP, -1)


@pytest.mark.conformance("LogValidatorTest.testRelativeOffsetAssignmentNonCompressedV1")
def test_relative_offset_assignment_non_compressed_v1():
    check_assigned(1, 1, NONE, NOW, before=5000, after=5000)


@pytest.mark.conformance("LogValidatorTest.testRelativeOffsetAssignmentNonCompressedV2")
def test_relative_offset_assignment_non_compressed_v2():
    check_assigned(2, 2, NONE, NOW, before=5000, after=5000)


@pytest.mark.conformance("LogValidatorTest.testRelativeOffsetAssignmentCompressedV1")
def test_relative_offset_assignment_compressed_v1():
    check_assigned(1, 1, GZIP, NOW, before=5000, after=5000)


@pytest.mark.conformance("LogValidatorTest.testRelativeOffsetAssignmentCompressedV2")
def test_relative_offset_assignment_compressed_v2():
    check_assigned(2, 2, GZIP, NOW, before=5000, after=5000)


def check_up_conversion(source: int, target: int, codec: CompressionType) -> None:
    result, records = check_assigned(source, target, codec, -1, kind=LOG_APPEND_TIME)
    check_stats(result.conversion_stats, 3, records, compressed=codec is not NONE)


@pytest.mark.conformance(
    "LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV1NonCompressed"
)
def test_offset_assignment_after_up_conversion_v0_to_v1_non_compressed():
    check_up_conversion(0, 1, NONE)


@pytest.mark.conformance(
    "LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV2NonCompressed"
)
def test_offset_assignment_after_up_conversion_v0_to_v2_non_compressed():
    check_up_conversion(0, 2, NONE)


@pytest.mark.conformance("LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV1Compressed")
def test_offset_assignment_after_up_conversion_v0_to_v1_compressed():
    check_up_conversion(0, 1, GZIP)


@pytest.mark.conformance("LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV2Compressed")
def test_offset_assignment_after_up_conversion_v0_to_v2_compressed():
    check_up_conversion(0, 2, GZIP)


@pytest.mark.conformance(
    "LogValidatorTest.testOffsetAssignmentAfterUpConversionV1ToV2NonCompressed"
)
def test_offset_assignment_after_up_conversion_v1_to_v2_non_compressed():
    check_up_conversion(1, 2, NONE)


@pytest.mark.conformance("LogValidatorTest.testOffsetAssignmentAfterUpConversionV1ToV2Compressed")
def test_offset_assignment_after_up_conversion_v1_to_v2_compressed():
    check_up_conversion(1, 2, GZIP)


@pytest.mark.conformance(
    "LogValidatorTest.testOffsetAssignmentAfterDownConversionV1ToV0NonCompressed"
)
def test_offset_assignment_after_down_conversion_v1_to_v0_non_compressed():
    check_assigned(1, 0, NONE, NOW, before=5000, after=5000)


@pytest.mark.conformance("LogValidatorTest.testOffsetAssignmentAfterDownConversionV1ToV0Compressed")
def test_offset_assignment_after_down_conversion_v1_to_v0_compressed():
    check_assigned(1, 0, GZIP, NOW, before=5000, after=5000)


@pytest.mark.conformance(
    "LogValidatorTest.testOffsetAssignmentAfterDownConversionV2ToV1NonCompressed"
)
def test_offset_assignment_after_down_conversion_v2_to_v1_non_compressed():
    check_assigned(2, 1, NONE, NOW, before=5000, after=5000)


@pytest.mark.conformance("LogValidatorTest.testOffsetAssignmentAfterDownConversionV2ToV1Compressed")
def test_offset_assignment_after_down_conversion_v2_to_v1_compressed():
    check_assigned(2, 1, GZIP, NOW, before=5000, after=5000)


@pytest.mark.conformance(
    "LogValidatorTest.testOffsetAssignmentAfterDownConversionV2ToV0NonCompressed"
)
def test_offset_assignment_after_down_conversion_v2_to_v0_non_compressed():
    check_assigned(2, 0, NONE, NOW, before=5000, after=5000)


@pytest.mark.conformance("LogValidatorTest.testOffsetAssignmentAfterDownConversionV2ToV0Compressed")
def test_offset_assignment_after_down_conversion_v2_to_v0_compressed():
    check_assigned(2, 0, GZIP, NOW, before=5000, after=5000)
