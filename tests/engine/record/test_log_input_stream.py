"""Input streams beyond Kafka's own tests: files that change meanwhile, limits, positions."""

import io

import pytest

from engine.budgets import Budgets
from engine.errors import CorruptRecordError, LimitExceededError
from engine.record.log_input_stream import (
    BufferLogInputStream,
    FileLogInputStream,
    StreamLogInputStream,
    iterate,
    read_batch,
)
from tests.builders import Rec, any_batch, batch, message, patched, values

FIRST, SECOND = batch(values("a", "b")), batch(values("c"), 2)


class BytesFile:
    """A file in memory that counts what is read of it."""

    path = "some.log"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> bytes:
        self.reads.append((position, size))
        return self.data[position : position + size]


def over(data: bytes) -> tuple[BytesFile, FileLogInputStream]:
    file = BytesFile(data)
    return file, FileLogInputStream(file, 0, len(data))


def test_batches_know_where_they_are():
    _, stream = over(FIRST + SECOND)
    assert [found.file_position for found in iterate(stream)] == [0, len(FIRST)]
    buffered = BufferLogInputStream(FIRST + SECOND, file_position=1000, path="some.log")
    assert [found.file_position for found in iterate(buffered)] == [1000, 1000 + len(FIRST)]
    streamed = StreamLogInputStream(io.BytesIO(FIRST + SECOND), path="some.log")
    assert [found.file_position for found in iterate(streamed)] == [0, len(FIRST)]


def test_records_are_read_only_when_they_are_asked_for_and_once():
    large = batch([Rec(bytes(10_000))])
    file, stream = over(large + SECOND)
    first, second = iterate(stream)
    assert (first.last_offset, second.last_offset) == (0, 2)
    assert sum(size for _, size in file.reads) <= 2 * 61
    file.reads.clear()
    first.ensure_valid()
    assert len(list(first.records())) == 1
    assert file.reads == [(0, len(large))]


def test_a_message_smaller_than_the_header_of_magic_2_needs_one_read():
    small = message(0, None, b"x", magic=0)
    file, stream = over(small * 3)
    assert [next(found.records()).value for found in iterate(stream)] == [b"x"] * 3
    assert len(file.reads) == 3


def test_no_byte_behind_the_end_is_read():
    small = message(0, None, b"x", magic=0)
    file = BytesFile(small * 3)
    stream = FileLogInputStream(file, len(small), 2 * len(small))
    assert len(list(iterate(stream))) == 1
    assert file.reads == [(len(small), len(small))]


def test_a_frame_up_to_its_magic_is_looked_at_if_more_follows_as_in_kafka():
    broken = patched(SECOND, 8, (13).to_bytes(4))
    assert over(broken[:17])[1].next_batch() is None
    with pytest.raises(CorruptRecordError, match="too small"):
        over(broken[:18])[1].next_batch()


@pytest.mark.parametrize("magic", [b"\x09", b"\xb3"])
def test_a_batch_across_the_end_of_the_file_ends_it_whatever_its_magic_as_in_kafka(magic):
    broken = patched(SECOND, 16, magic)
    for end in range(18, len(broken)):
        assert [found.last_offset for found in iterate(over(FIRST + broken[:end])[1])] == [1]
    _, whole = over(broken)
    with pytest.raises(CorruptRecordError, match="magic"):
        whole.next_batch()


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_file_cut_anywhere_gives_the_batches_before_the_cut(magic):
    first, second = (any_batch(values("abc"), base, magic=magic) for base in (0, 1))
    for end in range(len(first), len(first + second)):
        _, stream = over((first + second)[:end])
        assert [found.last_offset for found in iterate(stream)] == [0]


def test_a_file_truncated_after_its_size_was_taken_ends_quietly_at_the_header():
    file, stream = over(FIRST + SECOND)
    file.data = FIRST + SECOND[:30]
    assert [found.last_offset for found in iterate(stream)] == [1]


def test_a_file_truncated_after_the_header_was_read_is_reported_when_the_records_are_asked_for():
    file, stream = over(FIRST)
    found = stream.next_batch()
    file.data = FIRST[:65]
    with pytest.raises(CorruptRecordError, match="the file ends inside the batch") as raised:
        found.ensure_valid()
    assert (raised.value.path, raised.value.found) == ("some.log", 65)


def test_a_batch_larger_than_allowed_is_not_loaded():
    data = batch([Rec(bytes(10_000))])
    file = BytesFile(data)
    stream = FileLogInputStream(file, 0, len(data), Budgets(batch_bytes=5000))
    found = stream.next_batch()
    assert found.record_count == 1
    with pytest.raises(LimitExceededError) as raised:
        found.ensure_valid()
    assert raised.value.limit == "batch_bytes"
    assert max(size for _, size in file.reads) <= 61
    with pytest.raises(LimitExceededError):
        StreamLogInputStream(io.BytesIO(data), budgets=Budgets(batch_bytes=5000)).next_batch()


def test_a_batch_of_exactly_the_allowed_size_is_read():
    allowed = Budgets(batch_bytes=len(FIRST))
    assert read_batch(BytesFile(FIRST), 0, len(FIRST), allowed) == FIRST
    assert StreamLogInputStream(io.BytesIO(FIRST), budgets=allowed).next_batch() is not None


def test_a_stream_never_reads_ahead_of_what_is_there_whatever_the_length_claims():
    class Counting(io.BytesIO):
        asked = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.asked = max(self.asked, size or 0)
            return super().read(size)

    source = Counting(patched(FIRST, 8, b"\x0f\x00\x00\x00"))
    assert StreamLogInputStream(source).next_batch() is None
    assert source.asked <= 1 << 20


def test_corrupt_frames_are_reported_with_their_place():
    broken = patched(SECOND, 16, b"\x09")
    for stream in (
        over(FIRST + broken)[1],
        StreamLogInputStream(io.BytesIO(FIRST + broken), path="some.log"),
        BufferLogInputStream(FIRST + broken, path="some.log"),
    ):
        assert stream.next_batch() is not None
        with pytest.raises(CorruptRecordError) as raised:
            stream.next_batch()
        assert (raised.value.path, raised.value.position) == ("some.log", len(FIRST))


def test_a_batch_is_read_whole_or_not_at_all():
    assert read_batch(BytesFile(FIRST), 0, len(FIRST), Budgets()) == FIRST


@pytest.mark.parametrize("size", [0, 16])
def test_a_file_that_became_shorter_ends_where_it_ends_in_a_header(size: int) -> None:
    file, stream = over(FIRST + SECOND)
    file.data = FIRST + SECOND[:size]
    assert [found.base_offset for found in iterate(stream)] == [0]
