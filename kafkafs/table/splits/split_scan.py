"""Scan of one split: its batches and damage, also after compaction has moved them to other bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from engine.budgets import MiB
from engine.errors import SourceError
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, Disorder, ScanItem
from engine.log.view.cut_view import cut_view
from engine.log.view.log_view import LogView
from engine.replicas.cluster_source import open_cluster
from engine.units import MAX_INT64, Offset, Position
from engine.verdict.log_losses import losses_of, wanted
from engine.verdict.log_runs import runs
from kafkafs.table.errors import CorruptBatchError, LostRecordsError, RecreatedTopicError
from kafkafs.table.splits.log_dir_owners import check_same, check_visible
from kafkafs.table.splits.split import NO_SEGMENT, Split

_CHUNK = 4 * MiB
"""Bytes to read at a time: large enough to outweigh the cost of each run, also with large records."""


class Scanned(NamedTuple):
    """A run of batches, or damage.

    Attributes:
        view: the log.
        segment: the segment.
        split: the wanted offsets.
        item: batches or damage; batches may reach beyond the wanted offsets.
    """

    view: LogView
    segment: LogSegment
    split: Split
    item: ScanItem


def scan_split(
    split: Split, log: PartitionLog | None = None, *, fail_on_data_loss: bool
) -> Iterator[Scanned]:
    """Yield everything in a split, in log order.

    Args:
        split: the split.
        log: the partition's log in an open source; by default the split's source is opened.
        fail_on_data_loss: raise an error for offsets that are gone.

    Raises:
        LostRecordsError, RecreatedTopicError: offsets of the split are gone, and `fail_on_data_loss` is true.
        SourceError: the log dir is gone.
        OtherLogDirError: another log dir is there.
    """
    try:
        if log is not None:
            yield from _scan(log.view(0), split, fail_on_data_loss=fail_on_data_loss)
            return
        source = open_cluster(split.copies or split.source)
        try:
            view = next(iter(source.partitions().values())).view(0)
            if split.then is not None:
                view = cut_view(view, *split.then)
            yield from _scan(view, split, source, fail_on_data_loss=fail_on_data_loss)
        finally:
            source.close()
    except (FileNotFoundError, SourceError) as error:
        check_visible(split.source)
        if fail_on_data_loss:
            raise LostRecordsError(
                split.partition, *split.wanted, f"segment {split.segment} is gone: {error}"
            ) from error


def _scan(
    view: LogView, split: Split, source: LogSource | None = None, *, fail_on_data_loss: bool
) -> Iterator[Scanned]:
    if None not in (split.topic_id, view.topic_id) and split.topic_id != view.topic_id:
        if fail_on_data_loss:
            raise RecreatedTopicError(split.partition, str(split.topic_id), str(view.topic_id))
        return
    segment = planned_segment(view, split)
    if segment is not None:
        items = _items(segment, split)
        if not split.leftover:
            items = losses_of(view).read(
                segment,
                items,
                split.position,
                split.end_position,
                None if split.part_start == split.segment else split.part_start,
                wanted(view, split.start, split.stop),
            )
        for item in items:
            yield Scanned(view, segment, split, item)
        return
    if source is not None and split.owner is not None and not split.copies:
        check_same(split.source, split.owner, source)
    if split.segment == NO_SEGMENT:
        for segment, item in runs(view, split.start, split.stop):
            yield Scanned(view, segment, split, item)
        return
    # The file was replaced or rewritten: positions are void, offsets still hold.
    start, stop = split.wanted
    if fail_on_data_loss and not _still_holds(view, start, stop):
        bounds = f"[{view.log_start_offset}, {view.log_end_offset})"
        raise LostRecordsError(split.partition, start, stop, f"the log holds offsets {bounds}")
    moved = replace(
        split,
        start=start,
        stop=stop,
        is_first=split.is_first and start == split.start,
        is_last=split.is_last and stop == split.stop,
    )
    for segment, item in runs(view, start, stop):
        yield Scanned(view, segment, moved, item)


def _still_holds(view: LogView, start: Offset, stop: Offset) -> bool:
    """Return whether neither retention nor a truncation has removed offsets since they were planned."""
    return bool(view.base_offsets) and view.base_offsets[0] <= start and stop <= view.log_end_offset


def _items(segment: LogSegment, split: Split) -> Iterator[ScanItem]:
    """Yield batches and damage of a split's bytes, then damage if the last batch states offsets of the next split."""
    item: ScanItem | None = None
    for item in _scanned(segment, split):
        yield item
    if isinstance(item, BatchRun) and item.next_offset > split.part_stop:
        row = item.table[-1]
        yield Disorder(
            segment.path,
            int(row["position"]),
            int(row["size"]),
            "the batch states offsets of the batches after it",
            expected=split.part_stop,
            found=item.next_offset,
            first_offset=int(row["base_offset"]),
            last_offset=int(row["last_offset"]),
        )


