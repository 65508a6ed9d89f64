"""What Kafka's RemoteLogInputStreamTest asks: the same batches from a stream."""

import io
import os

import pytest

from engine.record.log_input_stream import StreamLogInputStream
from tests.builders import Producer, Rec, any_batch, batch
from tests.conformance.batch_iteration import (
    CODECS,
    FIRST,
    FORMATS,
    RUNS,
    SECOND,
    assert_batch,
    assert_no_producer,
    assert_producer,
)


class Trickle(io.RawIOBase):
    """A stream that gives one byte at a time, as a pipe may."""

    def __init__(self, data: bytes) -> None:
        self.left = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self.left.read(min(size, 1))


def over(data: bytes) -> StreamLogInputStream:
    return StreamLogInputStream(io.BytesIO(data))


@pytest.mark.conformance("RemoteLogInputStreamTest.testSimpleBatchIteration")
@pytest.mark.parametrize("stream", [io.BytesIO, Trickle])
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_simple_batch_iteration(magic, codec, stream):
    first, second = [Rec(b"foo", b"a", 3241324)], [Rec(b"bar", b"b", 234280)]
    data = any_batch(first, 0, codec, magic=magic) + any_batch(second, 1, codec, magic=magic)
    batches = StreamLogInputStream(stream(data))
    for base_offset, records in enumerate((first, second)):
        found = batches.next_batch()
        assert_batch(found, magic, codec, base_offset, records)
        assert_no_producer(found)
    assert batches.next_batch() is None


@pytest.mark.conformance("RemoteLogInputStreamTest.testBatchIterationWithMultipleRecordsPerBatch")
@pytest.mark.parametrize(("magic", "codec"), RUNS)
def test_batch_iteration_with_multiple_records_per_batch(magic, codec):
    batches = over(
        any_batch(FIRST, 0, codec, magic=magic) + any_batch(SECOND, 1, codec, magic=magic)
    )
    for base_offset, records in enumerate((FIRST, SECOND)):
        found = batches.next_batch()
        assert_no_producer(found)
        assert_batch(found, magic, codec, base_offset, records)
    assert batches.next_batch() is None


@pytest.mark.conformance("RemoteLogInputStreamTest.testBatchIterationV2")
@pytest.mark.parametrize("codec", CODECS)
def test_batch_iteration_v2(codec):
    idempotent = Producer(id=83843, epoch=15, sequence=234)
    transactional = Producer(id=83843, epoch=15, sequence=236)
    batches = over(
        batch(FIRST, 15, codec, producer=idempotent, leader_epoch=9832)
        + batch(SECOND, 27, codec, producer=transactional, transactional=True, leader_epoch=9832)
    )
    found = batches.next_batch()
    assert_producer(found, idempotent, 2, transactional=False)
    assert_batch(found, 2, codec, 15, FIRST)
    assert found.leader_epoch == 9832
    found = batches.next_batch()
    assert_producer(found, transactional, 3, transactional=True)
    assert_batch(found, 2, codec, 27, SECOND)
    assert found.leader_epoch == 9832
    assert batches.next_batch() is None


@pytest.mark.conformance("RemoteLogInputStreamTest.testBatchIterationIncompleteBatch")
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_batch_iteration_incomplete_batch(magic, codec):
    first, second = [Rec(b"foo", None, 100)], [Rec(b"bar", None, 200)]
    whole = any_batch(first, 0, codec, magic=magic) + any_batch(second, 1, codec, magic=magic)
    batches = over(whole[:-13])
    found = batches.next_batch()
    assert_no_producer(found)
    assert_batch(found, magic, codec, 0, first)
    assert batches.next_batch() is None


def test_batches_come_out_of_a_pipe():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as out:
        out.write(batch(FIRST) + batch(SECOND, 2)[:20])
    with os.fdopen(reading, "rb", buffering=0) as source:
        batches = StreamLogInputStream(source)
        assert_batch(batches.next_batch(), 2, 0, 0, FIRST)
        assert batches.next_batch() is None
