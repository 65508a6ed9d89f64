"""What Kafka's SnapshotsTest asks of KRaft checkpoints' names."""

from __future__ import annotations

import random

import pytest

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
