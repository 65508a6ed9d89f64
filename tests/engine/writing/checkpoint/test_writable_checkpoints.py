"""Checkpoints that are written: files that are there at once, disks that fail, marks that stay removed."""

from __future__ import annotations

import pytest

from engine.broker.checkpoint.clean_shutdown_file import CleanShutdownFile
from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.log.topic_identity import PartitionMetadataFile
from engine.disk.disk import Disk
from engine.errors import CorruptCheckpointError
from engine.units import EpochEntry, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile

TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"
OFFSETS = {TopicPartition("orders", 0): 7, TopicPartition("orders", 1): -1}


class FailingDisk(Disk):
    """Fails the call that is named."""

    fails = ""

    def rename(self, old, new):
        if self.fails == "rename":
            raise OSError(5, "Input/output error")
        super().rename(old, new)

    def open(self, path, **how):
        if self.fails == "open" and how.get("exclusive"):
            raise OSError(30, "Read-only file system")
        return super().open(path, **how)


@pytest.mark.parametrize("call", ["rename", "open"])
def test_fault_134_a_write_that_fails_leaves_the_old_content_alone(tmp_path, call):
    disk = FailingDisk()
    checkpoint = OffsetCheckpointFile(tmp_path / "checkpoint", disk)
    checkpoint.write(OFFSETS)
    disk.fails = call
    for write in (checkpoint.write, checkpoint.write_if_dir_exists):
        with pytest.raises(OSError, match=r"Input/output|Read-only"):
            write({})
    assert checkpoint.read() == OFFSETS
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_a_checkpoint_is_there_and_empty_at_once(tmp_path):
    assert OffsetCheckpointFile(tmp_path / "offsets").read() == {}
    assert LeaderEpochCheckpointFile(tmp_path / "epochs").read() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epochs", "offsets"]
    with pytest.raises(FileNotFoundError):
        OffsetCheckpointFile(tmp_path / "no folder" / "offsets")


def test_what_another_wrote_is_read_or_refused(tmp_path):
    checkpoint = LeaderEpochCheckpointFile(tmp_path / "epochs")
    (tmp_path / "epochs").write_bytes(b"0\n1\n3 120\n")
    assert checkpoint.read() == [EpochEntry(3, 120)]
    (tmp_path / "epochs").write_bytes(b"0\n2\n3 120\n")
    with pytest.raises(CorruptCheckpointError, match="the count is wrong"):
        checkpoint.read()


def test_a_topic_id_that_could_not_be_written_is_written_by_the_next_flush(tmp_path):
    disk = FailingDisk()
    file = PartitionMetadataFile(tmp_path / "partition.metadata", disk)
    file.record(TOPIC_ID)
    disk.fails = "rename"
    with pytest.raises(OSError, match="Input/output"):
        file.maybe_flush()
    assert not file.exists()
    disk.fails = ""
    file.maybe_flush()
    assert file.read() == (0, TOPIC_ID)
    (tmp_path / "partition.metadata").write_bytes(b"")
    file.maybe_flush()
    assert (tmp_path / "partition.metadata").read_bytes() == b""
    with pytest.raises(CorruptCheckpointError):
        file.read()


def test_a_topic_id_that_is_none_is_refused_and_another_file_takes_another_id(tmp_path):
    file = PartitionMetadataFile(tmp_path / "partition.metadata")
    with pytest.raises(ValueError, match="not a UUID"):
        file.record("orders")
    file.maybe_flush()
    with pytest.raises(FileNotFoundError):
        file.delete()
    file.record(TOPIC_ID)
    file.maybe_flush()
    file.delete()
    assert not file.exists()


def test_the_mark_of_a_clean_stop_is_gone_from_the_device_when_it_is_removed(tmp_path):
    calls = []

    class SeenDisk(Disk):
        def remove(self, path, missing_ok=False):
            calls.append("remove")
            return super().remove(path, missing_ok)

        def sync_folder(self, path):
            calls.append("sync folder")
            super().sync_folder(path)

    CleanShutdownFile(tmp_path).write(10)
    file = CleanShutdownFile(tmp_path, SeenDisk())
    file.delete()
    assert calls == ["remove", "sync folder"]
    file.delete()
    assert calls == ["remove", "sync folder", "remove"]
