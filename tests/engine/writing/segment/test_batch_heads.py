"""What an append takes from headers is what batches say."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from engine.errors import CorruptRecordError
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.writing.segment.batch_heads import batch_heads


@given(
    made=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(-1, 99), st.integers(0, 40))
    ),
    torn=st.integers(0, 80),
)
def test_heads_are_those_of_the_whole_batches(
    made: list[tuple[int, int, int, int]], torn: int
) -> None:
    data, offset = b"", 5
    for magic, count, timestamp, size in made:
        record = SimpleRecord(value=bytes(size), timestamp=timestamp)
        data += bytes(records_of(*[record] * count, base_offset=offset, magic=magic).buffer)
        offset += count
    records = MemoryRecords(data[: max(len(data) - torn, 0)], file_position=1000)
    assert list(batch_heads(records)) == [
        (batch.last_offset, batch.max_timestamp, batch.size) for batch in records.batches()
    ]


@pytest.mark.parametrize(("place", "value"), [(16, 3), (8, 0x80), (11, 5)])
def test_a_frame_that_cannot_be_is_refused_where_it_is(place: int, value: int) -> None:
    first = bytes(records_of(SimpleRecord(value=b"first")).buffer)
    second = bytearray(records_of(SimpleRecord(value=b"v" * 30), base_offset=1).buffer)
    if place == 11:
        second[8:12] = bytes(4)
    second[place] = value
    heads = batch_heads(MemoryRecords(first + bytes(second)))
    assert next(heads) == (0, -1, len(first))
    with pytest.raises(CorruptRecordError) as caught:
        next(heads)
    assert caught.value.position == len(first)
