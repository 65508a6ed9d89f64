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
    is_encoded,
    manifest_of,
    object_path,
    open_part,
    read_copy,
)
from engine.log.tiered.data_keys import may_open
from engine.log.tiered.folders import TieredFolder
from engine.log.tiered.manifest import INDEXES, MANIFEST, SegmentManifest
from engine.units import Offset, Position

SNAPSHOT = ".snapshot"
_INDEX_NAMES: dict[str, Callable[[Offset], str]] = {
    ".index": offset_index_name,
    ".timeindex": time_index_name,
    ".txnindex": transaction_index_name,
}
Entry = TypeVar("Entry")


class EncodedPart(NamedTuple):
    """A file of a copy that is decoded: the path of its object, the copy's manifest, and the file's suffix."""

    path: str
    manifest: SegmentManifest
    suffix: str


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
        parts: the files that are decoded, by the path that they would have as objects of their own.
        remarks: remarks on files that are set aside or missing, by real path.
    """

    def __init__(self, root: SourceRoot, segment_id: str | None) -> None:
        self._root = root
        self._segment_id = segment_id
        self.ends: dict[str, Position] = {}
        self.parts: dict[str, EncodedPart] = {}
        self.remarks: dict[str, str] = {}

    def look(self, place: TieredFolder, known: ShownFolder | None) -> ShownFolder:
        """Choose the copies that are the partition's log, and name their files; return `known` if nothing changed.

        Raises OSError.
        """
        files, entries = self._root.list_apart(place.path)
        others = list(entries)
        names: dict[str, str] = {}
        found = self._sorted_out(place, files, names)
        complete = [each for each in found if LOG in each[1]]
        stamp = sorted(files), entries, [self._stamp(each[LOG]) for _, each in complete]
        if known is not None and known.stamp == stamp:
            return known
        before = {} if known is None else known.copies
        copies: dict[str, tuple[object, TieredCopy]] = {}
        for base_offset, copy_files in complete:
            path = copy_files[LOG]
            copy_stamp = self._stamp(path), copy_files
            if path in before and before[path][0] == copy_stamp:
                copies[path] = before[path]
                continue
            copy = read_copy(self._root, base_offset, copy_files)
            if isinstance(copy, str):
                others.append(self._aside(path, EntryKind.ENCODED_COPY, copy))
            else:
                copies[path] = copy_stamp, copy
        chosen, newest, reasons = choose(self._root, [copy for _, copy in copies.values()])
        others += [
            self._aside(path, EntryKind.FURTHER_COPY, reason) for path, reason in reasons.items()
        ]
        for each in chosen:
            self._name(each, names)
            if fault := each.copy.fault:
                path = each.copy.path.removesuffix(LOG) + MANIFEST
                others.append(self._aside(path, EntryKind.UNDONE_COPY, fault))
        others += self._without_log(found, chosen)
        if newest is not None and LEADER_EPOCHS in newest.files:
            names[LEADER_EPOCH_CHECKPOINT] = newest.files[LEADER_EPOCHS]
            self._note_part(newest, LEADER_EPOCHS)
        elif newest is not None:
            self._note_elsewhere(newest, LEADER_EPOCH_CHECKPOINT)
        return ShownFolder(names, others, stamp, copies)

    def _without_log(
        self, found: Sequence[tuple[Offset, dict[str, str]]], chosen: Sequence[ChosenCopy]
    ) -> Iterator[SourceEntry]:
        """Yield the objects whose `.log` is not there: of a deletion under way at the log's start, else it is lost."""
        for base_offset, files in found:
            if LOG in files:
                continue
            path = files.get(MANIFEST) or next(iter(files.values()))
            manifest, _ = manifest_of(self._root, files)
            offsets = f"from {base_offset}"
            if manifest is not None:
                offsets = f"{base_offset} to {manifest.end_offset}"
            text = f"its .log, with the offsets {offsets}, is not there"
            if chosen and chosen[0].copy.base_offset <= base_offset:
                yield self._aside(path, EntryKind.UNDONE_COPY, text)
            else:
                yield self._aside(path, EntryKind.FURTHER_COPY, f"{text}: a deletion was under way")

    def _stamp(self, path: str) -> tuple[int, int, int]:
        status = self._root.stat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _sorted_out(
        self, place: TieredFolder, files: Sequence[str], names: dict[str, str]
    ) -> list[tuple[Offset, dict[str, str]]]:
        """Return the files of each copy; add other files to `names`."""
        found: dict[tuple[Offset, str], dict[str, str]] = {}
        for name in files:
            path = f"{place.path}/{name}" if place.path else name
            parsed = parse_tiered_file_name(name)
            if parsed is None:
                names[name] = path
            elif self._segment_id in (None, parsed.segment_id):
                found.setdefault(parsed[:2], {})[parsed.suffix] = path
        return [(key[0], found[key]) for key in sorted(found)]

    def _aside(self, path: str, kind: EntryKind, reason: str) -> SourceEntry:
        self.remarks[path] = reason
        return SourceEntry(path.rpartition("/")[2], kind)

    def _name(self, chosen: ChosenCopy, names: dict[str, str]) -> None:
        """Add the files of a segment under the names that a log dir has for them."""
        copy = chosen.copy
        shown = {LOG: log_file_name(copy.base_offset)}
        self._cut(copy.path, cut_position(self._root, chosen) if chosen.is_cut else None)
        for suffix, name in _INDEX_NAMES.items():
            path = copy.files.get(suffix)
            if path is None:
                self._note_elsewhere(copy, name(copy.base_offset))
            else:
                shown[suffix] = name(copy.base_offset)
                end = self._index_end(suffix, path, chosen) if chosen.is_cut else None
                self._cut(path, end)
        if SNAPSHOT in copy.files and copy.is_whole and not chosen.is_cut:
            shown[SNAPSHOT] = producer_snapshot_name(copy.next_offset)
        for suffix, shown_name in shown.items():
            names[shown_name] = copy.files[suffix]
            self._note_part(copy, suffix)

    def _note_elsewhere(self, copy: TieredCopy, name: str) -> None:
        folder, _, log = copy.path.rpartition("/")
        path = f"{folder}/{name}" if folder else name
        self.remarks.pop(path, None)
        manifest = copy.manifest
        if INDEXES in copy.files and (manifest is None or not may_open(manifest.encryption)):
            what = "manifest" if manifest is None else "key"
            beside = log.removesuffix(LOG) + INDEXES
            self.remarks[path] = f"it is in {beside}, which cannot be read without its {what}"

    def _note_part(self, copy: TieredCopy, suffix: str) -> None:
        """Note that a file is decoded, or is not."""
        path = copy.files[suffix]
        if copy.manifest is not None and is_encoded(copy.manifest, suffix):
            self.parts[path] = EncodedPart(object_path(path, suffix), copy.manifest, suffix)
        else:
            self.parts.pop(path, None)

    def _cut(self, path: str, end: Position | None) -> None:
        if end is None:
            self.ends.pop(path, None)
        else:
            self.ends[path] = end

    def _index_end(self, suffix: str, path: str, chosen: ChosenCopy) -> Position:
        base_offset, end = chosen.copy.base_offset, chosen.end
        with open_part(self._root, path, chosen.copy.manifest, suffix) as file:
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
