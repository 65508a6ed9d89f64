"""What Kafka's MemoryRecordsTest asks of reading. Positions are absolute here, also in slices of slices."""

import itertools

import pytest

from engine.coding.compression import CompressionType
from engine.errors import CorruptRecordError
from engine.record.attributes import TimestampType
from engine.record.log_input_stream import BufferLogInputStream
from engine.record.memory_records import MemoryRecords
from tests.builders import Producer, Rec, any_batch, batch, is_valid, message_set, patched
from tests.conformance.batch_iteration import FORMATS

MAX_INT = 2**31 - 1
PRODUCER = Producer(id=134234, epoch=28, sequence=777)
ARGUMENTS = [(magic, codec, first) for first in (0, 57) for magic, codec in FORMATS]
every_format = pytest.mark.parametrize(("magic", "codec", "first"), ARGUMENTS)
RECORDS = [
    Rec(b"1", b"a", 1),
    Rec(b"2", b"b", 2),
    Rec(b"3", b"c", 3),
    Rec(b"4", None, 4),
    Rec(None, b"d", 5),
    Rec(None, None, 6),
]


def assert_batch_fields(found, magic, codec, offset):
    assert is_valid(found)
    assert (found.compression, found.base_offset) == (codec, offset)
    if magic == 2:
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (134234, 28, 777)
        assert (found.leader_epoch, found.record_count) == (998, len(RECORDS))
        assert (found.timestamp_type, found.max_timestamp) == (TimestampType.CREATE_TIME, 6)
    else:
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (-1, -1, -1)
        assert (found.leader_epoch, found.record_count) == (-1, None)
        wanted = TimestampType.CREATE_TIME if magic else TimestampType.NO_TIMESTAMP_TYPE
        assert found.timestamp_type is wanted


@pytest.mark.conformance("MemoryRecordsTest.testIterator")
@every_format
def test_iterator(magic, codec, first):
    if magic == 2:
        data = batch(RECORDS, first, codec, producer=PRODUCER, leader_epoch=998)
    else:
        data = message_set(RECORDS, first, codec, magic=magic)
    records = MemoryRecords(data)
    for _ in range(2):
        total = 0
        for found in records.batches():
            assert_batch_fields(found, magic, codec, first + total)
            inside = list(found.records())
            for record in inside:
                wanted = RECORDS[total]
                assert (record.offset, record.key, record.value) == (
                    first + total,
                    wanted.key,
                    wanted.value,
                )
                assert record.sequence == (777 + total if magic == 2 else -1)
                assert record.timestamp == (wanted.timestamp if magic else -1)
                assert record.timestamp_type is found.timestamp_type
                total += 1
            assert found.last_offset == found.base_offset + len(inside) - 1
        assert total == len(RECORDS)


@pytest.mark.conformance("MemoryRecordsTest.testChecksum")
@pytest.mark.parametrize(
    ("magic", "codec", "checksum"),
    [
        (0, CompressionType.NONE, 1978725405),
        (0, CompressionType.LZ4, 66944826),
        (1, CompressionType.NONE, 109425508),
        (1, CompressionType.LZ4, 1407303399),
        (2, CompressionType.NONE, 3851219455),
        (2, CompressionType.LZ4, 2745969314),
    ],
)
def test_checksum(magic, codec, checksum):
    records = [Rec(b"value1", b"key1", 283843), Rec(b"value2", b"key2", 1234)]
    data = (
        batch(records, 0, codec, leader_epoch=-1)
        if magic == 2
        else message_set(records, 0, codec, magic=magic)
    )
    found = next(MemoryRecords(data).batches())
    assert (found.crc, found.computed_crc) == (checksum, checksum)


