"""What Kafka's DefaultRecordBatchTest asks."""

import gc
import random
import struct
import tracemalloc

import pytest

from engine.coding.compression import CompressionType
from engine.coding.varint import size_of_varint
from engine.errors import CorruptRecordError, InvalidRecordError
from engine.record.attributes import TimestampType
from engine.record.control_records import ControlRecordType, EndTransactionMarker, end_marker_of
from engine.record.default_records import (
    HEADER,
    DefaultRecordBatch,
    PartialRecord,
    decrement_sequence,
    increment_sequence,
)
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.encoding.writable_batch import (
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
)
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from tests.builders import (
    CODECS,
    Producer,
    Rec,
    batch,
    empty_batch,
    end_marker,
    is_valid,
    patched,
)

MAX_INT = 2**31 - 1
NOW = 1_700_000_000_000
THREE = [Rec(b"1", b"a", 1), Rec(b"2", b"b", 2), Rec(b"3", b"c", 3)]
LARGE = random.Random(20231025).randbytes(200 * 1024)


@pytest.mark.conformance("DefaultRecordBatchTest.testWriteEmptyHeader")
@pytest.mark.parametrize(
    "timestamp_type", [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]
)
@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("control", [True, False])
def test_write_empty_header(timestamp_type, transactional, control):
    data = empty_batch(
        15,
        37,
        producer=Producer(id=23423, epoch=145, sequence=983),
        leader_epoch=15,
        timestamp_type=timestamp_type,
        timestamp=NOW,
        transactional=transactional,
        control=control,
    )
    assert len(data) == HEADER.size == 61
    made = DefaultRecordBatch(data)
    assert (made.producer_id, made.producer_epoch, made.base_sequence) == (23423, 145, 983)
    assert made.last_sequence == 983 + 37 - 15
    assert (made.base_offset, made.last_offset, made.leader_epoch) == (15, 37, 15)
    assert (made.is_transactional, made.is_control) == (transactional, control)
    assert made.timestamp_type is timestamp_type
    assert (made.max_timestamp, made.base_timestamp) == (NOW, -1)
    assert list(made.records()) == []


@pytest.mark.conformance("DefaultRecordBatchTest.buildDefaultRecordBatch")
def test_build_default_record_batch():
    data = batch([Rec(b"v", b"a", 1), Rec(b"v", b"b", 2)], 1234567)
    (made,) = MemoryRecords(data).batches()
    assert is_valid(made)
    assert (made.base_offset, made.last_offset, made.max_timestamp) == (1234567, 1234568, 2)
    assert (made.producer_id, made.producer_epoch) == (-1, -1)
    assert (made.base_sequence, made.last_sequence) == (-1, -1)
    assert [record.offset for record in made.records()] == [1234567, 1234568]


@pytest.mark.conformance("DefaultRecordBatchTest.buildDefaultRecordBatchWithProducerId")
def test_build_default_record_batch_with_producer_id():
    producer = Producer(id=23423, epoch=145, sequence=983)
    data = batch([Rec(b"v", b"a", 1), Rec(b"v", b"b", 2)], 1234567, producer=producer)
    (made,) = MemoryRecords(data).batches()
    assert is_valid(made)
    assert (made.base_offset, made.last_offset, made.max_timestamp) == (1234567, 1234568, 2)
    assert (made.producer_id, made.producer_epoch) == (23423, 145)
    assert (made.base_sequence, made.last_sequence) == (983, 984)
    assert [record.sequence for record in made.records()] == [983, 984]


@pytest.mark.conformance("DefaultRecordBatchTest.buildDefaultRecordBatchWithSequenceWrapAround")
def test_build_default_record_batch_with_sequence_wrap_around():
    producer = Producer(id=23423, epoch=145, sequence=MAX_INT - 1)
    records = [Rec(b"v", b"a", 1), Rec(b"v", b"b", 2), Rec(b"v", b"c", 3)]
    (made,) = MemoryRecords(batch(records, 1234567, producer=producer)).batches()
    assert (made.producer_id, made.producer_epoch) == (23423, 145)
    assert (made.base_sequence, made.last_sequence) == (MAX_INT - 1, 0)
    assert [record.sequence for record in made.records()] == [MAX_INT - 1, MAX_INT, 0]


@pytest.mark.conformance("DefaultRecordBatchTest.testSizeInBytes")
def test_size_in_bytes():
    headers = ((b"foo", b"value"), (b"bar", None))
    data = batch(
        [
            Rec(b"value", b"key", NOW),
            Rec(b"value", None, NOW + 30000),
            Rec(None, b"key", NOW + 60000),
            Rec(b"value", b"key", NOW + 60000, headers),
        ]
    )
    made = DefaultRecordBatch(data)
    sizes = [record.size for record in made.records()]
    assert made.size == len(data)
    assert made.size == HEADER.size + sum(size_of_varint(size) + size for size in sizes)


@pytest.mark.conformance("DefaultRecordBatchTest.testInvalidRecordSize")
def test_invalid_record_size():
    made = DefaultRecordBatch(patched(batch(THREE), 8, struct.pack(">i", 10)))
    with pytest.raises(CorruptRecordError, match="smaller than its header"):
        made.ensure_valid()


def with_count(codec: CompressionType, count: int) -> DefaultRecordBatch:
    records = [Rec(text, None, NOW) for text in (b"hello", b"there", b"beautiful")]
    return DefaultRecordBatch(batch(records, codec=codec, record_count=count))


