"""The files of a partition's tiered copies, under the names that a log dir has for them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from engine.files.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    log_file_name,
    offset_index_name,
    parse_tiered_file_name,
    producer_snapshot_name,
    time_index_name,
    transaction_index_name,
)
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceRoot
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
from engine.log.tiered.folders import TieredFolder
from engine.units import Offset, Position

_INDEX_NAMES: dict[str, Callable[[Offset], str]] = {
    ".index": offset_index_name,
    ".timeindex": time_index_name,
    ".txnindex": transaction_index_name,
}
Entry = TypeVar("Entry")


class ShownFolder(NamedTuple):
    """A partition's folder as it is shown.

    Attributes:
        names: real paths of the files by the names they are shown under.
        others: entries that are not files of the log, further copies among them.
        stamp: state of the real folder.
        copies: the copies by the path of their records file, each with the state of its files.
    """

    names: dict[str, str]
    others: Sequence[SourceEntry]
    stamp: object
    copies: dict[str, tuple[object, TieredCopy]]


class ShownCopies:
    """Chooses the copies that are shown as the segments of partitions; used by one thread at a time.

    Args:
        root: the source.
        segment_id: id of the one copy to show; None for all.

    Attributes:
        ends: ends of the files that are shown shorter than they are, by real path.
        remarks: remarks on files that are set aside or missing, by real path.
    """

    def __init__(self, root: SourceRoot, segment_id: str | None) -> None:
        self._root = root
        self._segment_id = segment_id
        self.ends: dict[str, Position] = {}
        self.remarks: dict[str, str] = {}

    def look(self, place: TieredFolder, known: ShownFolder | None) -> ShownFolder:
        """Choose the copies that are the partition's log, and name their files; return `known` if nothing changed.

        Raises OSError.
        """
        files, entries = self._root.list_apart(place.path)
        others = list(entries)
        names: dict[str, str] = {}
        found = list(self._sorted_out(place, files, names))
        stamp = sorted(files), entries, [self._stamp(copy_files[LOG]) for _, copy_files in found]
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
            encoding = encoding_of(self._root, base_offset, copy_files)
            if encoding is None:
                copies[path] = copy_stamp, read_copy(self._root, base_offset, copy_files)
            else:
                others.append(self._aside(path, EntryKind.ENCODED_COPY, encoding))
        chosen, newest, reasons = choose(self._root, [copy for _, copy in copies.values()])
        others += [
            self._aside(path, EntryKind.FURTHER_COPY, reason) for path, reason in reasons.items()
        ]
        for each in chosen:
            names |= self._names_of(each)
        if newest is not None and LEADER_EPOCHS in newest.files:
            names[LEADER_EPOCH_CHECKPOINT] = newest.files[LEADER_EPOCHS]
        elif newest is not None:
            self._note_elsewhere(newest, LEADER_EPOCH_CHECKPOINT)
        return ShownFolder(names, others, stamp, copies)

    def _stamp(self, path: str) -> tuple[int, int, int]:
        status = self._root.stat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _sorted_out(
        self, place: TieredFolder, files: Sequence[str], names: dict[str, str]
    ) -> Iterator[tuple[Offset, dict[str, str]]]:
        """Yield the files of each copy with a records file; add other files to `names`."""
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
        self.remarks[path] = reason
        return SourceEntry(path.rpartition("/")[2], kind)

    def _names_of(self, chosen: ChosenCopy) -> dict[str, str]:
        """Return the files of a segment under the names that a log dir has for them."""
        copy = chosen.copy
        names = {log_file_name(copy.base_offset): copy.path}
        end = cut_position(self._root, chosen) if chosen.is_cut else None
        self._cut(copy.path, end)
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
            self.remarks[path] = f"it is in {beside}.indexes, which is not read"

    def _cut(self, path: str, end: Position | None) -> None:
        if end is None:
            self.ends.pop(path, None)
        else:
            self.ends[path] = end

    def _index_end(self, suffix: str, path: str, chosen: ChosenCopy) -> Position:
        base_offset, end = chosen.copy.base_offset, chosen.end
        with self._root.open_fresh(path) as file:
            if suffix == ".index":
                return _end(OffsetIndex(file, base_offset), end, lambda entry: entry.offset)
            if suffix == ".timeindex":
                return _end(TimeIndex(file, base_offset), end, lambda entry: entry.offset)
            index = TransactionIndex(file, base_offset)
            return _end(index, end, lambda entry: entry.last_offset)


def _end(
    index: AbstractIndex[Entry], offset: Offset, offset_of: Callable[[Entry], Offset]
) -> Position:
    """Return the end of an index's entries below an offset."""
    return bisect_left(index, offset, key=offset_of) * index.entry_size