@pytest.mark.conformance("MemoryRecordsTest.testNextBatchSize")
@every_format
def test_next_batch_size(magic, codec, first):
    appended, record = TimestampType.LOG_APPEND_TIME, [Rec(b"abc", None, 10)]
    if magic == 2:
        data = batch(record, 0, codec, timestamp_type=appended, log_append_time=99)
    else:
        data = message_set(
            record, 0, codec, magic=magic, timestamp_type=appended, log_append_time=99
        )
    assert MemoryRecords(data).next_batch_size() == len(data)
    assert MemoryRecords(data[:1]).next_batch_size() is None
    assert MemoryRecords(data[:12]).next_batch_size() is None
    assert MemoryRecords(data[:17]).next_batch_size() == len(data)
    with pytest.raises(CorruptRecordError):
        MemoryRecords(patched(data, 16, b"\x0a")).next_batch_size()
    with pytest.raises(CorruptRecordError):
        MemoryRecords(patched(data, 11, b"\x00")).next_batch_size()


def runs(magic: int, codec: CompressionType, counts: dict[int, int]) -> MemoryRecords:
    """For each offset a batch (or messages) with so many records."""
    texts = (b"%010d" % n for n in itertools.count())
    return MemoryRecords(
        b"".join(
            any_batch(
                [Rec(next(texts), next(texts), 0) for _ in range(count)], offset, codec, magic=magic
            )
            for offset, count in counts.items()
        )
    )


def batches(records: MemoryRecords) -> list[bytes]:
    return [bytes(found.raw) for found in records.batches()]


@pytest.mark.conformance("MemoryRecordsTest.testSlice")
@every_format
def test_slice(magic, codec, first):
    records = runs(magic, codec, {first: 3, first + 6: 8, first + 15: 4})
    whole = records.slice(0, records.size)
    assert (whole, whole.valid_bytes) == (records, records.valid_bytes)
    items = batches(records)
    second, rest = len(items[0]), records.size - len(items[0])
    for part in (
        records.slice(second, rest),
        records.slice(second, records.size),
        records.slice(second, MAX_INT),
        records.slice(1, records.size - 1).slice(second, records.size),
        records.slice(1, records.size - 1).slice(second, MAX_INT),
    ):
        assert part.size == rest
        assert batches(part) == items[1:]
        assert part.valid_bytes <= part.size
    single = records.slice(second, len(items[1]))
    assert (single.size, batches(single)) == (len(items[1]), [items[1]])
    third = second + len(items[1])
    part = records.slice(second, rest).slice(third, records.size - third)
    assert (part.size, batches(part)) == (records.size - third, items[2:])


@pytest.mark.conformance("MemoryRecordsTest.testSliceInvalidPosition")
@every_format
def test_slice_invalid_position(magic, codec, first):
    records = runs(magic, codec, {first: 1})
    for position in (-1, records.size + 1):
        with pytest.raises(ValueError, match="is not within"):
            records.slice(position, records.size)


@pytest.mark.conformance("MemoryRecordsTest.testSliceInvalidSize")
@every_format
def test_slice_invalid_size(magic, codec, first):
    with pytest.raises(ValueError, match="is negative"):
        runs(magic, codec, {first: 1}).slice(0, -1)


@pytest.mark.conformance("MemoryRecordsTest.testSliceEmptyRecords")
def test_slice_empty_records():
    sliced = MemoryRecords(b"").slice(0, 0)
    assert (sliced.size, batches(sliced)) == (0, [])
    assert BufferLogInputStream(b"").next_batch() is None


@pytest.mark.conformance("MemoryRecordsTest.testSliceForAlreadySlicedMemoryRecords")
@every_format
def test_slice_for_already_sliced_memory_records(magic, codec, first):
    records = runs(magic, codec, {first: 5, first + 5: 10, first + 15: 12, first + 27: 4})
    items = batches(records)
    position = len(items[0]) + len(items[1])
    sliced = records.slice(position, records.size - position)
    assert (sliced.size, batches(sliced)) == (records.size - position, items[2:])
    final = sliced.slice(position + len(items[2]), sliced.size - len(items[2]))
    assert (final.size, batches(final)) == (sliced.size - len(items[2]), items[3:])
