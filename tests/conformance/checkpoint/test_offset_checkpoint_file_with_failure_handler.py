"""What Kafka's OffsetCheckpointFileWithFailureHandlerTest asks."""

from __future__ import annotations

import pytest

from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.errors import CorruptCheckpointError
from engine.units import EpochEntry, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile


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


@pytest.mark.conformance(
    "OffsetCheckpointFileWithFailureHandlerTest.shouldPersistAndOverwriteAndReloadFile"
)
def test_should_persist_and_overwrite_and_reload_file(tmp_path):
    checkpoint = OffsetCheckpointFile(tmp_path / "checkpoint")
    offsets = {TopicPartition("foo", 1): 5, TopicPartition("bar", 2): 10}
    checkpoint.write(offsets)
    assert checkpoint.read() == offsets
    other = {TopicPartition("foo", 2): 15, TopicPartition("bar", 3): 20}
    checkpoint.write(other)
    assert checkpoint.read() == other
    assert (tmp_path / "checkpoint").read_bytes() == b"0\n2\nfoo 2 15\nbar 3 20\n"
    checkpoint.write({})
    assert checkpoint.read() == {}


@pytest.mark.conformance(
    "OffsetCheckpointFileWithFailureHandlerTest.testWriteIfDirExistsShouldNotThrowWhenDirNotExists"
)
def test_write_if_dir_exists_should_not_throw_when_dir_not_exists(tmp_path):
    folder = tmp_path / "t-0"
    folder.mkdir()
    checkpoint = LeaderEpochCheckpointFile(folder / "test-checkpoint")
    folder.rename(tmp_path / "t-0-renamed")
    checkpoint.write_if_dir_exists([EpochEntry(1, 42)])
    assert not folder.exists()
    with pytest.raises(FileNotFoundError):
        checkpoint.write([EpochEntry(1, 42)])
    assert (tmp_path / "t-0-renamed" / "test-checkpoint").read_bytes() == b""
