"""Find log dirs below a folder that is none: `/var/lib/kafka` with `data-0/kafka-log0`, or the folders of several brokers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from engine.errors import InvalidNameError, SourceRefusedError
from engine.files.file_names import (
    FileKind,
    FileState,
    parse_file_name,
    parse_folder_name,
    parse_tiered_file_name,
    parse_tiered_topic_name,
)
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceRoot

LOG_DIR_FILES = {
    *(FileKind.META_PROPERTIES, FileKind.OFFSET_CHECKPOINT, FileKind.CLEAN_SHUTDOWN),
    *(FileKind.LOCK, FileKind.BOOTSTRAP_CHECKPOINT),
}
"""Files of a log dir beside the partitions."""
PARTITION_FILES = {
    *(FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX),
    *(FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA),
}
"""Files that are only in partitions' folders."""
_MOST_LEVELS = 5
_MOST_FOLDERS = 500
_MOST_ENTRIES = 200_000
_MOST_PEEKS = 16


class LogDirsBelow(NamedTuple):
    """Log dirs below a folder.

    Attributes:
        paths: their paths from the folder, in order.
        is_all: whether the search came to its end.
    """

    paths: tuple[str, ...]
    is_all: bool


def log_dirs_below(root: SourceRoot) -> LogDirsBelow:
    """Return the log dirs below a folder: five levels deep, in the first 500 folders and 200,000 names. Links are not followed."""
    found: list[str] = []
    waiting = [""]
    folders = entries = 0
    while waiting and folders < _MOST_FOLDERS and entries < _MOST_ENTRIES:
        folder = waiting.pop(0)
        folders += 1
        try:
            listed = root.list(folder)
        except (OSError, SourceRefusedError):
            continue
        entries += len(listed)
        if folder and is_log_dir(root, folder, listed):
            found.append(folder)
        elif folder.count("/") < _MOST_LEVELS - 1:
            below = sorted(name for name, kind in listed if kind is EntryKind.DIRECTORY)
            waiting += [f"{folder}/{name}" if folder else name for name in below]
    return LogDirsBelow(tuple(sorted(found)), not waiting)


def is_log_dir(root: SourceRoot, folder: str, entries: Sequence[SourceEntry]) -> bool:
    """Return whether a folder holds files of a log dir, or partitions' folders with files in them, or tiered copies."""
    kinds = {kind_of(entry.name) for entry in entries if entry.kind is EntryKind.FILE}
    if kinds & (LOG_DIR_FILES - {FileKind.LOCK}):
        return True
    if kinds & PARTITION_FILES:
        return False
    return holds_partitions(root, folder, entries) or _holds_copies(root, folder, entries)


def _holds_copies(root: SourceRoot, folder: str, entries: Sequence[SourceEntry]) -> bool:
    """Return whether one of the first folders with names of tiered storage, or a folder in it, has a tiered copy."""
    names = (name for name, kind in entries if kind is EntryKind.DIRECTORY)
    for name in islice(filter(parse_tiered_topic_name, sorted(names)), _MOST_PEEKS):
        with suppress(OSError, SourceRefusedError):
            path = f"{folder}/{name}" if folder else name
            files, others = root.list_apart(path)
            below = next((each for each, kind in others if kind is EntryKind.DIRECTORY), None)
            if below is not None:
                files = [*files, *islice(root.iterate_files(f"{path}/{below}"), _MOST_PEEKS)]
            if any(map(parse_tiered_file_name, files)):
                return True
    return False


def holds_partitions(root: SourceRoot, folder: str, entries: Sequence[SourceEntry]) -> bool:
    """Return whether one of the first folders with names of partitions has a partition's files."""
    names = (name for name, kind in entries if kind is EntryKind.DIRECTORY)
    for name in islice(filter(is_partition_name, sorted(names)), _MOST_PEEKS):
        with suppress(OSError, SourceRefusedError):
            path = f"{folder}/{name}" if folder else name
            if any(kind_of(each) in PARTITION_FILES for each in root.list_apart(path)[0]):
                return True
    return False


def kind_of(name: str) -> FileKind | None:
    """Return the kind of a file that is part of a log dir or a log; None for another name."""
    parsed = parse_file_name(name)
    return parsed.kind if parsed is not None and parsed.state is FileState.LIVE else None


def is_partition_name(name: str) -> bool:
    """Return whether a broker takes a folder of this name for a partition's."""
    try:
        parse_folder_name(name)
    except InvalidNameError:
        return False
    return True
