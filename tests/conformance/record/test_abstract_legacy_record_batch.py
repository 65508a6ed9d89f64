"""What Kafka's AbstractLegacyRecordBatchTest asks."""

import struct

import pytest

from engine.coding.compression import CompressionType
from engine.errors import InvalidRecordError, UnsupportedForMessageFormatError
from engine.record.attributes import TimestampType
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.encoding.writable_batch import (
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
)
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from tests.builders import Rec, message_set, patched

THREE = [Rec(b"1", b"a", 1), Rec(b"2", b"b", 2), Rec(b"3", b"c", 3)]


def with_last_offset(magic: int, offset: int) -> LegacyRecordBatch:
    data = message_set(THREE, 0, CompressionType.GZIP, magic=magic)
    return LegacyRecordBatch(patched(data, 0, struct.pack(">q", offset)))


@pytest.mark.conformance(
    "AbstractLegacyRecordBatchTest.testIterateCompressedRecordWithWrapperOffsetZero"
)
@pytest.mark.parametrize("magic", [0, 1])
def test_iterate_compressed_record_with_wrapper_offset_zero(magic):
    batch = with_last_offset(magic, 0)
    assert [record.offset for record in batch.records()] == [0, 1, 2]
    assert batch.base_offset == 0


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testInvalidWrapperOffsetV1")
def test_invalid_wrapper_offset_v1():
    with pytest.raises(InvalidRecordError, match="offset of a wrapper"):
        next(with_last_offset(1, 1).records())


TO_WRITE = (
    SimpleRecord(b"a", b"1", 1),
    SimpleRecord(b"b", b"2", 2),
    SimpleRecord(b"c", b"3", 3),
)


def wrapped(magic: int) -> MemoryRecords:
    return records_of(*TO_WRITE, magic=magic, compression=CompressionType.GZIP)


def batch_of(records: MemoryRecords) -> RecordBatch:
    (batch,) = records.batches()
    batch.ensure_valid()
    return batch


def assert_stays_when_refused(magic: int, error: type[Exception], change, *args) -> None:
    records = wrapped(magic)
    before = bytes(records.buffer)
    with pytest.raises(error):
        change(records.buffer, 0, *args)
    assert records.buffer == before


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testSetLastOffsetCompressed")
def test_set_last_offset_compressed():
    records = wrapped(1)
    set_last_offset(records.buffer, 0, 500)
    batch = batch_of(records)
    assert (batch.base_offset, batch.last_offset) == (498, 500)
    assert [record.offset for record in records.records()] == [498, 499, 500]


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testSetNoTimestampTypeNotAllowed")
def test_set_no_timestamp_type_not_allowed():
    assert_stays_when_refused(1, ValueError, set_max_timestamp, TimestampType.NO_TIMESTAMP_TYPE, -1)


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testSetLogAppendTimeNotAllowedV0")
def test_set_log_append_time_not_allowed_v0():
    assert_stays_when_refused(
        0, UnsupportedForMessageFormatError, set_max_timestamp, TimestampType.LOG_APPEND_TIME, 15
    )


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testSetCreateTimeNotAllowedV0")
def test_set_create_time_not_allowed_v0():
    assert_stays_when_refused(
        0, UnsupportedForMessageFormatError, set_max_timestamp, TimestampType.CREATE_TIME, 15
    )


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testSetPartitionLeaderEpochNotAllowedV0")
def test_set_partition_leader_epoch_not_allowed_v0():
    assert_stays_when_refused(0, UnsupportedForMessageFormatError, set_partition_leader_epoch, 15)


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testSetPartitionLeaderEpochNotAllowedV1")
def test_set_partition_leader_epoch_not_allowed_v1():
    assert_stays_when_refused(1, UnsupportedForMessageFormatError, set_partition_leader_epoch, 15)


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testSetLogAppendTimeV1")
def test_set_log_append_time_v1():
    records = wrapped(1)
    set_max_timestamp(records.buffer, 0, TimestampType.LOG_APPEND_TIME, 15)
    batch = batch_of(records)
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 15)
    assert [record.timestamp for record in records.records()] == [15, 15, 15]


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testSetCreateTimeV1")
def test_set_create_time_v1():
    records = wrapped(1)
    set_max_timestamp(records.buffer, 0, TimestampType.CREATE_TIME, 15)
    batch = batch_of(records)
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.CREATE_TIME, 15)
    assert [record.timestamp for record in records.records()] == [1, 2, 3]


@pytest.mark.conformance("AbstractLegacyRecordBatchTest.testZStdCompressionTypeWithV0OrV1")
@pytest.mark.parametrize("magic", [0, 1])
def test_z_std_compression_type_with_v0_or_v1(magic):
    with pytest.raises(ValueError, match=f"magic {magic} have no zstd"):
        records_of(*TO_WRITE, magic=magic, compression=CompressionType.ZSTD)
