"""A copy of Kafka's tiered storage, shown as the log dir that its segments came from.

LocalTieredStorage keeps `<topic>-<partition>-<topic id>/<offset>-<segment id>.log`, with an `.index`,
`.timeindex`, `.txnindex`, `.leader_epoch_checkpoint` and `.snapshot` of the same name. Aiven's plugin keeps
`<topic>-<topic id>/<partition>/<offset>-<segment id>.log`; of its other files only the manifest is read. A folder
is shown as `<topic>-<partition>`, and its files under their names in a log dir. Reads open the real file, and
messages show its path.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import RLock

from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.files.file_names import PARTITION_METADATA, parse_tiered_file_name
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.tiered.folders import TieredFolder, list_partitions
from engine.log.tiered.shown_copies import ShownCopies, ShownFolder
from engine.units import Position


class TieredRoot(SourceRoot):
    """A folder of tiered copies, read as a log dir or, if `only` is given, as that partition's folder.

    Args:
        path: the folder.
        only: the one partition of the copies, with the path "".
        segment_id: id of the one copy to show.
        open_files, cross_device: see SourceRoot.
    """

    def __init__(
        self,
        path: str,
        *,
        only: TieredFolder | None = None,
        segment_id: str | None = None,
        open_files: int = 512,
        cross_device: bool = False,
    ) -> None:
        super().__init__(path, open_files=open_files, cross_device=cross_device)
        self._plain = SourceRoot(path, open_files=1, cross_device=cross_device)
        self._plain.when_exhausted = self._free_descriptors
        self._only = only
        self._look_lock = RLock()
        self._folders: Mapping[str, TieredFolder] | None = None
        self._copies = ShownCopies(self._plain, segment_id)
        self._shown: dict[str, ShownFolder] = {}

    def close(self) -> None:
        super().close()
        if (plain := getattr(self, "_plain", None)) is not None:
            plain.close()

    # Names

    def real(self, relative: str) -> str:
        folder, name = self._split(relative)
        if folder is None:
            return relative
        if not name:
            return folder.path
        if parse_tiered_file_name(name) is None:
            if name == PARTITION_METADATA and folder.topic_id is not None:
                return folder.path
            found = self._shown_in(relative[: -len(name)].rstrip("/")).names.get(name)
            if found is not None:
                return found
        return f"{folder.path}/{name}" if folder.path else name

    def remark(self, relative: str) -> str:
        """Return why a copy is not part of the log, or where a missing index is."""
        return self._copies.remarks.get(self.real(relative), "")

    def _split(self, relative: str) -> tuple[TieredFolder | None, str]:
        """Return the partition that an entry belongs to, None for one of the log dir, and the name in its folder."""
        if self._only is not None:
            return self._only, relative
        if not relative:
            return None, ""
        folder, _, name = relative.partition("/")
        return self.folders().get(folder), name

    def folders(self) -> Mapping[str, TieredFolder]:
        """Return the partitions' folders by the names they are shown under."""
        known = self._folders
        if known is None:
            self.list_apart()
            known = self._folders
            assert known is not None
        return known

    # Files

    def list_apart(self, folder: str = "") -> tuple[Sequence[str], Sequence[SourceEntry]]:
        with self._look_lock:
            if self._only is None and not folder:
                files, others, self._folders = list_partitions(self._plain)
                folders = (SourceEntry(name, EntryKind.DIRECTORY) for name in self._folders)
                return files, [*folders, *others]
            place, rest = self._split(folder)
            if place is None or rest:
                return self._plain.list_apart(folder)
            shown = self._copies.look(place, self._shown.get(folder))
            self._shown[folder] = shown
            made = {} if place.topic_id is None else {PARTITION_METADATA: ""}
            return list(shown.names | made), shown.others

    def iterate_files(self, folder: str = "") -> Iterator[str]:
        yield from self.list_apart(folder)[0]

    def stat(self, relative: str = "") -> os.stat_result:
        if self._is_made(relative):
            with self._made(relative) as file:
                return file.stat()
        real = self.real(relative)
        status = super().stat(real)
        end = self._copies.ends.get(real)
        return status if end is None else _shortened(status, end)

    def stat_files(self, folder: str, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
        for name in names:
            with suppress(FileNotFoundError):
                yield name, self.stat(f"{folder}/{name}" if folder else name)

    def open_fresh(self, relative: str, *, is_listed: bool = False) -> SourceFile:
        if self._is_made(relative):
            return self._made(relative)
        real = self.real(relative)
        file = super().open_fresh(real, is_listed=is_listed)
        end = self._copies.ends.get(real)
        return file if end is None else _CutFile(file, end)

    def _shown_in(self, folder: str) -> ShownFolder:
        known = self._shown.get(folder)
        if known is None:
            with self._look_lock:
                self.list_apart(folder)
                known = self._shown[folder]
        return known

    def _is_made(self, relative: str) -> bool:
        if not relative.endswith(PARTITION_METADATA):
            return False
        folder, name = self._split(relative)
        return folder is not None and name == PARTITION_METADATA and folder.topic_id is not None

    def _made(self, relative: str) -> SourceFile:
        """Return a partition.metadata with the topic id of the folder's name."""
        folder, _ = self._split(relative)
        assert folder is not None
        assert folder.topic_id is not None
        data = render_partition_metadata(PartitionMetadata(0, folder.topic_id))
        stamp = self._plain.stat(folder.path).st_mtime_ns
        fd = os.memfd_create(PARTITION_METADATA, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.write(fd, data)
            os.fchmod(fd, 0o444)
            os.utime(fd, ns=(stamp, stamp))
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK)
            return SourceFile(fd, self.display(relative), os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise


class _CutFile(SourceFile):
    """A file up to a position; the bytes after it are not part of the log."""

    __slots__ = ("_end",)

    def __init__(self, file: SourceFile, end: Position) -> None:
        fd, file.fd = file.fd, -1
        super().__init__(fd, file.path, _shortened(file.opened_as, end))
        self._end = end

    def stat(self) -> os.stat_result:
        return _shortened(super().stat(), self._end)

    def size(self) -> int:
        return min(super().size(), self._end)

    def read_at(self, position: int, size: int) -> bytes:
        return super().read_at(position, min(size, max(self._end - position, 0)))

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        view = memoryview(buffer).cast("B")
        return super().read_into(view[: max(self._end - position, 0)], position)


def _shortened(status: os.stat_result, end: Position) -> os.stat_result:
    if status.st_size <= end:
        return status
    fields = list(status)
    fields[6] = end
    times = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
    return os.stat_result(fields, times | {"st_size": end})
