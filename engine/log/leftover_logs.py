"""Records beside the logs of a source: in files that a broker renamed for deletion or replacement, and in folders of
partitions that it deletes, moves or does not know.

Each such file, and each such folder, is a log of its own with the name that the source has for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from engine.errors import InvalidNameError
from engine.files.file_names import (
    FileKind,
    FolderState,
    log_file_name,
    parse_file_name,
    parse_folder_name,
)
from engine.files.source_files import SourceRoot
from engine.log.folder_listing import sort_entries
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.segment.damage import DamageKind
from engine.units import Offset

_MARKS = tuple(each.value for each in FolderState if each is not FolderState.LOG)


class LeftoverLog(NamedTuple):
    """Records that are not part of a log.

    Attributes:
        log: the records; its name is a folder's, or that of a partition, a slash and a file.
        partition: the log of the same partition, which may hold the same records; None if the source has none.
        files, size: number of records files, and their bytes.
    """

    log: PartitionLog
    partition: PartitionLog | None
    files: int
    size: int


def leftover_logs(
    source: LogSource, takes: Callable[[PartitionLog], bool]
) -> Iterator[LeftoverLog]:
    """Yield the leftovers of some partitions that have bytes, by the names of the logs.

    What cannot be read is left out, and is a problem of its log.

    Args:
        source: the source.
        takes: returns whether a log, or the folder beside one, is wanted.
    """
    logs = source.partitions()
    for log in filter(takes, logs.values()):
        try:
            names, bases = _names(log)
        except OSError as error:
            log.problems.add_error(DamageKind.UNREADABLE, log.folder, error)
            continue
        proper = logs.get(str(log.topic_partition))
        if is_set_aside(log):
            sizes = [size for _, size in sizes_in(log.root, log.folder, map(log_file_name, bases))]
            if sizes:
                yield LeftoverLog(log, proper, len(sizes), sum(sizes))
        for name, size in sizes_in(log.root, log.folder, names):
            yield LeftoverLog(log.file_apart(name), proper or log, 1, size)


def _names(log: PartitionLog) -> tuple[list[str], Sequence[Offset]]:
    """Return the records files in a log's folder that are not part of it, and the base offsets of those that are."""
    if log.only is not None:
        return [], ()
    if log.is_loaded:
        listing = log.view().listing
    else:
        listing = sort_entries(*log.root.list_apart(log.folder))
    parsed = ((each.name, parse_file_name(each.name)) for each in listing.leftovers)
    names = [name for name, kind in parsed if kind is not None and kind.kind is FileKind.LOG]
    return names, listing.base_offsets


def is_set_aside(log: PartitionLog) -> bool:
    """Return whether a log is in a folder that a broker set aside."""
    return state_of(log) is not FolderState.LOG


def state_of(log: PartitionLog) -> FolderState:
    """Return the state in the name of a log's folder: LOG for a log, others for folders that a broker set aside."""
    if not log.folder.endswith(_MARKS):
        return FolderState.LOG
    try:
        return parse_folder_name(log.folder).state
    except InvalidNameError:
        return FolderState.LOG


def sizes_in(root: SourceRoot, folder: str, names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield the files of a folder that have bytes, and their sizes. Raises OSError."""
    for name, status in root.stat_files(folder, names):
        if status.st_size:
            yield name, status.st_size
