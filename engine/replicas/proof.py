"""Prove that a segment has every batch of its offsets, and find those that it lacks in other copies.

A hole is offsets without a good batch: behind damage, where a segment was cut, or where one is lost. It is filled
batch by batch with those of other copies that agree with the leading one there, each whole and within the hole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.arrays import np
from engine.log.segment.chains import with_wrappers_opened
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_view import LogView
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import Offset, Position


class LackedRange(NamedTuple):
    """Offsets [first, next) that a segment has no good batch of.

    Attributes:
        first, next: the offsets.
        start, stop: bytes of the segment's file between the batches around it.
        is_damaged: whether there is damage among them; without it compaction may have taken the records.
    """

    first: Offset
    next: Offset
    start: Position
    stop: Position
    is_damaged: bool


class Filler(NamedTuple):
    """Batches of another copy that are in a hole.

    Attributes:
        segment: their segment there.
        copy: index of the copy.
        start, stop: their bytes in its file.
        first, next: their offsets.
    """

    segment: LogSegment
    copy: int
    start: Position
    stop: Position
    first: Offset
    next: Offset


class Held(NamedTuple):
    """What a segment has of the offsets that a log has it for.

    Attributes:
        holes: the offsets without a good batch, ascending.
        end: end of the bytes that count: batches of later offsets are those of the next segment.
    """

    holes: tuple[LackedRange, ...]
    end: Position


def held_in(segment: LogSegment, first: Offset, stop: Offset, agreed: Offset) -> Held:
    """Return what a segment has of the offsets [first, stop), below `agreed`. Reads all of it, and checks each batch.

    Raises OSError.
    """
    limit = min(stop, agreed)
    holes: list[LackedRange] = []
    expected, good_end, is_damaged, end = first, 0, False, segment.tail_end
    for item in segment.scan():
        if isinstance(item, Damage):
            is_damaged = True
        if not isinstance(item, BatchRun):
            continue
        for base, last, position, size in _rows(item, limit):
            if last >= limit:
                end = position
                break
            if base > expected:
                holes.append(LackedRange(expected, base, good_end, position, is_damaged))
            is_damaged = False
            expected, good_end = max(expected, last + 1), position + size
        else:
            del item  # free it before the next one is read: a batch may be as large as the budget
            continue
        break
    if expected < stop:
        holes.append(LackedRange(expected, stop, good_end, end, is_damaged or end > good_end))
    return Held(tuple(holes), end)


def _rows(run: BatchRun, limit: Offset) -> Iterator[tuple[Offset, Offset, Position, int]]:
    """Yield base offset, last offset, position and size of the batches; those without a gap, up to a limit, as one."""
    table = with_wrappers_opened(run).table
    base, last = table["base_offset"], table["last_offset"]
    splits = base[1:] != last[:-1] + 1
    splits |= (last[1:] >= limit) & (last[:-1] < limit)
    starts = np.concatenate(([0], np.flatnonzero(splits) + 1))
    stops = np.concatenate((starts[1:], [len(table)])) - 1
    position, size = table["position"], table["size"]
    for at, to in zip(starts.tolist(), stops.tolist(), strict=True):
        begin = int(position[at])
        yield int(base[at]), int(last[to]), begin, int(position[to]) + int(size[to]) - begin


def found_in(
    hole: tuple[Offset, Offset],
    copies: Sequence[tuple[int, LogView, Offset]],
    epochs: LeaderEpochCache,
) -> list[Filler]:
    """Return the batches of other copies that lie in a hole, in the order of their offsets; no offset twice.

    Args:
        hole: its offsets [first, next).
        copies: index and view of each copy, the best one first, and the offset up to which it agrees.
        epochs: leader epochs of the leading copy: a batch of another epoch is of a lineage that lost.
    """
    left, found = [hole], list[Filler]()
    for copy, view, agreed in copies:
        rest: list[tuple[Offset, Offset]] = []
        for first, stop in left:
            mine = list(_batches(copy, view, first, min(stop, agreed), epochs))
            for each in mine:
                if first < each.first:
                    rest.append((first, each.first))
                first = each.next
            if first < stop:
                rest.append((first, stop))
            found += mine
        left = rest
        if not left:
            break
    return sorted(found, key=lambda each: each.first)


def _batches(
    copy: int, view: LogView, first: Offset, stop: Offset, epochs: LeaderEpochCache
) -> Iterator[Filler]:
    start, end = max(first, view.base_offsets[0] if view.base_offsets else first), stop
    if start >= min(end, view.log_end_offset):
        return
    last: Filler | None = None
    for segment, item in view.runs(start, min(end, view.log_end_offset)):
        if not isinstance(item, BatchRun):
            continue
        table = with_wrappers_opened(item).table
        for row in table:
            base, following = int(row["base_offset"]), int(row["last_offset"]) + 1
            if base < first or following > stop or not _fits(epochs, base, row):
                continue
            position, size = int(row["position"]), int(row["size"])
            if last is not None and (last.segment, last.stop, last.next) == (
                segment,
                position,
                base,
            ):
                last = last._replace(stop=position + size, next=following)
                continue
            if last is not None:
                yield last
            last = Filler(segment, copy, position, position + size, base, following)
            first = base
        if last is not None:
            first = last.next
        del item  # free it before the next one is read: a batch may be as large as the budget
    if last is not None:
        yield last


def _fits(epochs: LeaderEpochCache, base: Offset, row: np.void) -> bool:
    stated = int(row["leader_epoch"]) if row["magic"] >= 2 else -1
    known = epochs.epoch_for(base)
    return stated < 0 or known is None or known == stated
