"""Batches as Kafka's FileLogInputStream finds them: by their lengths, of whatever magic."""

from __future__ import annotations

import pytest

from engine.errors import CorruptRecordError
from engine.record.batch_frame import MAGIC_POSITION
from engine.record.frame_walk import walk_frames
from engine.record.record_batch import RecordBatch
from tests.builders import batch, message, patched, values
from tests.engine.record.test_log_input_stream import BytesFile

FIRST, SECOND = batch(values("a", "b")), batch(values("c"), 2)


def walked(data: bytes) -> list[RecordBatch]:
    return list(walk_frames(BytesFile(data), 0, len(data)))


def with_magic(data: bytes, magic: int) -> bytes:
    return patched(data, MAGIC_POSITION, bytes((magic,)))


@pytest.mark.parametrize("magic", [3, 127])
def test_a_magic_above_2_counts_as_2_and_no_checksum_covers_it(magic: int) -> None:
    first, second = walked(with_magic(FIRST, magic) + SECOND)
    assert (first.magic, first.base_offset, first.last_offset, second.base_offset) == (2, 0, 1, 2)
    first.ensure_valid()
    assert [record.value for record in first.records()] == [b"a", b"b"]


@pytest.mark.parametrize("magic", [128, 255])
def test_a_negative_magic_counts_as_a_message_whose_checksum_covers_it(magic: int) -> None:
    first, second = walked(with_magic(FIRST, magic) + SECOND)
    assert (first.magic, first.last_offset, second.base_offset) == (1, 0, 2)
    with pytest.raises(CorruptRecordError, match="checksum"):
        first.ensure_valid()


def test_a_batch_that_leads_past_the_end_ends_the_walk_before_its_magic_is_looked_at() -> None:
    torn = with_magic(SECOND, 179)[:-1]
    assert [found.base_offset for found in walked(FIRST + torn)] == [0]


def test_a_length_below_that_of_the_smallest_message_ends_the_walk_with_an_error() -> None:
    with pytest.raises(CorruptRecordError, match="the length of a batch is too small") as caught:
        walked(FIRST + patched(SECOND, 8, (13).to_bytes(4, "big")))
    assert (caught.value.position, caught.value.found) == (len(FIRST), 13)


def test_messages_of_magic_0_and_1_are_found_too() -> None:
    parts = [message(4, b"k", b"v", magic=magic) for magic in (0, 1)]
    assert [found.magic for found in walked(b"".join(parts))] == [0, 1]


def test_a_file_that_became_shorter_ends_the_walk_with_an_error_where_it_ends_in_a_header() -> None:
    """As Kafka's readFullyOrFail does: the end is that of the file when the walk began."""
    walk = walk_frames(BytesFile(FIRST + SECOND[:16]), 0, len(FIRST + SECOND))
    assert next(walk).base_offset == 0
    with pytest.raises(CorruptRecordError, match="ends in a header") as caught:
        next(walk)
    assert caught.value.position == len(FIRST)


def test_a_last_batch_that_is_smaller_than_the_header_of_its_magic_is_an_error() -> None:
    small = patched(SECOND, 8, (20).to_bytes(4, "big"))[:32]
    with pytest.raises(CorruptRecordError, match="smaller than its header") as caught:
        walked(FIRST + small)
    assert (caught.value.position, caught.value.found) == (len(FIRST), 32)


def test_no_batch_is_at_a_negative_position() -> None:
    with pytest.raises(ValueError, match="negative position -1"):
        list(walk_frames(BytesFile(FIRST), -1, len(FIRST)))
