"""A copy of Kafka's tiered storage, shown as the log dir that its segments came from.

LocalTieredStorage keeps `<topic>-<partition>-<topic id>/<offset>-<segment id>.log`, with an `.index`,
`.timeindex`, `.txnindex`, `.leader_epoch_checkpoint` and `.snapshot` of the same name. Aiven's plugin keeps
`<topic>-<topic id>/<partition>/<offset>-<segment id>.log`, a manifest, and all other files in `.indexes`. A folder
is shown as `<topic>-<partition>`, and its files under their names in a log dir. Reads open the real file, and
decode what is encoded; messages show its path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import RLock

from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.files.file_names import PARTITION_METADATA, parse_tiered_file_name
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.tiered.decoded_file import decoded_status, opened_part, with_size
from engine.log.tiered.folders import TieredFolder, list_partitions
from engine.log.tiered.memory_file import memory_file
from engine.log.tiered.shown_copies import ShownCopies, ShownFolder
from engine.units import MAX_INT64, Position


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
        self._plain.when_exhausted = self.free_descriptors
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

    def display(self, relative: str) -> str:
        """Return the path of an entry as shown to people: that of the object that has it."""
        part = self._copies.parts.get(self.real(relative))
        return super().display(relative if part is None else part.path)

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
        part = self._copies.parts.get(real)
        status = super().stat(real if part is None else part.path)
        if part is not None:
            status = decoded_status(status, part.manifest, part.suffix)
        end = self._copies.ends.get(real)
        return status if end is None else with_size(status, min(end, status.st_size))

    def stat_files(self, folder: str, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
        for name in names:
            with suppress(FileNotFoundError):
                yield name, self.stat(f"{folder}/{name}" if folder else name)

    def open_fresh(self, relative: str, *, is_listed: bool = False) -> SourceFile:
        if self._is_made(relative):
            return self._made(relative)
        real = self.real(relative)
        part, end = self._copies.parts.get(real), self._copies.ends.get(real)
        file = super().open_fresh(real if part is None else part.path, is_listed=is_listed)
        if part is not None:
            status = decoded_status(file.opened_as, part.manifest, part.suffix)
            end = MAX_INT64 if end is None else end
            return opened_part(file, status, part.manifest, part.suffix, end)
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
        above = self._plain.stat(folder.path)
        fields = (stat.S_IFREG | 0o444, *above[1:3], 1, *above[4:])
        named = {name: getattr(above, name) for name in ("st_mtime_ns", "st_ctime_ns")}
        status = with_size(os.stat_result(fields, named), len(data))
        return memory_file(data, self.display(relative), status)


class _CutFile(SourceFile):
    """A file up to a position; the bytes after it are not part of the log."""

    __slots__ = ("_end", "_file")

    def __init__(self, file: SourceFile, end: Position) -> None:
        self._file = file
        status = file.opened_as
        super().__init__(file.descriptor, file.path, with_size(status, min(end, status.st_size)))
        self.unreadable = file.unreadable
        self._end = end

    @property
    def fd(self) -> int:
        return self._file.fd

    def close(self) -> None:
        self.descriptor = -1
        self._file.close()

    def reach(self, start: int, end: int, size: int | None = None) -> int:
        return self._file.reach(start, min(end, self._end), size)

    def stat(self) -> os.stat_result:
        status = self._file.stat()
        return with_size(status, min(self._end, status.st_size))

    def size(self) -> int:
        return min(self._file.size(), self._end)

    def read_at(self, position: int, size: int) -> bytes:
        return self._file.read_at(position, min(size, max(self._end - position, 0)))

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        view = memoryview(buffer).cast("B")
        return self._file.read_into(view[: max(self._end - position, 0)], position)
