"""What Kafka's SnapshotsTest asks."""

from __future__ import annotations

import random

import pytest

from engine.broker.raft.raft_snapshot import (
    RaftSnapshotWriter,
    SnapshotId,
    delete_if_exists,
    mark_for_delete,
    snapshot_path,
)
from engine.files.file_names import (
    FileKind,
    FileName,
    FileState,
    kraft_checkpoint_name,
    parse_file_name,
)

CHECKPOINT = FileKind.KRAFT_CHECKPOINT


@pytest.fixture
def snapshot_id() -> tuple[int, int]:
    return random.randrange(2**31 - 1), random.randrange(2**31 - 1)


@pytest.mark.conformance("SnapshotsTest.testValidSnapshotFilename")
def test_valid_snapshot_filename(snapshot_id: tuple[int, int]) -> None:
    offset, epoch = snapshot_id
    name = kraft_checkpoint_name(offset, epoch)
    assert parse_file_name(name) == FileName(CHECKPOINT, offset, FileState.LIVE, epoch)


@pytest.mark.conformance("SnapshotsTest.testValidPartialSnapshotFilename")
def test_valid_partial_snapshot_filename(snapshot_id: tuple[int, int]) -> None:
    offset, epoch = snapshot_id
    name = f"{offset:020d}-{epoch:010d}-{random.randrange(2**63)}.checkpoint.part"
    assert parse_file_name(name) == FileName(CHECKPOINT, offset, FileState.PARTIAL, epoch)


@pytest.mark.conformance("SnapshotsTest.testValidDeletedSnapshotFilename")
def test_valid_deleted_snapshot_filename(snapshot_id: tuple[int, int]) -> None:
    offset, epoch = snapshot_id
    name = kraft_checkpoint_name(offset, epoch, FileState.DELETED)
    assert name.endswith(".checkpoint.deleted")
    assert parse_file_name(name) == FileName(CHECKPOINT, offset, FileState.DELETED, epoch)


@pytest.mark.conformance("SnapshotsTest.testInvalidSnapshotFilenames")
@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.log",
        "00000000000000000000.snapshot",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ],
)
def test_invalid_snapshot_filenames(name: str) -> None:
    parsed = parse_file_name(name)
    assert parsed is not None
    assert parsed.kind is not CHECKPOINT


@pytest.mark.conformance("SnapshotsTest.testDeleteSnapshot")
@pytest.mark.parametrize("rename_before_deleting", [True, False])
def test_delete_snapshot(tmp_path, rename_before_deleting):
    snapshot_id = SnapshotId(random.randrange(2**31 - 1), random.randrange(2**31 - 1))
    with RaftSnapshotWriter.create(tmp_path, snapshot_id) as snapshot:
        snapshot.freeze()
        names = [path.name for path in tmp_path.iterdir()]
        assert [str(tmp_path / name) for name in names] == [snapshot_path(tmp_path, snapshot_id)]
        if rename_before_deleting:
            marked = mark_for_delete(tmp_path, snapshot_id)
            assert [str(path) for path in tmp_path.iterdir()] == [marked]
            assert marked.endswith(".checkpoint.deleted")
        assert delete_if_exists(tmp_path, snapshot.snapshot_id)
        assert list(tmp_path.iterdir()) == []
        assert not delete_if_exists(tmp_path, snapshot.snapshot_id)
