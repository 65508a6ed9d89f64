"""What Kafka's OffsetCheckpointFileWithFailureHandlerTest asks of reading."""

from __future__ import annotations

import pytest

from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.errors import CorruptCheckpointError
from engine.units import TopicPartition


@pytest.mark.conformance("OffsetCheckpointFileWithFailureHandlerTest.shouldHandleMultipleLines")
def test_should_handle_multiple_lines() -> None:
    offsets = {TopicPartition("foo", number): 5 for number in range(1, 6)}
    offsets |= {TopicPartition("bar", number): 10 for number in range(6, 11)}
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    data = "\n".join(["0", "10", *lines, ""]).encode()
    assert parse_offset_checkpoint(data) == offsets


@pytest.mark.conformance(
    "OffsetCheckpointFileWithFailureHandlerTest.shouldReturnEmptyMapForEmptyFile"
)
def test_should_return_empty_map_for_empty_file() -> None:
    assert parse_offset_checkpoint(b"") == {}
    assert parse_offset_checkpoint(b"0\n0\n") == {}


@pytest.mark.conformance(
    "OffsetCheckpointFileWithFailureHandlerTest.shouldThrowIfVersionIsNotRecognised"
)
def test_should_throw_if_version_is_not_recognised() -> None:
    with pytest.raises(CorruptCheckpointError, match="version"):
        parse_offset_checkpoint(b"1\n1\nfoo 5 10\n")
