"""Batches in a buffer, beyond Kafka's own tests."""

import pytest

from engine.budgets import Budgets
from engine.errors import CorruptRecordError, LimitExceededError
from engine.record.memory_records import MemoryRecords
from tests.builders import batch, patched, values

FIRST, SECOND = batch(values("a", "b")), batch(values("c"), 2)


def test_positions_are_those_in_the_file():
    records = MemoryRecords(FIRST + SECOND, file_position=1000, path="some.log")
    assert (records.start, records.end, records.size) == (
        1000,
        1000 + len(FIRST + SECOND),
        len(FIRST + SECOND),
    )
    assert [found.file_position for found in records.batches()] == [1000, 1000 + len(FIRST)]
    part = records.slice(1000 + len(FIRST), len(SECOND))
    (found,) = part.batches()
    assert (found.file_position, found.path) == (1000 + len(FIRST), "some.log")
    assert bytes(found.raw) == SECOND
    with pytest.raises(ValueError, match="is not within"):
        records.slice(999, 1)


def test_bytes_behind_the_last_whole_batch_are_counted_but_not_valid():
    records = MemoryRecords(FIRST + SECOND[:-1])
    assert records.valid_bytes == len(FIRST)
    assert [record.value for record in records.records()] == [b"a", b"b"]


def test_records_obey_the_limits():
    with pytest.raises(LimitExceededError):
        list(MemoryRecords(FIRST).records(Budgets(records_per_batch=1)))


def test_equal_bytes_are_equal_records():
    assert MemoryRecords(FIRST) == MemoryRecords(bytearray(FIRST))
    assert hash(MemoryRecords(FIRST)) == hash(MemoryRecords(bytearray(FIRST)))
    assert MemoryRecords(FIRST) != MemoryRecords(SECOND)
    assert MemoryRecords(FIRST) != FIRST


def test_a_corrupt_frame_is_reported_with_its_place():
    records = MemoryRecords(FIRST + patched(SECOND, 16, b"\x09"), file_position=50, path="some.log")
    with pytest.raises(CorruptRecordError) as raised:
        list(records.batches())
    assert (raised.value.path, raised.value.position) == ("some.log", 50 + len(FIRST))
