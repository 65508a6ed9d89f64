"""What a command says when a selection has no records: what there is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.errors import KafkaStorageError

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_choice import PartitionChoice
    from engine.log.partition_log import PartitionLog
    from engine.log.view.log_bound import LogRange
    from engine.log.view.log_view import LogView

_MOST = 3


def no_records(where: str, logs: Iterable[PartitionLog] = ()) -> str:
    """Return the sentence that there are no records in a place, with the offsets and times that logs hold."""
    held = [_held(log) for log in logs]
    more = len(held) - _MOST
    partitions = "1 more partition" if more == 1 else f"{more} more partitions"
    return "; ".join(
        [
            f"there are no records in {where}",
            *(each for each in held[:_MOST]),
            *([f"and {partitions}"] if more > 0 else ()),
        ]
    )


def place_of(choice: PartitionChoice, extent: LogRange, path: str = "") -> str:
    """Return the words for the records that a path and options choose."""
    if any(extent):
        return f"the range in {path}" if path else "the range"
    return path or ("the chosen partitions" if choice else "the source")


def logs_of_path(source: LogSource, path: str) -> list[PartitionLog]:
    """Return the partition in a path of the tree; all for a path of all partitions; none for another path."""
    from kafkafs.tree.selection import proper_logs

    logs = source.partitions()
    parts = path.split("/") if path else ["time"]
    names = parts[2:3] or proper_logs(logs) if parts[0] == "time" else parts[:1]
    if (
        len(logs) == 1 and not next(iter(logs.values())).folder
    ):  # the source is a partition's folder
        names = list(logs)
    return [logs[name] for name in names if name in logs]


def selects_nothing(source: LogSource, path: str) -> bool:
    """Return whether a path names a range of offsets or a period without records."""
    from kafkafs.cli.options.paths import found_at
    from kafkafs.tree.errors import NotADirectory, NotFound
    from kafkafs.tree.selection import select

    parts = path.split("/")
    if not {"offset", "time"} & set(parts[:2]):
        return False
    try:
        if found_at(source, path, lambda name: select(source, name)):
            return False
    except (NotFound, NotADirectory):
        return False
    return all(log.view_or_none() is not None for log in logs_of_path(source, path))


def _held(log: PartitionLog) -> str:
    """Return a clause with the offsets and times of a log's records."""
    view = log.view_or_none()
    if view is None:
        return f"{log.name} cannot be read"
    first, end = view.log_start_offset, view.log_end_offset
    if first >= end:
        return f"{log.name} holds none"
    one = f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"
    return f"{log.name} holds {one}{_times(view)}"


def _times(view: LogView) -> str:
    """Return the times of the first record and of the newest one; nothing if they are not known."""
    from kafkafs.cli.printing.terminal.table import moment

    try:
        first, newest = view.offset_for_time(0, records_only=True), view.max_timestamp
    except (KafkaStorageError, OSError):
        return ""
    if first is None or newest is None:
        return ""
    return f", times {moment(first.timestamp)} to {moment(newest.timestamp)}"