def _scanned(segment: LogSegment, split: Split) -> Iterator[ScanItem]:
    """Yield batches and damage of a split's bytes. The batches after damage, even beyond, bound its offsets."""
    end, expected = split.end_position, split.next_offset
    for item in segment.scan(split.position, end, next_offset=expected, chunk=_CHUNK):
        if not isinstance(item, BatchRun) and end < segment.tail_end:
            yield from _before(segment, item.position, expected, end)
            return
        if isinstance(item, BatchRun):
            expected = item.next_offset
        yield item


def _before(
    segment: LogSegment, position: Position, expected: Offset, end: Position
) -> Iterator[ScanItem]:
    """Yield items that start between two positions, scanned together with the bytes after them."""
    for item in segment.scan(position, segment.tail_end, next_offset=expected):
        if item.position >= end:
            return
        if isinstance(item, BatchRun) and item.end_position > end:
            item = item.with_table(item.table[item.table["position"] < end])
        yield item


def planned_segment(view: LogView, split: Split) -> LogSegment | None:
    """Return the segment that a split was planned on; None if it is gone or its positions no longer hold.

    The size is compared, too, as file systems reuse inode numbers.
    """
    segment = view.segments.get(split.segment)
    if segment is None or segment.identity != split.identity:
        return None
    has_grown = segment is view.active_segment and segment.tail_end >= split.end_position
    return segment if has_grown or segment.tail_end == split.file_size else None


def is_hole(split: Split, damage: Damage | Disorder, *, on_corrupt: str) -> bool:
    """Return whether this split reports some damage: it may have cost wanted offsets, and no other split reports it.

    For Kafka a torn batch at the log end was never in the log: it counts only with `on_corrupt` "row".
    """
    if damage.is_quiet:
        return False
    if damage.kind is DamageKind.MISSING:
        return True  # the verdict has left out what concerns other splits
    if isinstance(damage, Disorder):
        return _is_own_disorder(split, damage.first_offset)
    is_tail = damage.kind is DamageKind.TORN_TAIL and split.part_stop == MAX_INT64
    if is_tail and on_corrupt != "row":
        return False
    start, stop = split.wanted
    first, last = damage.first_offset, damage.last_offset
    if (
        first is not None and first < split.part_stop
    ):  # otherwise the damaged header states a wrong offset
        if first < split.start and not split.is_first:
            return False
        if first >= stop and not split.at_log_end:
            return False
    return last is None or last >= start


def _is_own_disorder(split: Split, offset: Offset) -> bool:
    """Return whether this split reports offsets that go back; any wanted offset may then be missing."""
    if offset < split.start:
        return split.is_first
    return offset < split.stop or split.is_last


def in_full(split: Split, facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts of damage with the file's absolute path in place of one below the partition's folder."""
    name = os.path.basename(facts["file"])
    return facts | {"file": os.path.join(os.path.dirname(split.path), name)}


def corruption(facts: dict[str, Any]) -> CorruptBatchError:
    """Return the error of a damaged place for `on_corrupt` "fail"."""
    return CorruptBatchError(
        facts["reason"],
        path=facts["file"],
        position=facts["position"],
        expected=facts.get("expected"),
        found=facts.get("found"),
        first_offset=facts.get("firstOffset"),
        last_offset=facts.get("lastOffset"),
    )
