"""A producer snapshot in a log's folder, by name; what is in it is read elsewhere."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from engine.disk import DISK, Disk
from engine.file_names import FileKind, FileState, parse_file_name
from engine.units import Offset

log = logging.getLogger(__name__)


class SnapshotFile:
    """The snapshot of the state before an offset.

    Attributes:
        offset: the one in its name.
        path: where it is now; renaming changes it.
    """

    __slots__ = ("_disk", "offset", "path")

    def __init__(self, path: str | os.PathLike[str], offset: Offset, disk: Disk = DISK) -> None:
        self.path = Path(path)
        self.offset = offset
        self._disk = disk

    def __repr__(self) -> str:
        return f"SnapshotFile({self.path})"

    def delete_if_exists(self) -> bool:
        """Remove the file; whether it was there."""
        deleted = self._disk.remove(self.path, missing_ok=True)
        log.info("%s %s", "deleted" if deleted else "did not find", self.path)
        return deleted

    def update_parent_dir(self, folder: str | os.PathLike[str]) -> None:
        """Follow the log's folder, which has another name now."""
        self.path = Path(folder, self.path.name)

    def rename_to_delete(self) -> None:
        """Give it the ending of files to delete. Raises FileNotFoundError."""
        renamed = self.path.with_name(self.path.name + FileState.DELETED.value)
        try:
            self._disk.rename(self.path, renamed)
        finally:
            self.path = renamed


def list_snapshot_files(folder: str | os.PathLike[str], disk: Disk = DISK) -> list[SnapshotFile]:
    """The snapshots in a log's folder, ascending; none when there is no such folder."""
    found = []
    for name in disk.list(folder) if disk.is_dir(folder) else ():
        parsed = parse_file_name(name)
        if parsed is None or parsed.kind is not FileKind.PRODUCER_SNAPSHOT:
            continue
        path = Path(folder, name)
        if parsed.state is FileState.LIVE and not disk.is_dir(path):
            assert parsed.base_offset is not None
            found.append(SnapshotFile(path, parsed.base_offset, disk))
    return sorted(found, key=lambda snapshot: snapshot.offset)
