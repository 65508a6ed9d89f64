"""A copy of Kafka's tiered storage, shown as the log dir that its segments came from.

LocalTieredStorage keeps `<topic>-<partition>-<topic id>/<offset>-<segment id>.log`, with an `.index`,
`.timeindex`, `.txnindex`, `.leader_epoch_checkpoint` and `.snapshot` of the same name; Aiven's plugin keeps
`<topic>-<topic id>/<partition>/<offset>-<segment id>.log`, and what it puts beside it is not read, but for
what the manifest says of the copy. Here a folder is `<topic>-<partition>` and its files have the names that
they have in a log dir; what opens is the real file, and what is shown to people is its path.
"""

from __future__ import annotations

import fcntl
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import RLock
from typing import NamedTuple, TypeVar

from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.files.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    FolderState,
    folder_name,
    log_file_name,
    offset_index_name,
    parse_tiered_file_name,
    parse_tiered_folder_name,
    parse_tiered_topic_name,
    producer_snapshot_name,
    time_index_name,
    transaction_index_name,
)
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceFile, SourceRoot
from engine.index.abstract_index import AbstractIndex
from engine.index.offset_index import OffsetIndex
from engine.index.time_index import TimeIndex
from engine.index.transaction_index import TransactionIndex
from engine.log.tiered.copies import (
    LEADER_EPOCHS,
    LOG,
    ChosenCopy,
    TieredCopy,
    choose,
    cut_position,
    encoding_of,
    read_copy,
)
from engine.log.tiered.folders import (
    TieredFolder,
    has_copies,
    is_copy,
    is_number,
    name_of,
    numbered_in,
)
from engine.record.batch_frame import HEADER
from engine.units import Offset, Position, TopicPartition

_MAX_TIMESTAMP = HEADER.position_of("max_timestamp")
_INDEX_NAMES: dict[str, Callable[[Offset], str]] = {
    ".index": offset_index_name,
    ".timeindex": time_index_name,
    ".txnindex": transaction_index_name,
}
Entry = TypeVar("Entry")


class _Shown(NamedTuple):
    """What a partition's folder is shown to hold.

    Attributes:
        names: where each file really lies, by the name it is shown under.
        others: what is no file of the log: further copies among them.
        stamp: what the folder looked like.
        copies: what was read of each, by its records file, and what that looked like.
    """

    names: dict[str, str]
    others: Sequence[SourceEntry]
    stamp: object
    copies: dict[str, tuple[object, TieredCopy]]


