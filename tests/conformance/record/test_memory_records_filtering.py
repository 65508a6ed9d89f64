"""What Kafka's MemoryRecordsTest asks of filtering batches, as the log cleaner does."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from engine.broker.cleaning.record_filter import (
    BatchRetention,
    BatchRetentionResult,
    FilterResult,
    filter_to,
)
from engine.coding.compression import CompressionType
from engine.record.attributes import TimestampType
from engine.record.encoding.batch_encoding import BATCH_OVERHEAD, encode_empty_batch
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.memory_records import MemoryRecords
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from tests.conformance.batch_iteration import FORMATS

NOW = 1_700_000_000_000
NONE = CompressionType.NONE
every_format = pytest.mark.parametrize(("magic", "codec"), FORMATS)
Rows = list[tuple[int, bytes | None, bytes | None]]


class Filter:
    """A filter of one answer for batches and a rule for records."""

    def __init__(
        self,
        retention: BatchRetention = BatchRetention.DELETE_EMPTY,
        retain: Callable[[Record], bool] = lambda record: record.key is not None,
        *,
        current_time: int = 0,
        delete_retention_ms: int = 0,
    ) -> None:
        self.retention = retention
        self.retain = retain
        self.current_time = current_time
        self.delete_retention_ms = delete_retention_ms

    def check_batch_retention(self, batch: RecordBatch) -> BatchRetentionResult:
        return BatchRetentionResult(self.retention, contains_marker_for_empty_txn=False)

    def should_retain_record(self, batch: RecordBatch, record: Record) -> bool:
        return self.retain(record)


class Without(Filter):
    """A filter that deletes batches by their last offsets, and no record."""

    def __init__(self, *last_offsets: int) -> None:
        super().__init__(retain=lambda record: True)
        self.last_offsets = last_offsets

    def check_batch_retention(self, batch: RecordBatch) -> BatchRetentionResult:
        is_gone = batch.last_offset in self.last_offsets
        return BatchRetentionResult(BatchRetention.DELETE if is_gone else self.retention)


RETAIN_NON_NULL_KEYS = Filter()


def built(magic: int, codec: CompressionType, base_offset: int, rows: Rows, **how) -> bytes:
    builder = RecordsBuilder(magic=magic, compression=codec, base_offset=base_offset, **how)
    for row in rows:
        builder.append(*row)
    return bytes(builder.build().buffer)


def filtered(data: bytes, record_filter: Filter, **how) -> FilterResult:
    return filter_to(MemoryRecords(data).batches(), record_filter, **how)


def batches_of(result: FilterResult) -> list[RecordBatch]:
    batches = list(MemoryRecords(result.output).batches())
    for batch in batches:
        batch.ensure_valid()
    assert sum(batch.size for batch in batches) == len(result.output)
    return batches


class Simple(NamedTuple):
    """What of a record came through."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def simple(records) -> list[Simple]:
    return [Simple(record.offset, record.timestamp, record.key, record.value) for record in records]


@pytest.mark.conformance("MemoryRecordsTest.testFilterToPreservesPartitionLeaderEpoch")
@every_format
def test_filter_to_preserves_partition_leader_epoch(magic, codec):
    rows = [(10, None, b"a"), (11, b"1", b"b"), (12, None, b"c")]
    data = built(magic, codec, 0, rows, partition_leader_epoch=67)
    (batch,) = batches_of(filtered(data, RETAIN_NON_NULL_KEYS))
    assert batch.leader_epoch == (67 if magic == 2 else -1)


@pytest.mark.conformance("MemoryRecordsTest.testFilterToEmptyBatchRetention")
@pytest.mark.parametrize("is_transactional", [True, False])
@every_format
def test_filter_to_empty_batch_retention(magic, codec, is_transactional):
    rows = [(11, b"2", b"b"), (12, b"3", b"c")]
    how = {
        "producer_id": 23,
        "producer_epoch": 5,
        "base_sequence": 10,
        "is_transactional": is_transactional,
        "partition_leader_epoch": 293,
    }
    if magic < 2:
        with pytest.raises(ValueError, match=f"magic {magic} have no"):
            built(magic, codec, 3, rows, **how)
        return
    data = built(magic, codec, 3, rows, **how)
    result = filtered(data, Filter(BatchRetention.RETAIN_EMPTY, lambda record: False))
    assert (result.messages_read, result.bytes_read) == (2, len(data))
    assert (result.messages_retained, result.bytes_retained) == (0, BATCH_OVERHEAD)
    assert (result.max_offset, result.max_timestamp, result.offset_of_max_timestamp) == (4, 12, 4)
    (batch,) = batches_of(result)
    assert batch.record_count == 0
    assert (batch.max_timestamp, batch.timestamp_type) == (12, TimestampType.CREATE_TIME)
    assert (batch.base_offset, batch.last_offset) == (3, 4)
    assert (batch.producer_id, batch.producer_epoch, batch.leader_epoch) == (23, 5, 293)
    assert (batch.base_sequence, batch.last_sequence) == (10, 11)
    assert batch.is_transactional == is_transactional


