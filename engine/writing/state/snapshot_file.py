"""Producer snapshots in a log's folder: files by offset, and reading and writing one."""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable
from pathlib import Path

from engine.disk.disk import DISK, Disk
from engine.files.file_names import FileKind, FileState, parse_file_name
from engine.state.producer_snapshot import ProducerSnapshot
from engine.state.producer_state_entry import ProducerStateEntry
from engine.units import Offset

logger = logging.getLogger(__name__)


class SnapshotFile:
    """Snapshot of the state before an offset.

    Attributes:
        offset: offset in the name.
        path: current path; a rename changes it.
    """

    __slots__ = ("_disk", "offset", "path")

    def __init__(self, path: str | os.PathLike[str], offset: Offset, disk: Disk = DISK) -> None:
        self.path = Path(path)
        self.offset = offset
        self._disk = disk

    def __repr__(self) -> str:
        return f"SnapshotFile({self.path})"

    def delete_if_exists(self) -> bool:
        """Remove the file; return whether it existed."""
        deleted = self._disk.remove(self.path, missing_ok=True)
        logger.info("%s %s", "deleted" if deleted else "did not find", self.path)
        return deleted

    def update_parent_dir(self, folder: str | os.PathLike[str]) -> None:
        """Update the path after the log's folder was renamed."""
        self.path = Path(folder, self.path.name)

    def rename_to_delete(self) -> None:
        """Rename the file with the suffix of files to delete. Raises FileNotFoundError."""
        renamed = self.path.with_name(self.path.name + FileState.DELETED.value)
        try:
            self._disk.rename(self.path, renamed)
        finally:
            self.path = renamed


class SnapshotFiles(dict[Offset, SnapshotFile]):
    """Snapshots of a log by offset; the newest is found in constant time.

    One thread changes them; others may read meanwhile.
    """

    def __init__(self, files: Iterable[SnapshotFile] = ()) -> None:
        super().__init__((each.offset, each) for each in files)
        self._offsets = sorted(self)

    @property
    def latest(self) -> Offset | None:
        """Largest offset."""
        return next(iter(self._offsets[-1:]), None)

    @property
    def oldest(self) -> Offset | None:
        """Smallest offset."""
        return next(iter(self._offsets[:1]), None)

    def outside(self, start: Offset, end: Offset) -> list[Offset]:
        """Return the offsets outside of (start, end], ascending."""
        offsets = self._offsets
        return offsets[: bisect_right(offsets, start)] + offsets[bisect_right(offsets, end) :]

    def add(self, file: SnapshotFile) -> None:
        """Add a snapshot, replacing the one at its offset."""
        if file.offset not in self:
            insort(self._offsets, file.offset)
        self[file.offset] = file

    def take(self, offset: Offset) -> SnapshotFile | None:
        """Remove and return the snapshot at an offset; None without one."""
        file = self.pop(offset, None)
        if file is not None:
            del self._offsets[bisect_left(self._offsets, offset)]
        return file

    def delete(self, offset: Offset) -> None:
        """Remove the snapshot at an offset and delete its file; do nothing without one."""
        file = self.take(offset)
        if file is not None:
            file.delete_if_exists()

    def delete_before(self, offset: Offset) -> None:
        """Delete the snapshots below an offset."""
        for each in [*self]:
            if each < offset:
                self.delete(each)

    def delete_strays(self, segment_base_offsets: Collection[Offset]) -> None:
        """Delete the snapshots that belong to no segment.

        The newest of these stays if it is above all segments: a clean shutdown writes one there.
        """
        strays = sorted(set(self) - set(segment_base_offsets))
        if strays and (not segment_base_offsets or strays[-1] > max(segment_base_offsets)):
            strays.pop()
        for offset in strays:
            self.delete(offset)

    def mark_for_deletion(self, offset: Offset) -> SnapshotFile | None:
        """Remove the snapshot at an offset and rename its file; None without a snapshot or file."""
        file = self.take(offset)
        if file is None:
            return None
        try:
            file.rename_to_delete()
        except FileNotFoundError:
            logger.info("%s was deleted before it was renamed", file)
            return None
        return file

    def update_parent_dir(self, folder: str | os.PathLike[str]) -> None:
        """Update the paths after the log's folder was renamed."""
        for file in [*self.values()]:
            file.update_parent_dir(folder)


def list_snapshot_files(folder: str | os.PathLike[str], disk: Disk = DISK) -> list[SnapshotFile]:
    """Return the snapshots in a log's folder, ascending; none without the folder."""
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


def read_snapshot(path: str | os.PathLike[str], disk: Disk = DISK) -> list[ProducerStateEntry]:
    """Return the producers in a snapshot. Raises CorruptSnapshotError, and OSError without a file."""
    return ProducerSnapshot.parse(disk.read(path), str(path))


def write_snapshot(
    path: str | os.PathLike[str],
    producers: Iterable[ProducerStateEntry],
    *,
    sync: bool = True,
    disk: Disk = DISK,
) -> None:
    """Write a snapshot, replacing an existing file; the file is corrupt until the write is complete."""
    data = ProducerSnapshot.render(producers)
    with disk.open(path, create=True) as file:
        file.write_at(0, data)
        if file.size() > len(data):
            file.truncate(len(data))
        if sync:
            file.sync()
