"""What Kafka's SnapshotsTest asks of removing snapshots."""

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
