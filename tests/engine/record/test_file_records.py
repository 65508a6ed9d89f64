"""Batches in a file, beyond Kafka's own tests: growth, parts, searches over every format."""

from pathlib import Path

import pytest

from engine.budgets import Budgets
from engine.coding.compression import CompressionType
from engine.errors import InvalidRecordError, LimitExceededError
from engine.files.source_files import SourceRoot
from engine.record.file_records import FileRecords
from engine.units import BatchPosition, FoundTimestamp, TimestampOffset
from tests.builders import Rec, any_batch, batch, empty_batch, message_set, values


@pytest.fixture
def file_of(tmp_path: Path):
    """Writes a file and opens it as a source."""
    with SourceRoot(str(tmp_path)) as root:

        def make(data: bytes):
            (tmp_path / "some.log").write_bytes(data)
            return root.open_fresh("some.log")

        yield make


def test_what_a_file_gains_later_is_not_seen(file_of, tmp_path):
    file = file_of(batch(values("a")))
    records = FileRecords(file)
    with (tmp_path / "some.log").open("ab") as out:
        out.write(batch(values("b"), 1))
    assert [record.value for record in records.records()] == [b"a"]
    assert [record.value for record in FileRecords(file).records()] == [b"a", b"b"]


def test_an_end_below_the_files_size_is_kept_and_one_above_is_not(file_of):
    first, second = batch(values("a")), batch(values("b"), 1)
    file = file_of(first + second)
    assert FileRecords(file, end=len(first)).size == len(first)
    assert FileRecords(file, end=1 << 40).size == len(first + second)
    assert FileRecords(file, len(first)).size == len(second)
    with pytest.raises(ValueError, match="a slice needs an end"):
        FileRecords(file, is_slice=True)


def test_a_part_starts_within_its_whole_and_has_no_negative_size(file_of):
    records = FileRecords(file_of(batch(values("a"))))
    assert records.slice(records.size, 5).size == 0
    for position, size in ((-1, 5), (records.size + 1, 5), (0, -1)):
        with pytest.raises(ValueError, match=r"is not within|is negative"):
            records.slice(position, size)


def test_reading_into_a_buffer_stops_at_the_end_of_the_part(file_of):
    first, second = batch(values("a")), batch(values("b"), 1)
    part = FileRecords(file_of(first + second)).slice(0, len(first))
    buffer = bytearray(len(first + second))
    assert part.read_into(buffer, 10) == len(first) - 10
    assert buffer == first[10:] + bytes(len(second) + 10)
    assert part.read_into(buffer, len(first)) == 0
    assert part.read_into(buffer, len(first) + 1) == 0
    assert part.read_into(memoryview(buffer)[:4], 0) == 4
    assert "some.log" in repr(part)
    assert part.path.endswith("some.log")


def test_a_part_may_be_empty_and_has_no_negative_size(file_of):
    records = FileRecords(file_of(batch(values("a"))))
    assert list(records.slice(0, 0).batches()) == []
    assert records.slice(5, 1).size == 1
    assert (records.is_slice, records.slice(0, 1).is_slice) == (False, True)
    with pytest.raises(ValueError, match="the size -1 is negative"):
        records.slice(0, -1)


@pytest.mark.parametrize(
    ("magic", "codec"), [(0, 1), (1, 1), (1, 0), (2, 0), (2, 4)], ids=lambda value: str(value)
)
def test_every_offset_is_found_in_its_batch_or_the_next(file_of, magic, codec):
    runs = [(0, 3), (5, 2), (20, 4)]
    parts = [
        any_batch(values(*"x" * count), base, CompressionType(codec), magic=magic)
        for base, count in runs
    ]
    records = FileRecords(file_of(b"".join(parts)))
    batches = list(records.batches())
    for target in range(24):
        expected = next(found for found in batches if found.last_offset >= target)
        answer = records.search_for_offset(target, 0)
        assert answer[1:] == (expected.last_offset, expected.file_position, expected.size)
        stated = expected.base_offset if magic == 2 else expected.last_offset
        assert answer.base_offset == stated
    assert records.search_for_offset(24, 0) is None


def test_a_search_starts_where_it_is_told(file_of):
    first, second = batch(values("a")), batch(values("b"), 1)
    records = FileRecords(file_of(first + second))
    assert records.search_for_offset(0, len(first)) == BatchPosition(1, 1, len(first), len(second))


def test_a_timestamp_is_found_in_offset_order_even_where_time_goes_back(file_of):
    recs = [Rec(b"", timestamp=when) for when in (50, 10, 70, 60, 90)]
    parts = [batch(recs[:2], 0, leader_epoch=3), batch(recs[2:4], 2, leader_epoch=4)]
    records = FileRecords(file_of(b"".join([*parts, batch(recs[4:], 4, leader_epoch=5)])))
    for target, start, expected in (
        (0, 0, FoundTimestamp(50, 0, 3)),
        (0, 1, FoundTimestamp(10, 1, 3)),
        (20, 1, FoundTimestamp(70, 2, 4)),
        (65, 0, FoundTimestamp(70, 2, 4)),
        (65, 3, FoundTimestamp(90, 4, 5)),
        (90, 0, FoundTimestamp(90, 4, 5)),
        (91, 0, None),
    ):
        assert records.search_for_timestamp(target, 0, start) == expected
    assert records.search_for_timestamp(0, len(parts[0]), 0) == FoundTimestamp(70, 2, 4)


def test_a_timestamp_in_a_damaged_batch_is_not_answered_with_a_later_one(file_of):
    damaged = batch([Rec(timestamp=5)], 0, section=b"\x00")
    records = FileRecords(file_of(damaged + batch([Rec(timestamp=9)], 1)))
    with pytest.raises(InvalidRecordError):
        records.search_for_timestamp(3, 0, 0)
    assert records.search_for_timestamp(6, 0, 0) == FoundTimestamp(9, 1, 0)


def test_the_largest_timestamp_comes_with_its_batchs_last_offset_and_the_first_wins(file_of):
    parts = [
        message_set([Rec(timestamp=7)], 0, magic=0),
        batch([Rec(timestamp=30), Rec(timestamp=20)], 1),
        batch([Rec(timestamp=30)], 3),
        empty_batch(4, 6, timestamp=25),
    ]
    records = FileRecords(file_of(b"".join(parts)))
    assert records.largest_timestamp_after(0) == TimestampOffset(30, 2)
    assert records.largest_timestamp_after(len(parts[0] + parts[1])) == TimestampOffset(30, 3)
    assert records.largest_timestamp_after(records.end - len(parts[3])) == TimestampOffset(25, 6)
    assert records.largest_timestamp_after(records.end) == TimestampOffset(-1, -1)


def test_a_file_larger_than_kafka_opens_may_be_read_on_request(file_of, tmp_path):
    file = file_of(batch(values("a")))
    with (tmp_path / "some.log").open("r+b") as out:
        out.truncate(2**31 + 100)
    records = FileRecords(file, largest=None)
    assert records.size == 2**31 + 100
    assert next(records.records()).value == b"a"


def test_limits_hold_in_slices_too(file_of):
    records = FileRecords(
        file_of(batch(values("a", "b", "c"))), budgets=Budgets(records_per_batch=2)
    )
    for part in (records, records.slice(0, records.size)):
        with pytest.raises(LimitExceededError):
            list(part.records())
