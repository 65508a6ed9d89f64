"""Offset ranges of partitions for a path of the tree. Used by commands that read records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from kafkafs.tree.errors import NotFound
from kafkafs.tree.lookups import (
    end_offset,
    first_on_disk,
    offsets_of_period,
    offsets_of_range,
    segment_with_base,
)
from kafkafs.tree.path_names import parse_offset, parse_period, parse_range


class Selection(NamedTuple):
    """Records [from_offset, to_offset) of a partition's log, in the view of the moment of selection."""

    view: LogView
    from_offset: int
    to_offset: int
    committed: bool


def select(source: LogSource, path: str, *, committed: bool = False) -> list[Selection]:
    """Return the records that a path names, one selection for each segment with some of them.

    `path` is one of: nothing (all partitions), PARTITION, PARTITION/records or committed (and a file
    in them), PARTITION/offset/N or RANGE, PARTITION/time/PERIOD, time/PERIOD, time/PERIOD/PARTITION.

    Raises:
        NotFound: any other path, or a missing partition.
    """
    logs = source.partitions()
    parts = path.split("/") if path else []
    if parts and parts[0] == "time":
        names = parts[2:3] or proper_logs(logs)
        rest = parts[:2]
    else:
        names = parts[:1] or proper_logs(logs)
        rest = parts[1:]
    found: list[Selection] = []
    for name in names:
        if name not in logs:
            raise NotFound(path)
        view = logs[name].view_or_none()
        if view is None:
            continue
        start, end = offset_range(view, rest, path)
        is_committed = committed or rest[:1] == ["committed"]
        end = min(end, view.end(committed=is_committed))
        found += by_segment(view, start, end, is_committed)
    return found


def select_in(view: LogView, path: str, *, committed: bool = False) -> list[Selection]:
    """Return the records that a path of a partition, as `select` takes it, names in another log; none for a file's."""
    parts = path.split("/") if path else []
    rest = parts[:2] if parts[:1] == ["time"] else parts[1:]
    try:
        start, end = offset_range(view, rest, path)
    except NotFound:
        return []
    is_committed = committed or rest[:1] == ["committed"]
    end = min(end, view.end(committed=is_committed))
    return by_segment(view, start, end, is_committed)


def proper_logs(logs: Mapping[str, PartitionLog]) -> list[str]:
    """Return the partitions without those that are being deleted or are second copies."""
    return [name for name, log in logs.items() if name == str(log.topic_partition)]


def offset_range(view: LogView, rest: list[str], path: str) -> tuple[int, int]:
    """Return the offset range of a path inside a partition."""
    match rest:
        case [] | ["records"]:
            return first_on_disk(view), view.log_end_offset
        case ["committed"]:
            return view.log_start_offset, view.log_end_offset
        case ["records" | "committed", name] if name.endswith(".jsonl"):
            base = parse_offset(name.removesuffix(".jsonl"))
            if base is not None and segment_with_base(view, base) is not None:
                return base, end_offset(view, base)
        case ["offset", name]:
            if (one := parse_offset(name)) is not None:
                return one, one + 1
            if (some := parse_range(name)) is not None:
                return offsets_of_range(view, some)
        case ["time", name, *_]:
            if (period := parse_period(name)) is not None:
                return offsets_of_period(view, period)
    raise NotFound(path)


def by_segment(view: LogView, start: int, end: int, committed: bool) -> list[Selection]:
    """Split an offset range into one selection per segment, so that segments can be read in parallel."""
    found = []
    for segment in view.segments:
        low = max(start, segment.base_offset)
        high = min(end, end_offset(view, segment.base_offset))
        if low < high:
            found.append(Selection(view, low, high, committed))
    return found
