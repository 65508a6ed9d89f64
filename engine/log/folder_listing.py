"""What lies in a partition's folder: its segments, and what is not part of the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from engine.file_names import FileKind, FileName, FileState, log_file_name, parse_file_name
from engine.source_files import EntryKind, SourceEntry
from engine.units import MAX_INT64, Offset

_WHY_NOT = {
    FileState.DELETED: "deleted: on its way out",
    FileState.CLEANED: "compaction was writing it",
    FileState.SWAP: "compaction wrote it, and did not put it in its place yet",
    FileState.PARTIAL: "a snapshot that is not complete",
    FileState.TEMPORARY: "a checkpoint that was being written",
}
_SEGMENT_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
_IN_PARTITIONS = {
    *(FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA),
    *(FileKind.PRODUCER_SNAPSHOT, FileKind.KRAFT_CHECKPOINT, FileKind.QUORUM_STATE),
}


_LOG_NAME_SIZE = len(log_file_name(0))
_LARGEST = str(MAX_INT64).zfill(20)


class Leftover(NamedTuple):
    """An entry that is not part of the log, and why."""

    name: str
    reason: str


class KRaftSnapshot(NamedTuple):
    """A snapshot of all records before `end_offset`, the last of them of `epoch`."""

    end_offset: Offset
    epoch: int


class FolderListing(NamedTuple):
    """A partition's folder at one moment.

    Attributes:
        entries: all of it, sorted by name.
        base_offsets: of the segments, ascending.
        producer_snapshots: their offsets, ascending.
        kraft_snapshots: ascending.
        leftovers: what is not part of the log, sorted by name.
    """

    entries: tuple[SourceEntry, ...]
    base_offsets: tuple[Offset, ...]
    producer_snapshots: tuple[Offset, ...]
    kraft_snapshots: tuple[KRaftSnapshot, ...]
    leftovers: tuple[Leftover, ...]


def sort_entries(entries: Iterable[SourceEntry], only: str | None = None) -> FolderListing:
    """Tell apart what lies in a partition's folder.

    Args:
        entries: as the source lists them.
        only: the one records file to see, with its indexes; None for the whole folder.
    """
    ordered = sorted(entries)
    if only is not None:
        stem = only.partition(".")[0]
        ordered = [entry for entry in ordered if entry.name.partition(".")[0] == stem]
    bases: list[Offset] = []
    snapshots: list[Offset] = []
    kraft: list[KRaftSnapshot] = []
    leftovers: list[Leftover] = []
    side_files: list[tuple[str, Offset]] = []
    for name, kind in ordered:
        if name.endswith(".log") and len(name) == _LOG_NAME_SIZE and kind is EntryKind.FILE:
            digits = name[:-4]  # most names are these: worth a short cut
            if digits.isascii() and digits.isdigit() and digits <= _LARGEST:
                bases.append(int(digits))
                continue
        parsed = parse_file_name(name)
        reason = _why_leftover(kind, parsed)
        if reason is not None:
            if name != only:
                leftovers.append(Leftover(name, reason))
        elif parsed is None or parsed.base_offset is None:
            continue
        elif parsed.kind is FileKind.LOG:
            bases.append(parsed.base_offset)
        elif parsed.kind is FileKind.PRODUCER_SNAPSHOT:
            snapshots.append(parsed.base_offset)
        elif parsed.kind is FileKind.KRAFT_CHECKPOINT:
            kraft.append(KRaftSnapshot(parsed.base_offset, parsed.epoch or 0))
        else:
            side_files.append((name, parsed.base_offset))
    known = set(bases)
    leftovers += [
        Leftover(name, f"an index without {log_file_name(base)}")
        for name, base in side_files
        if base not in known and only is None
    ]
    return FolderListing(
        tuple(ordered),
        tuple(bases),
        tuple(snapshots),
        tuple(sorted(kraft)),
        tuple(sorted(leftovers)),
    )


def _why_leftover(kind: EntryKind, parsed: FileName | None) -> str | None:
    """Why an entry is no part of the log; None when it is."""
    if kind is EntryKind.SYMLINK:
        return "a symbolic link, not followed"
    if kind is EntryKind.DIRECTORY:
        return "a directory, where only files belong"
    if kind is EntryKind.OTHER:
        return "not a regular file"
    if parsed is None:
        return "no file of a log has such a name"
    if parsed.state is not FileState.LIVE:
        return _WHY_NOT[parsed.state]
    if (
        parsed.kind is FileKind.LOG
        or parsed.kind in _SEGMENT_KINDS
        or parsed.kind in _IN_PARTITIONS
    ):
        return None
    return "a file of the log dir, not of a partition"
