"""A segment's four files by name: where they lie, how suffixes change, how they go."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable

from engine.errors import KafkaStorageError
from engine.files.file_names import (
    FileState,
    log_file_name,
    offset_index_name,
    time_index_name,
    transaction_index_name,
)
from engine.units import Offset
from engine.writing.disk import DISK, Disk, StrPath

log = logging.getLogger(__name__)

FAILURES = (OSError, ValueError, KafkaStorageError)
"""What work on files raises: by the disk, by files that were closed before, by what they hold."""

_FUTURE_FOLDER = re.compile(r"(\S+)-(\S+)\.(\S+)-future")


def log_path(folder: StrPath, base_offset: Offset, suffix: str = "") -> str:
    """Where a segment's records file lies; the suffix is that of a `FileState`."""
    return os.path.join(folder, log_file_name(base_offset, FileState(suffix)))


def offset_index_path(folder: StrPath, base_offset: Offset, suffix: str = "") -> str:
    """Where its offset index lies."""
    return os.path.join(folder, offset_index_name(base_offset, FileState(suffix)))


def time_index_path(folder: StrPath, base_offset: Offset, suffix: str = "") -> str:
    """Where its time index lies."""
    return os.path.join(folder, time_index_name(base_offset, FileState(suffix)))


def transaction_index_path(folder: StrPath, base_offset: Offset, suffix: str = "") -> str:
    """Where its index of aborted transactions lies."""
    return os.path.join(folder, transaction_index_name(base_offset, FileState(suffix)))


def delete_files_if_exist(
    folder: StrPath, base_offset: Offset, suffix: str = "", *, disk: Disk = DISK
) -> list[str]:
    """Remove what there is of a segment that is not open, the records last; the paths that were there."""
    kinds = (offset_index_path, time_index_path, transaction_index_path, log_path)
    paths = [path_of(folder, base_offset, suffix) for path_of in kinds]
    return [path for path in paths if disk.remove(path, missing_ok=True)]


def replace_suffix(path: str, old: str, new: str) -> str:
    """A path with another end. Raises ValueError when it does not end with the old one."""
    if not path.endswith(old):
        raise ValueError(f"{path} does not end with {old}")
    return path[: len(path) - len(old)] + new


def delete_or_fall_back(
    kind: str,
    path: str,
    delete: Callable[[], bool],
    *,
    may_be_missing: bool = False,
    disk: Disk = DISK,
) -> None:
    """Remove one file of a segment, wherever its folder went meanwhile.

    A future log's folder loses its suffix when it takes its place, perhaps after the deletion was
    scheduled; then a file marked as deleted is removed from there.

    Raises:
        OSError: the file cannot be removed; the message names it.
    """
    try:
        if delete():
            log.info("Deleted %s %s", kind, path)
            return
        if not may_be_missing:
            log.info("There was no %s %s to delete", kind, path)
        folder, name = os.path.split(path)
        match = _FUTURE_FOLDER.fullmatch(folder)
        if match is not None and name.endswith(FileState.DELETED.value):
            fallback = os.path.join(f"{match[1]}-{match[2]}", name)
            if disk.remove(fallback, missing_ok=True):
                log.info("Deleted %s %s, where it was moved to", kind, fallback)
    except OSError as error:
        error.add_note(f"deleting the {kind} {path}")
        raise


def do_all(actions: Iterable[Callable[[], object]]) -> None:
    """Do each action, even when some fail; then raise the first error, the others noted on it."""
    first: Exception | None = None
    for action in actions:
        try:
            action()
        except FAILURES as error:
            if first is None:
                first = error
            else:
                first.add_note(f"and then: {error!r}")
    if first is not None:
        raise first
