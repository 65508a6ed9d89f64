"""Snapshots of the metadata partition (.checkpoint): batches in a file that appears atomically."""

from __future__ import annotations

import os
import secrets
from typing import NamedTuple, Self

from engine.closable import Closable
from engine.disk.disk import DISK, Disk, StrPath, WritableFile
from engine.errors import StateError
from engine.files.file_names import FileState, kraft_checkpoint_name
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.units import Offset
from engine.writing.segment.writable_file_records import WritableFileRecords


class SnapshotId(NamedTuple):
    """End of a snapshot: the first offset that is not in it, and the epoch of the last one."""

    offset: Offset
    epoch: int


class RaftSnapshotWriter(Closable):
    """A snapshot that is being written, under a temporary name until `freeze`.

    `create` makes one. The context manager closes it, and removes it unless it was frozen.
    """

    def __init__(self, file: WritableFile, snapshot_id: SnapshotId, disk: Disk) -> None:
        self.snapshot_id = snapshot_id
        self._file = file
        self._disk = disk
        self._size = 0
        self._is_frozen = False

    @classmethod
    def create(cls, folder: StrPath, snapshot_id: SnapshotId, *, disk: Disk = DISK) -> Self:
        """Return an empty snapshot in the partition's folder, which is created if missing."""
        disk.make_folder(folder)
        name = kraft_checkpoint_name(*snapshot_id).removesuffix(".checkpoint")
        path = os.path.join(folder, f"{name}-{secrets.randbits(63)}.checkpoint.part")
        return cls(disk.open(path, exclusive=True), snapshot_id, disk)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file.path!r}, {self.snapshot_id})"

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    @property
    def is_frozen(self) -> bool:
        """Whether the snapshot is complete."""
        return self._is_frozen

    def append(self, records: MemoryRecords) -> None:
        """Add bytes, of whole batches or not. Raises StateError once frozen, and OSError."""
        self._refuse_frozen()
        self._file.write_at(self._size, records.buffer)
        self._size += records.size

    def freeze(self) -> None:
        """Complete the snapshot: on return it is on the device, under its name, read-only.

        Replaces one of the same id. Raises StateError if frozen already, and OSError.
        """
        self._refuse_frozen()
        part = self._file.path
        folder = os.path.dirname(part)
        self._file.truncate(self._size)  # remains of a failed append
        self._file.sync()
        self._disk.make_read_only(part)
        self._disk.rename(part, snapshot_path(folder, self.snapshot_id))
        self._is_frozen = True
        self._file.close()
        self._disk.sync_folder(folder)

    def close(self) -> None:
        """Close the file, and remove it unless it is frozen. May be called twice."""
        self._file.close()
        if not self._is_frozen:
            self._disk.remove(self._file.path, missing_ok=True)

    def _refuse_frozen(self) -> None:
        if self._is_frozen:
            raise StateError(f"the snapshot {tuple(self.snapshot_id)} is frozen")


class RaftSnapshotReader(Closable):
    """A complete snapshot; `open` opens one.

    Attributes:
        snapshot_id: id of the snapshot.
        records: its batches.
    """

    def __init__(self, records: WritableFileRecords, snapshot_id: SnapshotId) -> None:
        self.records = records
        self.snapshot_id = snapshot_id

    @classmethod
    def open(cls, folder: StrPath, snapshot_id: SnapshotId, *, disk: Disk = DISK) -> Self:
        """Return the snapshot of that id. Raises FileNotFoundError and other OSErrors."""
        path = snapshot_path(folder, snapshot_id)
        records = WritableFileRecords.open(
            path, writable=False, file_already_exists=True, disk=disk
        )
        return cls(records, snapshot_id)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.records.size

    def slice(self, position: int, size: int) -> FileRecords:
        """Return a part of the bytes, of whole batches or not. Raises ValueError outside."""
        return self.records.slice(position, size)

    def close(self) -> None:
        """Close the file. May be called twice."""
        self.records.close_handlers()


def snapshot_path(
    folder: StrPath, snapshot_id: SnapshotId, state: FileState = FileState.LIVE
) -> str:
    """Return the path of a snapshot."""
    return os.path.join(folder, kraft_checkpoint_name(*snapshot_id, state))


def mark_for_delete(folder: StrPath, snapshot_id: SnapshotId, *, disk: Disk = DISK) -> str:
    """Rename a snapshot to be deleted; return the new path. Raises OSError."""
    deleted = snapshot_path(folder, snapshot_id, FileState.DELETED)
    disk.rename(snapshot_path(folder, snapshot_id), deleted)
    return deleted


def delete_if_exists(folder: StrPath, snapshot_id: SnapshotId, *, disk: Disk = DISK) -> bool:
    """Remove a snapshot, marked or not; return whether it existed. Raises OSError."""
    was_live = disk.remove(snapshot_path(folder, snapshot_id), missing_ok=True)
    marked = snapshot_path(folder, snapshot_id, FileState.DELETED)
    return disk.remove(marked, missing_ok=True) or was_live