@pytest.mark.conformance("DefaultRecordBatchTest.testInvalidRecordCountTooManyNonCompressedV2")
def test_invalid_record_count_too_many_non_compressed_v2():
    with pytest.raises(InvalidRecordError) as raised:
        list(with_count(CompressionType.NONE, 5).records())
    assert raised.value.index == 3


@pytest.mark.conformance("DefaultRecordBatchTest.testInvalidRecordCountTooLittleNonCompressedV2")
def test_invalid_record_count_too_little_non_compressed_v2():
    with pytest.raises(InvalidRecordError) as raised:
        list(with_count(CompressionType.NONE, 2).records())
    assert raised.value.index == 2


@pytest.mark.conformance("DefaultRecordBatchTest.testInvalidRecordCountTooManyCompressedV2")
def test_invalid_record_count_too_many_compressed_v2():
    with pytest.raises(InvalidRecordError) as raised:
        list(with_count(CompressionType.GZIP, 5).records())
    assert raised.value.index == 3


@pytest.mark.conformance("DefaultRecordBatchTest.testInvalidRecordCountTooLittleCompressedV2")
def test_invalid_record_count_too_little_compressed_v2():
    with pytest.raises(InvalidRecordError) as raised:
        list(with_count(CompressionType.GZIP, 2).records())
    assert raised.value.index == 2


@pytest.mark.conformance("DefaultRecordBatchTest.testInvalidCrc")
def test_invalid_crc():
    sound = batch(THREE)
    made = DefaultRecordBatch(
        patched(sound, HEADER.position_of("last_offset_delta"), struct.pack(">i", 23))
    )
    assert is_valid(DefaultRecordBatch(sound))
    with pytest.raises(CorruptRecordError) as raised:
        made.ensure_valid()
    assert (raised.value.expected, raised.value.found) == (made.crc, made.computed_crc)


@pytest.mark.conformance("DefaultRecordBatchTest.testReadAndWriteControlBatch")
def test_read_and_write_control_batch():
    producer = Producer(id=1, epoch=0)
    data = end_marker(0, producer, commit=True, coordinator_epoch=15, leader_epoch=-1)
    (made,) = MemoryRecords(data).batches()
    assert made.is_control
    assert made.is_transactional
    (record,) = made.records()
    assert end_marker_of(record) == EndTransactionMarker(ControlRecordType.COMMIT, 15)


@pytest.mark.conformance("DefaultRecordBatchTest.testStreamingIteratorConsistency")
@pytest.mark.parametrize("codec", CODECS)
def test_streaming_iterator_consistency(codec):
    made = DefaultRecordBatch(batch(THREE, codec=codec))
    streamed = made.records()
    first = next(streamed)
    whole = list(made.records())
    assert [first, *streamed] == whole
    assert [record.value for record in whole] == [b"1", b"2", b"3"]


@pytest.mark.conformance("DefaultRecordBatchTest.testSkipKeyValueIteratorCorrectness")
@pytest.mark.parametrize("codec", CODECS)
def test_skip_key_value_iterator_correctness(codec):
    records = [
        Rec(b"1", b"a", 1),
        Rec(None, b"b", 2),
        Rec(b"3", None, 3),
        Rec(None, None, 4),
        Rec(LARGE, b"abc", 1000),
        Rec(b"0", b"abc", 9999, ((b"k1", b"v1"), (b"k2", None))),
    ]
    made = DefaultRecordBatch(batch(records, codec=codec))
    # Kafka's sizes count the length in front of a record, ours do not.
    assert list(made.records_without_values()) == [
        PartialRecord(0, 1, -1, 1, 1, 9 - 1),
        PartialRecord(1, 2, -1, 1, -1, 8 - 1),
        PartialRecord(2, 3, -1, -1, 1, 8 - 1),
        PartialRecord(3, 4, -1, -1, -1, 7 - 1),
        PartialRecord(4, 1000, -1, 3, len(LARGE), 15 + len(LARGE) - 3),
        PartialRecord(5, 9999, -1, 3, 1, 23 - 1),
    ]


@pytest.mark.conformance("DefaultRecordBatchTest.testBufferReuseInSkipKeyValueIterator")
@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("size", [1, 512 * 1024])
def test_buffer_reuse_in_skip_key_value_iterator(codec, size):
    value = b"1" if size == 1 else random.Random(1).randbytes(size)
    made = DefaultRecordBatch(batch([Rec(b"0", b"a", 1000), Rec(value, b"b", 9999)], codec=codec))
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        iterator = made.records_without_values()
        next(iterator)
        held, _ = tracemalloc.get_traced_memory()
        assert [record.value_size for record in iterator] == [size]
        iterator.close()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held - before >= size
    assert after - before < 16 * 1024


@pytest.mark.conformance("DefaultRecordBatchTest.testIncrementSequence")
def test_increment_sequence():
    assert increment_sequence(5, 5) == 10
    assert increment_sequence(MAX_INT, 1) == 0
    assert increment_sequence(MAX_INT - 5, 10) == 4


@pytest.mark.conformance("DefaultRecordBatchTest.testDecrementSequence")
def test_decrement_sequence():
    assert decrement_sequence(5, 5) == 0
    assert decrement_sequence(0, 1) == MAX_INT


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
