"""Positions that divide a segment into parts: the starts of good batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.index.offset_index import OffsetIndex
from engine.log.segment.batch_search import Extent, first_offset
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.resync import Resync
from engine.log.segment.scan import BatchRun
from engine.units import Offset, OffsetPosition, Position

_LOOK_UP_CHUNK = 16 * 1024
_ENTRIES_TO_TRY = 8


class Cut(NamedTuple):
    """The start of a good batch.

    Attributes:
        position: position of the batch.
        base_offset: base offset in the header.
        first_offset: offset of the first record; differs in compressed batches of magic 0 and 1.
    """

    position: Position
    base_offset: Offset
    first_offset: Offset


def cut(segment: LogSegment, extent: Extent, pieces: int) -> list[Cut]:
    """Return cuts that divide an extent into about equal pieces, fewer where there are no batches.

    Cuts come from the offset index and are proven by their batch; where the index does not help, the segment is scanned.

    Args:
        segment: segment to divide.
        extent: part of the segment.
        pieces: number of parts wanted.
    """
    size = extent.stop - extent.start
    targets = [extent.start + size * number // pieces for number in range(1, pieces)]
    index = _index_of(segment)
    found: list[Cut] = []
    for target in targets:
        if found and found[-1].position >= target:
            continue
        place = None if index is None else _proven(segment, index, target, extent.stop)
        if place is None:
            return _scanned(segment, extent, targets)
        found.append(place)
    return found


def pieces_from_the_end(
    segment: LogSegment, extent: Extent, size: int, most: int
) -> Iterator[Extent]:
    """Yield pieces of an extent, the last one first, each about twice as large as the one after it in the file.

    Where the offset index has no proven entry a piece is larger.

    Args:
        segment: segment to divide.
        extent: part of the segment.
        size: bytes of the first piece.
        most: bytes of the largest pieces.
    """
    index = None if extent.stop - extent.start <= size else _index_of(segment)
    stop, step = extent.stop, size
    while index is not None and stop - step > extent.start:
        place = _proven(segment, index, stop - step, stop)
        if place is None:
            step *= 2
            continue
        yield Extent(place.position, stop, place.base_offset)
        size = min(2 * size, most)
        stop, step = place.position, size
    yield Extent(extent.start, stop, extent.next_offset)


def _index_of(segment: LogSegment) -> OffsetIndex | None:
    files = segment.files
    try:
        file = files.root.open(files.index_path)
        index = OffsetIndex(file, segment.base_offset, path=files.index_path)
        return None if index.byte_size % index.entry_size else index
    except OSError:
        return None


def _proven(
    segment: LogSegment, index: OffsetIndex, target: Position, stop: Position
) -> Cut | None:
    """Return the first good batch at or after a position that the index has an entry for."""
    prover = Resync(segment.file, segment.end, segment.budgets)
    for _ in range(_ENTRIES_TO_TRY):
        entry = index.upper_bound_for_fetch(OffsetPosition(segment.base_offset, target), 0)
        if entry is None or entry.position >= min(stop, segment.end):
            return None
        frame = prover.frame(entry.position)
        if frame.base_offset is not None and prover.goes_on(entry.position, frame):
            item = next(segment.scan(entry.position, stop, chunk=_LOOK_UP_CHUNK), None)
            if isinstance(item, BatchRun) and item.position == entry.position:
                return _cut_at(item.with_table(item.table[:1]))
        target = entry.position + 1
    return None


def _cut_at(batch: BatchRun) -> Cut:
    return Cut(batch.position, batch.base_offset, first_offset(batch))


def _scanned(segment: LogSegment, extent: Extent, targets: list[Position]) -> list[Cut]:
    """Return the first good batch at or after each target, without an index."""
    found: list[Cut] = []
    left = iter(targets)
    target = next(left, None)
    for item in segment.scan(extent.start, extent.stop, next_offset=extent.next_offset):
        if not isinstance(item, BatchRun):
            continue
        positions = item.table["position"]
        while target is not None and target <= positions[-1]:
            row = int(positions.searchsorted(target))
            place = _cut_at(item.with_table(item.table[row : row + 1]))
            if not found or place.position > found[-1].position:
                found.append(place)
            target = next(left, None)
        if target is None:
            break
    return found
