"""Finish or undo interrupted deletions, compactions and splits in the folder of a log.

A replacement renames new segments from ``.cleaned`` (being written) to ``.swap`` (complete; the highest
offsets first) to no suffix, and old ones to ``.deleted``. So a ``.swap`` file counts if no ``.cleaned`` file
is at or below its offset: then all new segments were complete, and the replacement is finished. Otherwise it
is undone. See LogLoader and LocalLog.replaceSegments in Kafka.

Files are removed and renamed in a fixed order, and the folder is synced between the steps, so that after a
crash here the next loading comes to the same result.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import NamedTuple

from engine.disk.disk import Disk
from engine.files.file_names import FileKind, FileName, FileState, parse_file_name
from engine.units import MAX_INT64, Offset
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.writable_segment import WritableSegment

logger = logging.getLogger(__name__)

DELETED = FileState.DELETED.value
_KRAFT_SNAPSHOT_DELETED = FileKind.KRAFT_CHECKPOINT.value + DELETED
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
_RENAMING_ORDER = (FileKind.LOG, *_INDEXES)


class LogFile(NamedTuple):
    """File with an offset in its name.

    Attributes:
        path: path of the file.
        kind, base_offset, state: parts of the name.
    """

    path: str
    kind: FileKind
    base_offset: Offset
    state: FileState


def log_files(folder: str, disk: Disk) -> list[LogFile]:
    """Return the files of segments and the snapshots: by base offset, the records first."""
    found = []
    for name in disk.list(folder):
        parsed = parse_file_name(name)
        path = os.path.join(folder, name)
        if parsed is not None and _is_log_file(parsed) and not disk.is_dir(path):
            assert parsed.base_offset is not None
            found.append(LogFile(path, parsed.kind, parsed.base_offset, parsed.state))
    return sorted(found, key=lambda file: (file.base_offset, _place(file.kind), file.path))


def clear_leftovers(folder: WritableLogFolder) -> None:
    """Finish or undo each interrupted operation, so that only live files are left.

    Files marked as deleted are removed, except KRaft snapshots, which belong to the metadata log.
    """
    path, disk = folder.path, folder.disk
    _remove_deleted(path, disk)
    swaps = _undo_replacements(path, disk)
    if swaps:
        _remove_replaced(path, _replaced_offsets(folder, swaps), swaps, disk)
        _put_in_place(path, disk)


def remove_orphaned_indexes(folder: str, disk: Disk) -> None:
    """Remove the index files without a records file."""
    files = [file for file in log_files(folder, disk) if file.state is FileState.LIVE]
    with_records = {file.base_offset for file in files if file.kind is FileKind.LOG}
    for file in files:
        if file.kind in _INDEXES and file.base_offset not in with_records:
            logger.warning("removing the index %s, which has no records file", file.path)
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
            logger.debug("removing %s", path)
            disk.remove(path, missing_ok=True)


def _undo_replacements(folder: str, disk: Disk) -> list[LogFile]:
    """Remove the files of incomplete replacements; return the swap files of complete ones."""
    files = log_files(folder, disk)
    cleaned = [file for file in files if file.state is FileState.CLEANED]
    swaps = [file for file in files if file.state is FileState.SWAP]
    first_cleaned = min((file.base_offset for file in cleaned), default=MAX_INT64)
    undone = [file for file in swaps if file.base_offset >= first_cleaned]
    _remove(undone, disk)
    if undone:
        disk.sync_folder(folder)  # the remaining swap files must not look complete
    _remove(cleaned, disk)
    return [file for file in swaps if file.base_offset < first_cleaned]


def _remove(files: Iterable[LogFile], disk: Disk) -> None:
    for file in files:
        logger.debug("removing %s of an unfinished replacement", file.path)
        disk.remove(file.path, missing_ok=True)


def _replaced_offsets(folder: WritableLogFolder, swaps: list[LogFile]) -> range:
    """Return the offsets of the complete new segments."""
    records = [file for file in swaps if file.kind is FileKind.LOG]
    if not records:
        return range(0)
    present = {file.path for file in swaps}
    end = max(_end_of_new(folder, file) for file in records)
    for file in log_files(folder.path, folder.disk):
        if file.state is FileState.SWAP and file.path not in present:
            folder.disk.remove(file.path)  # an empty index that reading the segment created
    return range(records[0].base_offset, end)


def _end_of_new(folder: WritableLogFolder, file: LogFile) -> Offset:
    logger.info("%s is complete and replaces other segments", file.path)
    segment = WritableSegment.open(
        folder.path,
        file.base_offset,
        folder.config,
        folder.clock,
        suffix=FileState.SWAP.value,
        disk=folder.disk,
    )
    try:
        return segment.read_next_offset()
    finally:
        segment.close()


def _remove_replaced(folder: str, offsets: range, swaps: list[LogFile], disk: Disk) -> None:
    """Remove the old segments and their snapshots.

    An index with the name of a new segment's index may belong to the new segment, if the names reached the
    device in another order. So the indexes of that segment are rebuilt: loading rebuilds them if the offset
    index is missing.
    """
    new = {(file.base_offset, file.kind): file for file in swaps}
    for file in log_files(folder, disk):
        if file.state is FileState.SWAP or file.base_offset not in offsets:
            continue
        logger.info("removing %s, which was replaced", file.path)
        disk.remove(file.path, missing_ok=True)
        has_successor = (file.base_offset, FileKind.LOG) in new
        if has_successor and file.kind in _INDEXES and (file.base_offset, file.kind) not in new:
            index = new.get((file.base_offset, FileKind.OFFSET_INDEX))
            if index is not None:
                disk.remove(index.path, missing_ok=True)
    disk.sync_folder(folder)


def _put_in_place(folder: str, disk: Disk) -> None:
    """Remove the suffix of the new segments, the lowest offset first.

    Each name is on the device before the next: a renamed segment between two others that are not would count
    as one that they replace.
    """
    swaps = [file for file in log_files(folder, disk) if file.state is FileState.SWAP]
    for at, file in enumerate(swaps):
        logger.info("renaming %s to its name in the log", file.path)
        disk.rename(file.path, file.path.removesuffix(FileState.SWAP.value))
        if at + 1 == len(swaps) or swaps[at + 1].base_offset != file.base_offset:
            disk.sync_folder(folder)
