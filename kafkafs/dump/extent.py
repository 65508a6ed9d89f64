"""A range of records to dump, bounded by offsets or times."""

from __future__ import annotations

from engine.errors import KafkaStorageError, SourceError
from engine.log.log_directory import open_source
from engine.log.view.log_bound import LogRange
from engine.units import MAX_INT64, Offset


def offsets_in(extent: LogRange, folder: str) -> tuple[Offset, Offset]:
    """Return the first and the last offset of a range in a partition's folder, both inclusive.

    A time becomes the offset of the first record, in offset order, at or after it, or the log end when there
    is no such record. In an empty range the last offset is below the first.

    Raises:
        SourceError: a time must be looked up, and the folder is not a partition's.
    """
    if extent.needs_log:
        first, end = _looked_up(extent, folder)
    else:
        first, end = (None if bound is None else bound.offset for bound in extent)
    return first or 0, MAX_INT64 if end is None else end - 1


def why_beside(extent: LogRange, folder: str) -> str | None:
    """Return why the log in a folder has no offset of a range; None when it may have some."""
    try:
        source = open_source([folder])
    except (SourceError, OSError):
        return None
    try:
        logs = list(source.partitions().values())
        if len(logs) != 1:
            return None
        view = logs[0].view()
        if logs[0].has_unread:
            return None
        first, last = offsets_in(extent, folder)
        start, end = min([view.log_start_offset, *view.base_offsets[:1]]), view.log_end_offset
    except (KafkaStorageError, OSError):
        return None
    finally:
        source.close()
    if start >= end:
        return "its log is empty"
    is_beside = first >= end or last < start or last < first
    return f"its log has offsets {start} to {end - 1}" if is_beside else None


def _looked_up(extent: LogRange, folder: str) -> tuple[Offset | None, Offset | None]:
    source = open_source([folder])
    try:
        logs = list(source.partitions().values())
        if len(logs) != 1:
            raise SourceError(f"{folder} is not one partition's folder")
        view = logs[0].view()
        first, end = (None if bound is None else bound.offset_in(view) for bound in extent)
        return first, end
    finally:
        source.close()