def empty_batch() -> bytes:
    return bytes(
        encode_empty_batch(
            producer_id=23,
            producer_epoch=5,
            base_sequence=10,
            base_offset=3,
            last_offset=3,
            partition_leader_epoch=293,
            timestamp_type=TimestampType.CREATE_TIME,
            timestamp=NOW,
            is_transactional=False,
            is_control=False,
        )
    )


@pytest.mark.conformance("MemoryRecordsTest.testEmptyBatchRetention")
def test_empty_batch_retention():
    data = empty_batch()
    result = filtered(data, Filter(BatchRetention.RETAIN_EMPTY, lambda record: False))
    assert (result.messages_read, result.bytes_read) == (0, len(data))
    assert (result.messages_retained, result.bytes_retained) == (0, BATCH_OVERHEAD)
    assert (result.max_offset, result.max_timestamp, result.offset_of_max_timestamp) == (3, NOW, 3)
    assert result.output == data


@pytest.mark.conformance("MemoryRecordsTest.testEmptyBatchDeletion")
@pytest.mark.parametrize("retention", [BatchRetention.DELETE, BatchRetention.DELETE_EMPTY])
def test_empty_batch_deletion(retention):
    result = filtered(empty_batch(), Filter(retention, lambda record: False))
    assert (result.bytes_read, result.output) == (BATCH_OVERHEAD, b"")


@pytest.mark.conformance("MemoryRecordsTest.testBaseTimestampToDeleteHorizonConversion")
@pytest.mark.parametrize("codec", list(CompressionType))
def test_base_timestamp_to_delete_horizon_conversion(codec):
    horizon = (2**31 - 1) // 2
    rows = [(5, b"0", b"0"), (10, b"1", None), (15, b"2", b"2")]
    data = built(2, codec, 0, rows, partition_leader_epoch=998)
    result = filtered(
        data,
        Filter(
            BatchRetention.RETAIN_EMPTY,
            lambda record: True,
            current_time=horizon - 1,
            delete_retention_ms=1,
        ),
    )
    (batch,) = batches_of(result)
    assert batch.delete_horizon_ms == horizon
    assert [record.timestamp for record in batch.records()] == [5, 10, 15]


@pytest.mark.conformance("MemoryRecordsTest.testFilterToBatchDiscard")
@every_format
def test_filter_to_batch_discard(magic, codec):
    data = (
        built(magic, codec, 0, [(10, b"1", b"a")])
        + built(magic, codec, 1, [(11, b"2", b"b"), (12, b"3", b"c")])
        + built(magic, codec, 3, [(13, b"4", b"d"), (20, b"5", b"e"), (15, b"6", b"f")])
        + built(magic, codec, 6, [(16, b"7", b"g")])
    )
    # Without a codec, each message of magic 0 and 1 is a batch.
    kept = [0, 5] if codec or magic == 2 else [0, 1, 3, 4, 5]
    result = filtered(data, Without(2, 6))
    assert [batch.last_offset for batch in batches_of(result)] == kept


@pytest.mark.conformance("MemoryRecordsTest.testFilterToAlreadyCompactedLog")
@every_format
def test_filter_to_already_compacted_log(magic, codec):
    builder = RecordsBuilder(magic=magic, compression=codec)
    builder.append_with_offset(5, 10, None, b"a")
    builder.append_with_offset(8, 11, b"1", b"b")
    builder.append_with_offset(10, 12, None, b"c")
    (batch,) = batches_of(filtered(bytes(builder.build().buffer), RETAIN_NON_NULL_KEYS))
    assert simple(batch.records()) == [Simple(8, 11 if magic else -1, b"1", b"b")]
    assert (batch.base_offset, batch.last_offset) == ((0, 10) if magic == 2 else (8, 8))


@pytest.mark.conformance("MemoryRecordsTest.testFilterToPreservesProducerInfo")
@every_format
def test_filter_to_preserves_producer_info(magic, codec):
    plain = built(magic, codec, 0, [(10, None, b"a"), (11, b"1", b"b"), (12, None, b"c")])
    idempotent = {"producer_id": 23, "producer_epoch": 5, "base_sequence": 10}
    second = [(13, None, b"d"), (14, b"4", b"e"), (15, b"5", b"f")]
    transactional = {
        "producer_id": 99384,
        "producer_epoch": 234,
        "base_sequence": 15,
        "is_transactional": True,
    }
    third = [(16, b"6", b"g"), (17, b"7", b"h"), (18, None, b"i")]
    if magic < 2:
        for rows, how in ((second, idempotent), (third, transactional)):
            with pytest.raises(ValueError, match=f"magic {magic} have no"):
                built(magic, codec, 3, rows, **how)
        return
    data = (
        plain
        + built(2, codec, 3, second, **idempotent)
        + built(2, codec, 3, third, **transactional)
    )
    batches = batches_of(filtered(data, RETAIN_NON_NULL_KEYS))
    facts = [
        (batch.record_count, batch.base_offset, batch.last_offset, batch.is_transactional)
        for batch in batches
    ]
    assert facts == [(1, 0, 2, False), (2, 3, 5, False), (2, 3, 5, True)]
    producers = [
        (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence)
        for batch in batches
    ]
    assert producers == [(-1, -1, -1, -1), (23, 5, 10, 12), (99384, 234, 15, 17)]
    sequences = [[record.sequence for record in batch.records()] for batch in batches]
    assert sequences == [[-1], [11, 12], [15, 16]]
    records = [record for batch in batches for record in batch.records()]
    assert [(record.timestamp, record.key, record.value) for record in records] == [
        (11, b"1", b"b"),
        (14, b"4", b"e"),
        (15, b"5", b"f"),
        (16, b"6", b"g"),
        (17, b"7", b"h"),
    ]