class TieredRoot(SourceRoot):
    """A folder of tiered copies, read as a log dir or, if `only` is given, as that partition's folder.

    Args:
        path: the folder.
        only: the one partition whose copies these are, with the path "".
        segment_id: of the one copy to show.
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
        self._segment_id = segment_id
        self._look_lock = RLock()
        self._folders: dict[str, TieredFolder] | None = None
        self._shown: dict[str, _Shown] = {}
        self._cuts: dict[str, Position] = {}
        self._remarks: dict[str, str] = {}

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
        """Say why a copy is not part of the log, and where an index is that is not here."""
        return self._remarks.get(self.real(relative), "")

    def _split(self, relative: str) -> tuple[TieredFolder | None, str]:
        """The partition that an entry belongs to, None for one of the log dir, and its name there."""
        if self._only is not None:
            return self._only, relative
        if not relative:
            return None, ""
        folder, _, name = relative.partition("/")
        return self.folders().get(folder), name

    def folders(self) -> Mapping[str, TieredFolder]:
        """The partitions' folders by the names they are shown under."""
        known = self._folders
        if known is None:
            self.list_apart()
            known = self._folders
            assert known is not None
        return known

    # What a SourceRoot does

    def list_apart(self, folder: str = "") -> tuple[Sequence[str], Sequence[SourceEntry]]:
        with self._look_lock:
            if self._only is None and not folder:
                return self._list_partitions()
            place, rest = self._split(folder)
            if place is None or rest:
                return self._plain.list_apart(folder)
            shown = self._shown[folder] = self._look(folder, place)
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
        end = self._cuts.get(real)
        return status if end is None else _shortened(status, end)

    def open_fresh(self, relative: str) -> SourceFile:
        if self._is_made(relative):
            return self._made(relative)
        real = self.real(relative)
        file = super().open_fresh(real)
        end = self._cuts.get(real)
        return file if end is None else _CutFile(file, end)

    def _is_made(self, relative: str) -> bool:
        if not relative.endswith(PARTITION_METADATA):
            return False
        folder, name = self._split(relative)
        return folder is not None and name == PARTITION_METADATA and folder.topic_id is not None

    def _made(self, relative: str) -> SourceFile:
        """partition.metadata: there is none, the folder's name has what it says."""
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

    # The partitions

    def _list_partitions(self) -> tuple[Sequence[str], Sequence[SourceEntry]]:
        files, others = self._plain.list_apart()
        found: dict[TopicPartition, list[TieredFolder]] = {}
        rest = []
        for entry in others:
            is_folder = entry.kind is EntryKind.DIRECTORY
            folders = list(self._folders_in(entry.name)) if is_folder else []
            for folder in folders:
                found.setdefault(folder.partition, []).append(folder)
            if not folders:
                rest.append(entry)
        self._folders = dict(self._named(found))
        return files, [*(SourceEntry(name, EntryKind.DIRECTORY) for name in self._folders), *rest]

    def _folders_in(self, name: str) -> Iterator[TieredFolder]:
        """The partitions that a folder of the source has the copies of: one, all of a topic, or none."""
        topic = parse_tiered_topic_name(name_of(self.path))
        if topic is not None and is_number(name):
            yield TieredFolder(name, TopicPartition(topic[0], int(name)), topic[1])
            return
        local, topic = parse_tiered_folder_name(name), parse_tiered_topic_name(name)
        if local is not None and has_copies(self._plain, name):
            yield TieredFolder(name, *local)
            return
        if topic is None:
            return
        numbers = numbered_in(self._plain, name)
        for number in numbers:
            yield TieredFolder(f"{name}/{number}", TopicPartition(topic[0], int(number)), topic[1])
        if local is not None and not numbers:
            yield TieredFolder(name, *local)

    def _named(
        self, found: Mapping[TopicPartition, list[TieredFolder]]
    ) -> Iterator[tuple[str, TieredFolder]]:
        """Of topics of one name, the one with the newest records is the log; the others stand apart."""
        for partition, folders in found.items():
            if len(folders) > 1:
                folders.sort(key=self._newest_timestamp)
            yield str(partition), folders.pop()
            for older in folders:
                yield folder_name(partition, FolderState.STRAY, older.topic_id), older

    def _newest_timestamp(self, folder: TieredFolder) -> int:
        """Of the first batch of the last segment."""
        try:
            files, _ = self._plain.list_apart(folder.path)
            newest = max(name for name in files if is_copy(name) and name.endswith(LOG))
            with self._plain.open_fresh(f"{folder.path}/{newest}") as file:
                return int.from_bytes(file.read_at(_MAX_TIMESTAMP, 8), "big", signed=True)
        except (OSError, ValueError):
            return -1

    # A partition's segments

    def _shown_in(self, folder: str) -> _Shown:
        known = self._shown.get(folder)
        if known is None:
            with self._look_lock:
                self.list_apart(folder)
                known = self._shown[folder]
        return known

    def _look(self, folder: str, place: TieredFolder) -> _Shown:
        """Which copies are the partition's log, and what its files are called then."""
        files, entries = self._plain.list_apart(place.path)
        others = list(entries)
        names: dict[str, str] = {}
        found = list(self._sorted_out(place, files, names))
        stamp = sorted(files), entries, [self._stamp(copy_files[LOG]) for _, copy_files in found]
        known = self._shown.get(folder)
        if known is not None and known.stamp == stamp:
            return known
        before = {} if known is None else known.copies
        copies: dict[str, tuple[object, TieredCopy]] = {}
        for base_offset, copy_files in found:
            path = copy_files[LOG]
            copy_stamp = self._stamp(path), copy_files
            if path in before and before[path][0] == copy_stamp:
                copies[path] = before[path]
                continue
            encoding = encoding_of(self._plain, base_offset, copy_files)
            if encoding is None:
                copies[path] = copy_stamp, read_copy(self._plain, base_offset, copy_files)
            else:
                others.append(self._aside(path, EntryKind.ENCODED_COPY, encoding))
        chosen, newest, reasons = choose(self._plain, [copy for _, copy in copies.values()])
        others += [
            self._aside(path, EntryKind.FURTHER_COPY, reason) for path, reason in reasons.items()
        ]
        for each in chosen:
            names |= self._names_of(each)
        if newest is not None and LEADER_EPOCHS in newest.files:
            names[LEADER_EPOCH_CHECKPOINT] = newest.files[LEADER_EPOCHS]
        elif newest is not None:
            self._note_elsewhere(newest, LEADER_EPOCH_CHECKPOINT)
        return _Shown(names, others, stamp, copies)

    def _stamp(self, path: str) -> tuple[int, int, int]:
        status = self._plain.stat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _sorted_out(
        self, place: TieredFolder, files: Sequence[str], names: dict[str, str]
    ) -> Iterator[tuple[Offset, dict[str, str]]]:
        """The files of each copy that has a records file; puts what is nothing of tiered storage into names."""
        found: dict[tuple[Offset, str], dict[str, str]] = {}
        for name in files:
            path = f"{place.path}/{name}" if place.path else name
            parsed = parse_tiered_file_name(name)
            if parsed is None:
                names[name] = path
            elif self._segment_id in (None, parsed.segment_id):
                found.setdefault(parsed[:2], {})[parsed.suffix] = path
        for base_offset, segment_id in sorted(found):
            copy_files = found[base_offset, segment_id]
            if LOG in copy_files:
                yield base_offset, copy_files

    def _aside(self, path: str, kind: EntryKind, reason: str) -> SourceEntry:
        self._remarks[path] = reason
        return SourceEntry(path.rpartition("/")[2], kind)

    def _names_of(self, chosen: ChosenCopy) -> dict[str, str]:
        """The files of a segment under the names that a log dir has for them."""
        copy = chosen.copy
        names = {log_file_name(copy.base_offset): copy.path}
        if chosen.is_cut:
            self._cut(copy.path, cut_position(self._plain, chosen))
        for suffix, name in _INDEX_NAMES.items():
            path = copy.files.get(suffix)
            if path is None:
                self._note_elsewhere(copy, name(copy.base_offset))
            else:
                names[name(copy.base_offset)] = path
                self._cut(path, None)
                if chosen.is_cut:
                    self._cut(path, self._index_end(suffix, path, chosen))
        if ".snapshot" in copy.files and copy.is_whole and not chosen.is_cut:
            names[producer_snapshot_name(copy.next_offset)] = copy.files[".snapshot"]
        return names

    def _note_elsewhere(self, copy: TieredCopy, name: str) -> None:
        folder, _, log = copy.path.rpartition("/")
        if ".indexes" in copy.files:
            beside = log.removesuffix(LOG)
            path = f"{folder}/{name}" if folder else name
            self._remarks[path] = f"it is in {beside}.indexes, which is not read"

    def _cut(self, path: str, end: Position | None) -> None:
        if end is None:
            self._cuts.pop(path, None)
        else:
            self._cuts[path] = end

    def _index_end(self, suffix: str, path: str, chosen: ChosenCopy) -> Position:
        base_offset, end = chosen.copy.base_offset, chosen.end
        with self._plain.open_fresh(path) as file:
            if suffix == ".index":
                return _end(OffsetIndex(file, base_offset), end, lambda entry: entry.offset)
            if suffix == ".timeindex":
                return _end(TimeIndex(file, base_offset), end, lambda entry: entry.offset)
            index = TransactionIndex(file, base_offset)
            return _end(index, end, lambda entry: entry.last_offset)


def _end(
    index: AbstractIndex[Entry], offset: Offset, offset_of: Callable[[Entry], Offset]
) -> Position:
    """Where the entries of an index end that lie below an offset."""
    return bisect_left(index, offset, key=offset_of) * index.entry_size


class _CutFile(SourceFile):
    """The beginning of a file; what follows is no part of the log."""

    __slots__ = ("_end",)

    def __init__(self, file: SourceFile, end: Position) -> None:
        fd, file.fd = file.fd, -1
        super().__init__(fd, file.path, os.fstat(fd))
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
