"""Identify a path of an operator as a log dir, a partition's folder, a records file or a tiered copy."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from engine.errors import InvalidNameError, SourceError
from engine.files.file_names import (
    FileKind,
    FileName,
    FileState,
    parse_file_name,
    parse_folder_name,
)
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceRoot
from engine.files.tries import tried
from engine.log.tiered.folders import TieredFolder
from engine.log.tiered.paths import may_be_tiered, tiered_file_root, tiered_root
from engine.log.tiered.root import TieredRoot
from engine.units import TopicPartition

HINT = (
    "name a broker's log dir (the folder that holds meta.properties and folders like orders-0),"
    " one partition's folder, one .log file, or a copy of tiered storage"
)
LOG_DIR_FILES = {
    *(FileKind.META_PROPERTIES, FileKind.OFFSET_CHECKPOINT, FileKind.CLEAN_SHUTDOWN),
    *(FileKind.LOCK, FileKind.BOOTSTRAP_CHECKPOINT),
}
"""Files of a log dir beside the partitions."""
_PARTITION_FILES = {
    *(FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX),
    *(FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA),
}
"""Files that are only in partitions' folders."""
UNKNOWN_PARTITION = -1


class Placed(NamedTuple):
    """A partition's folder in a source.

    Attributes:
        folder, name: path of the folder in the source, and name of the partition.
        topic_partition: topic and partition.
        only: the one records file to show; None for the whole folder.
        is_log: whether it is the partition's log, not a deleted, future or stray one.
    """

    folder: str
    name: str
    topic_partition: TopicPartition
    only: str | None = None
    is_log: bool = True


class Identified(NamedTuple):
    """An identified path.

    Attributes:
        root: the source.
        log_dir: the log dir: the source, or the folder above the partition's; None where that is not one.
        fixed: the one partition, when the path is not a log dir.
    """

    root: SourceRoot
    log_dir: SourceRoot | None
    fixed: Placed | None


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn an OSError into a SourceError with one sentence and a hint."""
    try:
        yield
    except FileNotFoundError:
        raise SourceError(f"{path} is not there", hint=HINT) from None
    except PermissionError:
        raise SourceError(
            f"{path} may not be read by this user",
            hint="run as the user that owns the log dir, or as one of its group",
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"{path} cannot be read: {reason}") from error


def identify(path: str, *, open_files: int, cross_device: bool) -> Identified:
    """Open and identify a path. Raises OSError, and SourceError for a path without Kafka's files."""

    def opened(folder: str) -> SourceRoot:
        return SourceRoot(folder, open_files=max(open_files, 1), cross_device=cross_device)

    mode = tried(lambda: os.stat(path), path).st_mode
    if stat.S_ISREG(mode):
        copy = tiered_file_root(path, open_files=max(open_files, 1), cross_device=cross_device)
        if copy is not None:
            return Identified(copy[0], None, _placed_copies(*copy[1:]))
        folder, name = os.path.split(os.path.abspath(path))
        return _one_file(opened(folder), folder, name, _log_dir_above(folder, opened))
    if not stat.S_ISDIR(mode):
        raise SourceError(f"{path} is neither a folder nor a file", hint=HINT)
    root = opened(path)
    files, others = root.list_apart()
    entries = [*others, *(SourceEntry(name, EntryKind.FILE) for name in files)]
    if not entries:
        raise SourceError(f"{path} is empty", hint=HINT)
    if may_be_tiered(path, files, others) and not _has_files_of_a_broker(entries):
        copies = tiered_root(
            root, files, others, open_files=max(open_files, 1), cross_device=cross_device
        )
        if copies is not None:
            root.close()
            return Identified(copies[0], None, copies[1] and _placed_copies(copies[1]))
    if _is_log_dir(entries):
        return Identified(root, root, None)
    name = os.path.basename(os.path.abspath(path))
    if _is_partition(entries):
        placed = Placed("", name, _partition_called(name))
        return Identified(root, _log_dir_above(path, opened), placed)
    raise SourceError(f"{path} is not a log dir", hint=HINT)


def refuse_tiered(path: str) -> None:
    """Raise SourceError for a copy of tiered storage: a broker does not start on one."""
    with SourceRoot(path) as root:
        files, others = root.list_apart()
        if not may_be_tiered(path, files, others):
            return
    found = identify(path, open_files=1, cross_device=False)
    found.root.close()
    if isinstance(found.root, TieredRoot):
        raise SourceError(
            f"{path} is a copy of tiered storage, and no broker starts on that",
            hint="kafkafs rebuild makes a log dir of it",
        )


def _placed_copies(folder: TieredFolder, only: str | None = None) -> Placed:
    return Placed("", folder.name, folder.partition, only=only)


def _one_file(root: SourceRoot, folder: str, name: str, log_dir: SourceRoot | None) -> Identified:
    stem, dot, _ = name.partition(".log")
    if not stem or not dot:
        raise SourceError(f"{root.path}/{name} is not a .log file", hint=HINT)
    above = os.path.basename(folder)
    try:
        partition, shown = parse_folder_name(above).topic_partition, above
    except InvalidNameError:
        partition, shown = TopicPartition(stem, UNKNOWN_PARTITION), stem
    return Identified(root, log_dir, Placed("", shown, partition, only=name))


def _partition_called(name: str) -> TopicPartition:
    """Return topic and number of a folder's name; another name is a topic without a number."""
    try:
        return parse_folder_name(name).topic_partition
    except InvalidNameError:
        return TopicPartition(name, UNKNOWN_PARTITION)


def _is_log_dir(entries: Sequence[SourceEntry]) -> bool:
    """Return whether there are files of a log dir, or folders with names of partitions."""
    for entry in entries:
        if entry.kind is EntryKind.FILE and _kind_of(entry.name) in LOG_DIR_FILES:
            return True
        if entry.kind is EntryKind.DIRECTORY and is_partition_name(entry.name):
            return True
    return False


def _is_partition(entries: Sequence[SourceEntry]) -> bool:
    """Return whether there is any file of a partition's folder; its records files may be gone."""
    return any(
        entry.kind is EntryKind.FILE and _kind_of(entry.name) in _PARTITION_FILES
        for entry in entries
    )


def _kind_of(name: str) -> FileKind | None:
    parsed: FileName | None = parse_file_name(name)
    return parsed.kind if parsed is not None and parsed.state is FileState.LIVE else None


def is_partition_name(name: str) -> bool:
    """Return whether a broker takes a folder of this name for a partition's."""
    try:
        parse_folder_name(name)
    except InvalidNameError:
        return False
    return True


def _log_dir_above(path: str, opened: Callable[[str], SourceRoot]) -> SourceRoot | None:
    """Return the folder above a partition's folder, if it is a log dir that can be read."""
    try:
        root = opened(os.path.dirname(os.path.realpath(path)))
        entries = root.list()
    except OSError:
        return None
    if _has_files_of_a_broker(entries):
        return root
    root.close()
    return None


def _has_files_of_a_broker(entries: Sequence[SourceEntry]) -> bool:
    return any(
        entry.kind is EntryKind.FILE and _kind_of(entry.name) in LOG_DIR_FILES for entry in entries
    )
