"""What Kafka's FileLogInputStreamTest asks."""

from pathlib import Path

import pytest

from engine.files.source_files import SourceRoot
from engine.record.log_input_stream import FileLogInputStream
from engine.record.memory_records import MemoryRecords
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


@pytest.fixture
def stream_over(tmp_path: Path):
    """Makes an input stream over a file of these bytes, from its start to its end or as told."""
    with SourceRoot(str(tmp_path)) as root:

        def make(data: bytes, start: int = 0, end: int | None = None) -> FileLogInputStream:
            (tmp_path / "some.log").write_bytes(data)
            file = root.open("some.log")
            return FileLogInputStream(file, start, file.size() if end is None else end)

        yield make


@pytest.mark.conformance("FileLogInputStreamTest.testWriteTo")
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_write_to(stream_over, magic, codec):
    found = stream_over(any_batch([Rec(b"foo")], 0, codec, magic=magic)).next_batch()
    assert found.magic == magic
    (record,) = MemoryRecords(bytes(found.raw)).records()
    assert record.value == b"foo"


@pytest.mark.conformance("FileLogInputStreamTest.testSimpleBatchIteration")
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_simple_batch_iteration(stream_over, magic, codec):
    first, second = [Rec(b"foo", b"a", 3241324)], [Rec(b"bar", b"b", 234280)]
    stream = stream_over(
        any_batch(first, 0, codec, magic=magic) + any_batch(second, 1, codec, magic=magic)
    )
    for base_offset, records in enumerate((first, second)):
        found = stream.next_batch()
        assert_batch(found, magic, codec, base_offset, records)
        assert_no_producer(found)
    assert stream.next_batch() is None


@pytest.mark.conformance("FileLogInputStreamTest.testBatchIterationWithMultipleRecordsPerBatch")
@pytest.mark.parametrize(("magic", "codec"), RUNS)
def test_batch_iteration_with_multiple_records_per_batch(stream_over, magic, codec):
    stream = stream_over(
        any_batch(FIRST, 0, codec, magic=magic) + any_batch(SECOND, 1, codec, magic=magic)
    )
    for base_offset, records in enumerate((FIRST, SECOND)):
        found = stream.next_batch()
        assert_no_producer(found)
        assert_batch(found, magic, codec, base_offset, records)
    assert stream.next_batch() is None


@pytest.mark.conformance("FileLogInputStreamTest.testBatchIterationV2")
@pytest.mark.parametrize("codec", CODECS)
def test_batch_iteration_v2(stream_over, codec):
    idempotent = Producer(id=83843, epoch=15, sequence=234)
    transactional = Producer(id=83843, epoch=15, sequence=236)
    stream = stream_over(
        batch(FIRST, 15, codec, producer=idempotent, leader_epoch=9832)
        + batch(SECOND, 27, codec, producer=transactional, transactional=True, leader_epoch=9832)
    )
    found = stream.next_batch()
    assert_producer(found, idempotent, 2, transactional=False)
    assert_batch(found, 2, codec, 15, FIRST)
    assert found.leader_epoch == 9832
    found = stream.next_batch()
    assert_producer(found, transactional, 3, transactional=True)
    assert_batch(found, 2, codec, 27, SECOND)
    assert found.leader_epoch == 9832
    assert stream.next_batch() is None


@pytest.mark.conformance("FileLogInputStreamTest.testBatchIterationIncompleteBatch")
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_batch_iteration_incomplete_batch(stream_over, magic, codec):
    first, second = [Rec(b"foo", None, 100)], [Rec(b"bar", None, 200)]
    whole = any_batch(first, 0, codec, magic=magic) + any_batch(second, 1, codec, magic=magic)
    stream = stream_over(whole[:-13])
    found = stream.next_batch()
    assert_no_producer(found)
    assert_batch(found, magic, codec, 0, first)
    assert stream.next_batch() is None


@pytest.mark.conformance("FileLogInputStreamTest.testNextBatchSelectionWithMaxedParams")
def test_next_batch_selection_with_maxed_params(stream_over):
    assert stream_over(b"", 2**31 - 1, 2**31 - 1).next_batch() is None


@pytest.mark.conformance("FileLogInputStreamTest.testNextBatchSelectionWithZeroedParams")
def test_next_batch_selection_with_zeroed_params(stream_over):
    assert stream_over(b"", 0, 0).next_batch() is None