@pytest.mark.conformance("MemoryRecordsTest.testFilterToWithUndersizedBuffer")
@every_format
def test_filter_to_with_undersized_buffer(magic, codec):
    data = (
        built(magic, codec, 0, [(10, None, b"a")])
        + built(magic, codec, 1, [(11, b"1", bytes(128)), (12, b"2", b"c"), (13, None, b"d")])
        + built(magic, codec, 4, [(14, None, b"e"), (15, b"5", b"f"), (16, b"6", b"g")])
        + built(magic, codec, 7, [(17, b"7", bytes(128))])
    )
    records: list[Record] = []
    passes = 0
    while data:
        result = filtered(data, RETAIN_NON_NULL_KEYS, capacity=64)
        data = data[result.bytes_read :]
        records += MemoryRecords(result.output).records()
        passes += 1
    assert [record.key for record in records] == [b"1", b"2", b"5", b"6", b"7"]
    assert passes > 1


@pytest.mark.conformance("MemoryRecordsTest.testFilterTo")
@every_format
def test_filter_to(magic, codec):
    data = (
        built(magic, codec, 0, [(10, None, b"a")])
        + built(magic, codec, 1, [(11, b"1", b"b"), (12, None, b"c")])
        + built(magic, codec, 3, [(13, None, b"d"), (20, b"4", b"e"), (15, b"5", b"f")])
        + built(magic, codec, 6, [(16, b"6", b"g")])
    )
    result = filtered(data, RETAIN_NON_NULL_KEYS)
    assert (result.messages_read, result.messages_retained) == (7, 4)
    assert (result.bytes_read, result.bytes_retained) == (len(data), len(result.output))
    is_many = codec is NONE and magic < 2
    if magic:
        assert result.max_timestamp == 20
        assert result.offset_of_max_timestamp == (4 if is_many else 5)
    if is_many:
        ends, starts, newest = [1, 4, 5, 6], [1, 4, 5, 6], [11, 20, 15, 16]
    elif magic < 2:
        ends, starts, newest = [1, 5, 6], [1, 4, 6], [11, 20, 16]
    else:
        ends, starts, newest = [2, 5, 6], [1, 3, 6], [11, 20, 16]
    batches = batches_of(result)
    assert [batch.base_offset for batch in batches] == starts
    assert [batch.last_offset for batch in batches] == ends
    assert {(batch.magic, batch.compression) for batch in batches} == {(2, codec)}
    assert [batch.max_timestamp for batch in batches] == (newest if magic else [-1] * len(ends))
    assert {batch.timestamp_type for batch in batches} == {TimestampType.CREATE_TIME}
    assert simple(MemoryRecords(result.output).records()) == [
        Simple(1, 11 if magic else -1, b"1", b"b"),
        Simple(4, 20 if magic else -1, b"4", b"e"),
        Simple(5, 15 if magic else -1, b"5", b"f"),
        Simple(6, 16 if magic else -1, b"6", b"g"),
    ]


@pytest.mark.conformance("MemoryRecordsTest.testFilterToPreservesLogAppendTime")
@every_format
def test_filter_to_preserves_log_append_time(magic, codec):
    how = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": NOW}
    if magic == 2:
        how |= {"producer_id": 134234, "producer_epoch": 28, "base_sequence": 777}
    data = (
        built(magic, codec, 0, [(10, None, b"a")], **how)
        + built(magic, codec, 1, [(11, b"1", b"b"), (12, None, b"c")], **how)
        + built(magic, codec, 3, [(13, None, b"d"), (14, b"4", b"e"), (15, b"5", b"f")], **how)
    )
    batches = batches_of(filtered(data, RETAIN_NON_NULL_KEYS))
    assert len(batches) == (3 if codec is NONE and magic < 2 else 2)
    assert {batch.compression for batch in batches} == {codec}
    if magic:
        wanted = (TimestampType.LOG_APPEND_TIME, NOW)
        assert {(batch.timestamp_type, batch.max_timestamp) for batch in batches} == {wanted}
