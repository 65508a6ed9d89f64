"""What an interrupted deletion, compaction or split leaves in a log's folder, and which of its ends it is brought to.

A replacement of segments by others goes from ``.cleaned`` (being written) over ``.swap`` (written; those
with the highest offsets first) to no suffix, while the old segments become ``.deleted``. So a ``.swap`` counts
when no ``.cleaned`` lies at or below it: then all of the new segments were complete, and the replacement is
carried through. Else it is undone. See LogLoader and LocalLog.replaceSegments in Kafka.

Names go in an order, and the folder is synced between steps, so that a crash in here leaves a folder from
which the same end is reached.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import NamedTuple

from engine.clock import Clock
from engine.files.file_names import FileKind, FileName, FileState, parse_file_name
from engine.units import MAX_INT64, Offset
from engine.writing.disk import Disk
from engine.writing.log_config import LogConfig
from engine.writing.segment.writable_segment import WritableSegment

log = logging.getLogger(__name__)

DELETED = FileState.DELETED.value
_KRAFT_SNAPSHOT_DELETED = FileKind.KRAFT_CHECKPOINT.value + DELETED
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
_RENAMING_ORDER = (FileKind.LOG, *_INDEXES)


class LogFile(NamedTuple):
    """A file of a log's folder that has an offset in its name.

    Attributes:
        path: where it is.
        kind, base_offset, state: what its name says.
    """

    path: str
    kind: FileKind
    base_offset: Offset
    state: FileState


def log_files(folder: str, disk: Disk) -> list[LogFile]:
    """The files of segments and the snapshots, those of each base offset together, records first."""
    found = []
    for name in disk.list(folder):
        parsed = parse_file_name(name)
        path = os.path.join(folder, name)
        if parsed is not None and _is_log_file(parsed) and not disk.is_dir(path):
            assert parsed.base_offset is not None
            found.append(LogFile(path, parsed.kind, parsed.base_offset, parsed.state))
    return sorted(found, key=lambda file: (file.base_offset, _place(file.kind), file.path))


def clear_leftovers(folder: str, config: LogConfig, clock: Clock, disk: Disk) -> None:
    """Bring each interrupted operation to its end, so that only live files are left.

    Files marked as deleted go, but not those of KRaft snapshots, which others look after.
    """
    _remove_deleted(folder, disk)
    swaps = _undo_replacements(folder, disk)
    if swaps:
        offsets = _replaced_offsets(folder, swaps, config, clock, disk)
        _remove_replaced(folder, offsets, swaps, disk)
        _put_in_place(folder, disk)


def remove_orphaned_indexes(folder: str, disk: Disk) -> None:
    """Remove index files that stand there without the records that they are an index of."""
    files = [file for file in log_files(folder, disk) if file.state is FileState.LIVE]
    with_records = {file.base_offset for file in files if file.kind is FileKind.LOG}
    for file in files:
        if file.kind in _INDEXES and file.base_offset not in with_records:
            log.warning("removing the index %s, which has no records file", file.path)
            disk.remove(file.path, missing_ok=True)


def _is_log_file(parsed: FileName) -> bool:
    return parsed.kind in _RENAMING_ORDER or parsed.kind is FileKind.PRODUCER_SNAPSHOT


def _place(kind: FileKind) -> int:
    return _RENAMING_ORDER.index(kind) if kind in _RENAMING_ORDER else len(_RENAMING_ORDER)


def _remove_deleted(folder: str, disk: Disk) -> None:
    for name in disk.list(folder):
        path = os.path.join(folder, name)
        is_ours = name.endswith(DELETED) and not name.endswith(_KRAFT_SNAPSHOT_DELETED)
        if is_ours and not disk.is_dir(path):
            log.debug("removing %s", path)
            disk.remove(path, missing_ok=True)


def _undo_replacements(folder: str, disk: Disk) -> list[LogFile]:
    """Remove what is not complete; the swap files that are."""
    files = log_files(folder, disk)
    cleaned = [file for file in files if file.state is FileState.CLEANED]
    swaps = [file for file in files if file.state is FileState.SWAP]
    first_cleaned = min((file.base_offset for file in cleaned), default=MAX_INT64 + 1)
    undone = [file for file in swaps if file.base_offset >= first_cleaned]
    _remove(undone, disk)
    if undone:
        disk.sync_folder(folder)  # what is left of them must not look complete
    _remove(cleaned, disk)
    return [file for file in swaps if file.base_offset < first_cleaned]


def _remove(files: Iterable[LogFile], disk: Disk) -> None:
    for file in files:
        log.debug("removing %s of an unfinished replacement", file.path)
        disk.remove(file.path, missing_ok=True)


def _replaced_offsets(
    folder: str, swaps: list[LogFile], config: LogConfig, clock: Clock, disk: Disk
) -> range:
    """The offsets that the complete new segments hold."""
    records = [file for file in swaps if file.kind is FileKind.LOG]
    if not records:
        return range(0)
    present = {file.path for file in swaps}
    end = 0
    for file in records:
        log.info("%s is complete and takes the place of what it replaces", file.path)
        segment = WritableSegment.open(
            folder, file.base_offset, config, clock, suffix=FileState.SWAP.value, disk=disk
        )
        try:
            end = max(end, segment.read_next_offset())
        finally:
            segment.close()
    for file in log_files(folder, disk):
        if file.state is FileState.SWAP and file.path not in present:
            disk.remove(file.path)  # an empty index that the look above has made
    return range(records[0].base_offset, end)


def _remove_replaced(folder: str, offsets: range, swaps: list[LogFile], disk: Disk) -> None:
    """Remove the old segments and their snapshots; an empty range removes none.

    An index of the same name as a new segment's may have been that segment's, if names reached the device in
    another order. So the segment's indexes are made again, which the lack of an offset index brings about.
    """
    new = {(file.base_offset, file.kind): file for file in swaps}
    removed = False
    for file in log_files(folder, disk):
        if file.state is FileState.SWAP or file.base_offset not in offsets:
            continue
        log.info("removing %s, which was replaced", file.path)
        disk.remove(file.path, missing_ok=True)
        removed = True
        has_successor = (file.base_offset, FileKind.LOG) in new
        if has_successor and file.kind in _INDEXES and (file.base_offset, file.kind) not in new:
            index = new.get((file.base_offset, FileKind.OFFSET_INDEX))
            if index is not None:
                disk.remove(index.path, missing_ok=True)
    if removed:
        disk.sync_folder(folder)


def _put_in_place(folder: str, disk: Disk) -> None:
    """Take the suffix off the new segments, the lowest offset first.

    A segment in its place between two that are not would be taken for one that they replace: so each is on
    the device before the next.
    """
    swaps = [file for file in log_files(folder, disk) if file.state is FileState.SWAP]
    for at, file in enumerate(swaps):
        log.info("putting %s in its place", file.path)
        disk.rename(file.path, file.path.removesuffix(FileState.SWAP.value))
        if at + 1 == len(swaps) or swaps[at + 1].base_offset != file.base_offset:
            disk.sync_folder(folder)
