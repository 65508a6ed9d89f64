"""Listing of a partition's folder: segments, snapshots, and entries that are not part of the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from engine.files.file_names import FileKind, FileName, FileState, parse_file_name
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.units import MAX_INT64, Offset

_WHY_NOT = {
    FileState.DELETED: "deleted, and removed by the broker later",
    FileState.CLEANED: "written by compaction, not finished",
    FileState.SWAP: "written by compaction, not yet renamed",
    FileState.PARTIAL: "an incomplete snapshot",
    FileState.TEMPORARY: "a checkpoint that was not written whole",
}
_NO_FILE = {
    EntryKind.SYMLINK: "a symbolic link, not followed",
    EntryKind.DIRECTORY: "a directory, where only files belong",
    EntryKind.OTHER: "not a regular file",
    EntryKind.FURTHER_COPY: "a tiered copy of offsets that others hold for the log",
    EntryKind.ENCODED_COPY: "a tiered copy that is compressed by chunks or encrypted",
}
_IN_PARTITIONS = {
    *(FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA),
    *(FileKind.PRODUCER_SNAPSHOT, FileKind.KRAFT_CHECKPOINT, FileKind.QUORUM_STATE),
}
_SEGMENT_SUFFIXES = frozenset(
    kind.value
    for kind in (
        *(FileKind.LOG, FileKind.OFFSET_INDEX),
        *(FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX),
    )
)
_LARGEST = str(MAX_INT64).zfill(20)


class Leftover(NamedTuple):
    """An entry that is not part of the log, and the reason."""

    name: str
    reason: str


class KRaftSnapshot(NamedTuple):
    """A snapshot of all records before `end_offset`; `epoch` is that of the last record."""

    end_offset: Offset
    epoch: int


class FolderListing(NamedTuple):
    """A partition's folder at one moment.

    Attributes:
        files: names of regular files, sorted.
        others: other entries, sorted by name.
        base_offsets: base offsets of segments, ascending.
        producer_snapshots: offsets of producer snapshots, ascending.
        kraft_snapshots: KRaft snapshots, ascending.
        leftovers: entries that are not part of the log, sorted by name.
    """

    files: tuple[str, ...]
    others: tuple[SourceEntry, ...]
    base_offsets: tuple[Offset, ...]
    producer_snapshots: tuple[Offset, ...]
    kraft_snapshots: tuple[KRaftSnapshot, ...]
    leftovers: tuple[Leftover, ...]

    def has_file(self, name: str) -> bool:
        """Return whether a regular file has a name."""
        place = bisect_left(self.files, name)
        return place < len(self.files) and self.files[place] == name

    def has(self, name: str) -> bool:
        """Return whether an entry of any kind has a name."""
        return self.has_file(name) or any(other.name == name for other in self.others)

    @property
    def entries(self) -> tuple[SourceEntry, ...]:
        """All entries, sorted by name; built at each access."""
        files = (SourceEntry(name, EntryKind.FILE) for name in self.files)
        return tuple(sorted([*files, *self.others], key=itemgetter(0)))


def sort_entries(
    files: Iterable[str], others: Iterable[SourceEntry] = (), only: str | None = None
) -> FolderListing:
    """Return the listing of a partition's folder.

    Args:
        files: names of regular files.
        others: other entries.
        only: the one records file to show, with its indexes; None for the whole folder.
    """
    names = sorted(files)
    apart = sorted(others, key=itemgetter(0))
    if only is not None:
        stem = only.partition(".")[0]
        names = [name for name in names if name.partition(".")[0] == stem]
        apart = [other for other in apart if other.name.partition(".")[0] == stem]
    sorted_out = _sort_files(names, only)
    leftovers = sorted_out.leftovers
    leftovers += [Leftover(name, _NO_FILE[kind]) for name, kind in apart if name != only]
    return FolderListing(
        tuple(names),
        tuple(apart),
        tuple(sorted_out.bases),
        tuple(sorted_out.snapshots),
        tuple(sorted(sorted_out.kraft)),
        tuple(sorted(leftovers)),
    )


class _SortedOut(NamedTuple):
    bases: list[Offset]
    snapshots: list[Offset]
    kraft: list[KRaftSnapshot]
    leftovers: list[Leftover]


def _sort_files(names: Iterable[str], only: str | None) -> _SortedOut:
    """Sort the files by kind. Sorted names of one offset are adjacent, so an index waits for its segment
    only until the next offset."""
    bases, snapshots, kraft, leftovers = found = _SortedOut([], [], [], [])
    base = -1
    waiting: list[str] = []
    for name in names:
        suffix = name[20:]
        if suffix in _SEGMENT_SUFFIXES:  # a short cut for most names
            digits = name[:20]
            if digits.isdigit() and digits.isascii() and digits <= _LARGEST:
                if suffix == ".log":
                    base = int(digits)
                    bases.append(base)
                    if waiting and waiting[0][:20] == digits:
                        waiting.clear()
                elif only is None and int(digits) != base:
                    if waiting and waiting[0][:20] != digits:
                        leftovers += _without_log(waiting)
                        waiting.clear()
                    waiting.append(name)
                continue
        parsed = parse_file_name(name)
        reason = _why_leftover(parsed)
        if reason is not None:
            if name != only:
                leftovers.append(Leftover(name, reason))
        elif parsed is None or parsed.base_offset is None:
            continue
        elif parsed.kind is FileKind.PRODUCER_SNAPSHOT:
            snapshots.append(parsed.base_offset)
        else:
            kraft.append(KRaftSnapshot(parsed.base_offset, parsed.epoch or 0))
    leftovers += _without_log(waiting)
    return found


def _without_log(names: Iterable[str]) -> list[Leftover]:
    return [Leftover(name, f"an index without {name[:20]}{FileKind.LOG.value}") for name in names]


def _why_leftover(parsed: FileName | None) -> str | None:
    """Return the reason why a file is not part of the log; None when it is."""
    if parsed is None:
        return "no file of a log has such a name"
    if parsed.state is not FileState.LIVE:
        return _WHY_NOT[parsed.state]
    if parsed.kind in _IN_PARTITIONS:
        return None
    return "a file of the log dir, not of a partition"
