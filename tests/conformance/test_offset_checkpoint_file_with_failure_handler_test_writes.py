"""What Kafka's OffsetCheckpointFileWithFailureHandlerTest asks of writing."""

from __future__ import annotations

import pytest

from engine.units import EpochEntry, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from engine.writing.checkpoint.offset_checkpoint_file import OffsetCheckpointFile


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
