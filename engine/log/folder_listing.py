"""Listing of a partition's folder: segments, snapshots, and entries that are not part of the log.

A complete ``.swap`` file is part of the log under its name without the suffix, as after a broker's start; see
`finished_swap`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from engine.files.file_names import (
    SAME_NAMES,
    SEGMENT_KINDS,
    FileKind,
    FileName,
    FileState,
    log_file_name,
    parse_file_name,
)
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.units import MAX_INT64, Offset

_WHY_NOT = {
    FileState.DELETED: "deleted, and removed by the broker later",
    FileState.CLEANED: "written by compaction, not finished",
    FileState.SWAP: "written by compaction, not complete: a start deletes it",
    FileState.PARTIAL: "an incomplete snapshot",
    FileState.TEMPORARY: "a checkpoint that was not written whole",
}
_NO_FILE = {
    EntryKind.SYMLINK: "a symbolic link, not followed",
    EntryKind.DIRECTORY: "a directory, where only files belong",
    EntryKind.OTHER: "not a regular file",
    EntryKind.FURTHER_COPY: "a tiered copy of offsets that others hold for the log",
    EntryKind.ENCODED_COPY: "a tiered copy that cannot be read without its manifest",
    EntryKind.UNDONE_COPY: "a tiered copy of which a part is missing",
}
_IN_PARTITIONS = {
    *(FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA),
    *(FileKind.PRODUCER_SNAPSHOT, FileKind.KRAFT_CHECKPOINT, FileKind.QUORUM_STATE),
}
_SEGMENT_SUFFIXES = frozenset(kind.value for kind in SEGMENT_KINDS)
_REPLACED_KINDS = frozenset((*SEGMENT_KINDS, FileKind.PRODUCER_SNAPSHOT))
_HALF_DONE = (FileState.CLEANED, FileState.SWAP)
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
        swapped: names of the ``.swap`` files that are part of the log, by the names that a start gives them; also
            of the files that such a segment lacks. A file that has one of these names is not part of the log.
        replaced: names of files that the ``.swap`` segments replace; they are leftovers.
    """

    files: tuple[str, ...]
    others: tuple[SourceEntry, ...]
    base_offsets: tuple[Offset, ...]
    producer_snapshots: tuple[Offset, ...]
    kraft_snapshots: tuple[KRaftSnapshot, ...]
    leftovers: tuple[Leftover, ...]
    swapped: Mapping[str, str] = SAME_NAMES
    replaced: frozenset[str] = frozenset()

    def real(self, name: str) -> str:
        """Return the name of the file that is a file of the log: another one for a complete ``.swap``."""
        return self.swapped.get(name, name) if self.swapped else name

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
    swapped = _take_swapped(sorted_out) if sorted_out.unfinished else SAME_NAMES
    leftovers = sorted_out.leftovers
    leftovers += [Leftover(name, _NO_FILE[kind]) for name, kind in apart if name != only]
    return FolderListing(
        tuple(names),
        tuple(apart),
        tuple(sorted_out.bases),
        tuple(sorted_out.snapshots),
        tuple(sorted(sorted_out.kraft)),
        tuple(sorted(leftovers)),
        swapped,
    )


def without_swapped(listing: FolderListing, reason: str) -> FolderListing:
    """Return a listing, not yet `without_replaced`, in which the ``.swap`` files are leftovers."""
    has_file = listing.has_file
    swaps = sorted(filter(has_file, set(listing.swapped.values())))
    return listing._replace(
        base_offsets=tuple(base for base in listing.base_offsets if has_file(log_file_name(base))),
        leftovers=tuple(sorted([*listing.leftovers, *(Leftover(name, reason) for name in swaps)])),
        swapped=SAME_NAMES,
    )


