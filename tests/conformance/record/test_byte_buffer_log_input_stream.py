"""What Kafka's ByteBufferLogInputStreamTest asks."""

import struct

import pytest

from engine.errors import CorruptRecordError
from engine.record.batch_frame import HEADER
from engine.record.log_input_stream import BufferLogInputStream
from engine.record.memory_records import MemoryRecords
from tests.builders import Rec, batch, patched

FIRST = batch([Rec(b"1", b"a", 15), Rec(b"2", b"b", 20)], 0)
SECOND = batch([Rec(b"3", b"c", 30), Rec(b"4", b"d", 40)], 2)


def assert_second_is_refused(stream: BufferLogInputStream, at: int) -> None:
    assert stream.next_batch() is not None
    with pytest.raises(CorruptRecordError) as raised:
        stream.next_batch()
    assert raised.value.position == at


@pytest.mark.conformance("ByteBufferLogInputStreamTest.iteratorIgnoresIncompleteEntries")
def test_iterator_ignores_incomplete_entries():
    (only,) = MemoryRecords((FIRST + SECOND)[:-5]).batches()
    assert only.last_offset == 1


@pytest.mark.conformance("ByteBufferLogInputStreamTest.iteratorRaisesOnTooSmallRecords")
def test_iterator_raises_on_too_small_records():
    at = len(FIRST)
    data = patched(FIRST + SECOND, at + HEADER.position_of("length"), struct.pack(">i", 9))
    assert_second_is_refused(BufferLogInputStream(data), at)


@pytest.mark.conformance("ByteBufferLogInputStreamTest.iteratorRaisesOnInvalidMagic")
def test_iterator_raises_on_invalid_magic():
    at = len(FIRST)
    data = patched(FIRST + SECOND, at + HEADER.position_of("magic"), bytes([37]))
    assert_second_is_refused(BufferLogInputStream(data), at)


@pytest.mark.conformance("ByteBufferLogInputStreamTest.iteratorRaisesOnTooLargeRecords")
def test_iterator_raises_on_too_large_records():
    first = batch([Rec(b"1", b"a", 15)], 0)
    assert len(first) - 12 <= 60 < len(SECOND) - 12
    assert_second_is_refused(BufferLogInputStream(first + SECOND, largest=60), len(first))
