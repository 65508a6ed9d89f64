"""What the tests of file and stream input have in common."""

from engine.record.attributes import TimestampType
from engine.record.record_batch import RecordBatch
from tests.builders import CODECS, Producer, Rec, is_valid

FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS if magic == 2 or codec != 4]
"""Every magic with every codec, but zstd, which only magic 2 knows."""
RUNS = [(magic, codec) for magic, codec in FORMATS if magic == 2 or codec]
"""Those that put several records in a batch."""
FIRST = [Rec(b"1", b"a", 3241324), Rec(b"2", b"b", 234280)]
SECOND = [Rec(b"3", b"c", 238423489), Rec(b"4", None, 897839), Rec(None, b"e", 8234020)]


def assert_producer(batch: RecordBatch, producer: Producer, count: int, *, transactional: bool):
    assert (batch.producer_id, batch.producer_epoch) == (producer.id, producer.epoch)
    assert batch.base_sequence == producer.sequence
    assert batch.last_sequence == producer.sequence + count - 1
    assert batch.is_transactional == transactional


def assert_no_producer(batch: RecordBatch):
    assert (batch.producer_id, batch.producer_epoch) == (-1, -1)
    assert (batch.base_sequence, batch.last_sequence) == (-1, -1)
    assert not batch.is_transactional


def assert_batch(batch, magic, codec, base_offset: int, records: list[Rec]):
    assert isinstance(batch, RecordBatch)
    assert (batch.magic, batch.compression) == (magic, codec)
    if magic == 0:
        assert batch.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE
    else:
        assert batch.timestamp_type is TimestampType.CREATE_TIME
        assert batch.max_timestamp == max(record.timestamp for record in records)
    assert (batch.base_offset, batch.last_offset) == (base_offset, base_offset + len(records) - 1)
    assert batch.record_count == (len(records) if magic == 2 else None)
    assert is_valid(batch)
    assert [
        (record.offset, record.key, record.value, record.timestamp) for record in batch.records()
    ] == [
        (base_offset + place, record.key, record.value, record.timestamp if magic else -1)
        for place, record in enumerate(records)
    ]
