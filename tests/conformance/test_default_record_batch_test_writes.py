"""What Kafka's DefaultRecordBatchTest asks of writing."""

import pytest

from engine.record.attributes import TimestampType
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from engine.writing.records.building import records_of
from engine.writing.records.simple_record import SimpleRecord
from engine.writing.records.writable_batch import (
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
)


@pytest.fixture
def records() -> MemoryRecords:
    return records_of(
        SimpleRecord(b"a", b"1", 1), SimpleRecord(b"b", b"2", 2), SimpleRecord(b"c", b"3", 3)
    )


def batch_of(records: MemoryRecords) -> RecordBatch:
    (batch,) = records.batches()
    batch.ensure_valid()
    return batch


@pytest.mark.conformance("DefaultRecordBatchTest.testSetLastOffset")
def test_set_last_offset(records):
    set_last_offset(records.buffer, 0, 500)
    batch = batch_of(records)
    assert (batch.base_offset, batch.last_offset) == (498, 500)
    assert [record.offset for record in records.records()] == [498, 499, 500]


@pytest.mark.conformance("DefaultRecordBatchTest.testSetPartitionLeaderEpoch")
def test_set_partition_leader_epoch(records):
    set_partition_leader_epoch(records.buffer, 0, 500)
    assert batch_of(records).leader_epoch == 500


@pytest.mark.conformance("DefaultRecordBatchTest.testSetLogAppendTime")
def test_set_log_append_time(records):
    set_max_timestamp(records.buffer, 0, TimestampType.LOG_APPEND_TIME, 15)
    batch = batch_of(records)
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 15)
    assert [record.timestamp for record in records.records()] == [15, 15, 15]


@pytest.mark.conformance("DefaultRecordBatchTest.testSetNoTimestampTypeNotAllowed")
def test_set_no_timestamp_type_not_allowed(records):
    before = bytes(records.buffer)
    with pytest.raises(ValueError, match="timestamp type"):
        set_max_timestamp(records.buffer, 0, TimestampType.NO_TIMESTAMP_TYPE, -1)
    assert records.buffer == before