def without_replaced(listing: FolderListing, first: Offset, end: Offset) -> FolderListing:
    """Return a listing without the files that its ``.swap`` segments replace: those of offsets in [first, end), and
    those that have the names which a start gives to the ``.swap`` files.
    """
    swapped = listing.swapped
    new = sorted(swapped_bases(listing))
    replaced: dict[str, str] = {}
    for name in listing.files:
        parsed = parse_file_name(name)
        if parsed is None or parsed.state is not FileState.LIVE:
            continue
        base = parsed.base_offset
        if base is None or parsed.kind not in _REPLACED_KINDS:
            continue
        if first <= base < end:
            replaced[name] = log_file_name(new[bisect_right(new, base) - 1], FileState.SWAP)
        elif name in swapped:
            replaced[name] = swapped[name]
    bases = tuple(
        base
        for base in listing.base_offsets
        if not first <= base < end or log_file_name(base) in swapped
    )
    known = set(bases)
    orphans = {name: real for name, real in swapped.items() if int(name[:20]) not in known}
    leftovers = [each for each in listing.leftovers if each.name not in replaced]
    leftovers += _without_log(orphans.values())
    leftovers += [
        Leftover(name, f"replaced by {by}: a start deletes it") for name, by in replaced.items()
    ]
    return listing._replace(
        base_offsets=bases,
        producer_snapshots=tuple(
            each for each in listing.producer_snapshots if not first <= each < end
        ),
        leftovers=tuple(sorted(leftovers)),
        swapped={name: real for name, real in swapped.items() if name not in orphans},
        replaced=frozenset(replaced),
    )


def swapped_bases(listing: FolderListing) -> Sequence[Offset]:
    """Return the base offsets of the segments whose records file is a ``.swap``, ascending."""
    return [base for base in listing.base_offsets if log_file_name(base) in listing.swapped]


class _SortedOut(NamedTuple):
    bases: list[Offset]
    snapshots: list[Offset]
    kraft: list[KRaftSnapshot]
    leftovers: list[Leftover]
    unfinished: list[tuple[str, FileKind, Offset, FileState]]


def _sort_files(names: Iterable[str], only: str | None) -> _SortedOut:
    """Sort the files by kind. Sorted names of one offset are adjacent, so an index waits for its segment
    only until the next offset."""
    bases, snapshots, kraft, leftovers, unfinished = found = _SortedOut([], [], [], [], [])
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
            if only is None and parsed is not None and parsed.state in _HALF_DONE:
                assert parsed.base_offset is not None
                unfinished.append((name, parsed.kind, parsed.base_offset, parsed.state))
            elif name != only:
                leftovers.append(Leftover(name, reason))
        elif parsed is None or parsed.base_offset is None:
            continue
        elif parsed.kind is FileKind.PRODUCER_SNAPSHOT:
            snapshots.append(parsed.base_offset)
        else:
            kraft.append(KRaftSnapshot(parsed.base_offset, parsed.epoch or 0))
    leftovers += _without_log(waiting)
    return found


def _take_swapped(found: _SortedOut) -> Mapping[str, str]:
    """Add the complete segments of an unfinished compaction or split to the bases, and the other files to the leftovers.

    All new segments of a replacement are complete once none is left as ``.cleaned``; these become ``.swap`` from the
    highest offset down. So a ``.swap`` at or above a ``.cleaned`` counts as little as that one.
    """
    swapped: dict[str, str] = {}
    indexes: list[str] = []
    cleaned = (base for _, _, base, state in found.unfinished if state is FileState.CLEANED)
    first_cleaned = min(cleaned, default=MAX_INT64)
    for name, kind, base, state in found.unfinished:
        if state is FileState.CLEANED or base >= first_cleaned:
            found.leftovers.append(Leftover(name, _WHY_NOT[state]))
        elif kind is not FileKind.LOG:
            indexes.append(name)
        else:
            found.bases.append(base)
            for each in SEGMENT_KINDS:
                swapped[name[:20] + each.value] = name[:20] + each.value + FileState.SWAP.value
    for name in indexes:
        swapped[name.removesuffix(FileState.SWAP.value)] = name
    found.bases[:] = sorted(set(found.bases))
    return swapped or SAME_NAMES


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
