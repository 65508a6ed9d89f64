"""Existing records near offsets that may be missing: the first, the last, one in each segment; links to them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

from engine.errors import KafkaStorageError
from engine.log.view.log_view import LogView
from engine.units import Offset
from kafkafs.decode.record_batches import FoundBatch
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import FIRST_COOKIE, README, fixed_entries
from kafkafs.tree.lookups import end_offset
from kafkafs.tree.node import Directory, Entry, Kind, Node
from kafkafs.tree.partition.partition import Partition
from kafkafs.tree.plain_files import PlainLink

_MOST_EMPTY_TAILS = 64


def first_offset(partition: Partition, view: LogView) -> Offset | None:
    """Return the offset of the log's first record; the log start if the log's beginning is damaged."""
    if view.log_start_offset >= view.log_end_offset:
        return None
    try:
        return partition.records.first_at(view, view.log_start_offset)
    except KafkaStorageError:
        return view.log_start_offset


def has_records(partition: Partition, view: LogView) -> bool:
    """Return whether the log has a first record; true also if its segment was just deleted."""
    try:
        return first_offset(partition, view) is not None
    except FileNotFoundError:
        return True


def last_offset(partition: Partition, view: LogView) -> Offset | None:
    """Return the offset of the log's last record; log end - 1 if its batch is damaged."""
    end = view.log_end_offset
    if view.log_start_offset >= end:
        return None
    try:
        return _last_below(partition, view, end)
    except KafkaStorageError:
        return end - 1


def _last_below(partition: Partition, view: LogView, end: Offset) -> Offset | None:
    """Return the offset of the last record below `end`. Skips batches that compaction left without records."""
    for _ in range(_MOST_EMPTY_TAILS):
        batch = _last_batch_below(partition, view, end)
        if batch is None:
            return None
        offset = partition.records.last_in(batch, end)
        if offset is not None:
            return offset if offset >= view.log_start_offset else None
        end = batch.base_offset
    return None


def _last_batch_below(partition: Partition, view: LogView, end: Offset) -> FoundBatch | None:
    """Return the last batch that starts below `end`. Binary search: the predicate is monotonic."""
    locate = partition.records.locate
    batch = locate(view, end - 1) if end > view.log_start_offset else None
    if batch is None or batch.base_offset < end:
        return batch
    low, high = view.log_start_offset, end - 1
    found = None
    while low < high:
        middle = (low + high) // 2
        batch = locate(view, middle)
        if batch is not None and batch.base_offset < end:
            found, low = batch, middle + 1
        else:
            high = middle
    return found


LINKS = {"earliest": first_offset, "latest": last_offset}
"""The links to the first and the last record in `offset/` and `time/`."""
AFTER_LANDMARKS = FIRST_COOKIE + 1 + len(LINKS)


def target_entries(
    folder: Directory, partition: Partition, view: LogView, after: int
) -> Iterator[Entry]:
    """Yield the entries after a cookie of README.txt and of the links; no links for a log without records."""
    if after < AFTER_LANDMARKS - 1:
        links = LINKS if has_records(partition, view) else ()
        names = [(README, Kind.FILE), *((name, Kind.LINK) for name in links)]
        yield from fixed_entries(folder, names, after)


def offset_link(
    path: str, partition: Partition, view: LogView, offset: Offset | None, folder: str
) -> Node:
    """Return a link to a record's file in `offset/`, relative to `folder`. Raises NotFound if `offset` is None."""
    if offset is None:
        raise NotFound(path, "no such record")
    return target_link(path, partition, view, f"{folder}{offset}")


def target_link(path: str, partition: Partition, view: LogView, target: str) -> PlainLink:
    """Return a link in a folder of the partition to another name of the tree."""
    owner = partition.owner(view)
    return PlainLink(path, target, owner, mtime_ns=owner.mtime_ns, ttl=partition.ttl(view))


def target_name(offset: Offset) -> str:
    """Return an offset with 20 digits, as in the names of segments. No plain offset has so many."""
    return f"{offset:020}"


def segment_targets(partition: Partition, view: LogView, after: Offset = -1) -> Iterator[Offset]:
    """Yield the first record offset of each segment, above `after`: the base offset, unless compaction removed it."""
    bases = view.base_offsets
    place = max(bisect_right(bases, max(after + 1, view.log_start_offset)) - 1, 0)
    for base in islice(bases, place, None):
        limit = end_offset(view, base)
        start = max(base, view.log_start_offset)
        if start >= limit:
            continue
        try:
            offset = partition.records.first_at(view, start, limit)
        except FileNotFoundError:
            continue
        except KafkaStorageError:
            offset = start
        if offset is not None and offset > after:
            yield offset
