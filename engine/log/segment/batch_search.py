"""Search for the batch that holds an offset among batches that may be damaged or out of place.

A search is fed by a scan that leaves out batches that are out of place: they are damage, which may have taken the
offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from engine import kernel
from engine.columns.batch_table import BATCH_ROW, BatchRow, BatchRows, Table
from engine.errors import UnreadableError
from engine.files.source_files import SourceFile
from engine.log.segment.orders import cheap_order, is_small
from engine.log.segment.resync import Resync
from engine.log.segment.scan import BatchRun, Damage, Disorder, ScanItem
from engine.log.segment.segment_bytes import SegmentBytes
from engine.record.attributes import COMPRESSION_MASK
from engine.units import Offset, Position

LOOK_UP_CHUNK = 64 * 1024
_MOST_STEPS_BACK = 3


class Landing(NamedTuple):
    """The result of a search by offset that checked every checksum on the way.

    Attributes:
        position: position to read from to miss nothing at or above the offset, damage included; the end of
            the segment when all batches are below the offset.
        next_offset: the smallest offset that belongs at the position.
        batch: header of the first good batch that reaches the offset, a table of one row; None without one.
            `LogSegment.run_of` reads its bytes.
        damage: damage right before that batch, or before the end.
    """

    position: Position
    next_offset: Offset
    batch: Table | None = None
    damage: Damage | None = None


class Extent(NamedTuple):
    """A part of a records file, and the smallest offset that belongs at its start."""

    start: Position
    stop: Position
    next_offset: Offset


class BatchSearch:
    """A search for the batch with an offset that is fed the items of a scan.

    Attributes:
        found: the batch, as a run of one row.
        suspect: the damage that may have taken the batch; None when there is no such damage.
    """

    __slots__ = ("_below", "_offset", "_suspects", "found")

    def __init__(self, offset: Offset) -> None:
        self._offset = offset
        self._below: Offset = 0  # one past the last offset that was seen below
        self._suspects: list[Damage] = []
        self.found: BatchRun | None = None

    def is_over(self, item: ScanItem) -> bool:
        """Take in the next item; return whether the search has ended."""
        if isinstance(item, Damage):
            self._suspects = [*self._suspects[-100:], item]
            return False
        return isinstance(item, BatchRun) and self._look(item)

    def _look(self, run: BatchRun) -> bool:
        last = run.table["last_offset"]
        reached = (last >= self._offset).nonzero()[0]
        row = int(reached[0]) if len(reached) else len(last)
        if row:
            self._below = max(self._below, int(last[row - 1]) + 1)
        for row in reached.tolist():
            if self._take(run, row):
                return True
            batch = run.with_table(run.table[row : row + 1])
            if first_offset(batch) > self._offset:
                return True
            # Else a batch of magic 0 or 1 that states a larger offset than that of its last record.
        return False

    def _take(self, run: BatchRun, row: int) -> bool:
        batch = run.with_table(run.table[row : row + 1])
        if not holds(batch, self._offset):
            return False
        self.found = batch
        return True

    @property
    def suspect(self) -> Damage | None:
        """The damage that may have taken the batch."""
        for damage in self._suspects:
            first, last = damage.first_offset or 0, damage.last_offset
            if self._below <= first <= self._offset and (last is None or last >= self._offset):
                return damage
        return None


def good_batch(file: SourceFile, position: Position, size: int, largest: int) -> BatchRun | None:
    """Return the batch at a position, as a run of one row; None when it is not good."""
    try:
        data = file.read_at(position, size)
    except UnreadableError:
        return None
    headers = BatchRows(bytearray(BATCH_ROW.size))
    rows, _, _ = kernel.walk(data, headers.data, 0, position, True, largest=largest)
    return BatchRun(data, position, headers) if rows and headers[0].crc_ok else None


def is_wrapper(row: BatchRow) -> bool:
    """Return whether a batch is a compressed one of magic 0 or 1, with only its last offset in the header."""
    return row.magic < 2 and bool(row.attributes & COMPRESSION_MASK)


def holds(run: BatchRun, offset: Offset) -> bool:
    """Return whether the run's first batch holds an offset."""
    row = run.headers[0]
    if not is_wrapper(row):
        return row.base_offset <= offset <= row.last_offset
    columns = run.decoded(0)
    if not len(columns):
        return row.base_offset <= offset
    return int(columns.offset[0]) <= offset <= int(columns.offset[-1])


def first_offset(run: BatchRun) -> Offset:
    """Return the first offset of the run's first batch; decodes a compressed batch of magic 0 or 1."""
    row = run.headers[0]
    if not is_wrapper(row):
        return row.base_offset
    columns = run.decoded(0)
    return int(columns.offset[0]) if len(columns) else row.base_offset


def proven_hint(segment: SegmentBytes, offset: Offset) -> tuple[Position, Offset]:
    """Return position and base offset of a good batch to start a search at; those of the segment without one.

    The batch does not start above the offset.
    """
    opened = segment.files.ensure_open()
    file, end, budgets, order = opened.file, segment.end, segment.budgets, None
    if not segment.is_in_order(opened):
        order = cheap_order(file, segment.bounds, budgets)
        if order is not None and is_small(file):
            return 0, segment.base_offset
    prover = Resync(file, end, budgets)
    target = offset
    lonely: tuple[Position, Offset] | None = None
    for _ in range(_MOST_STEPS_BACK):
        hint = opened.hints.floor(target)
        if not hint.position:
            break
        if order is not None and order.is_misplaced(hint.position):
            target = hint.offset - 1
            continue
        is_inside = hint.position < segment.end
        frame = prover.frame(hint.position) if is_inside else None
        base = None if frame is None else frame.base_offset
        before = opened.hints.floor(hint.offset - 1)
        lowest = before.offset + 1 if before.position else segment.base_offset
        if frame is not None and base is not None and lowest <= base <= min(hint.offset, offset):
            if prover.goes_on(hint.position, frame):
                return hint.position, base
            # Damage follows, or the batch is part of a value: an earlier hint leads past both.
            lonely = lonely or (hint.position, base)
        elif prover.is_unreadable(hint.position):
            pass  # the index may be right
        elif (
            is_inside or hint.position >= opened.file.size()
        ):  # else it was written after the listing
            segment.files.problems.add(
                "offset_index",
                segment.files.index_path,
                "no matching batch is at the position of the index entry",
                position=hint.position,
            )
        target = hint.offset - 1
    else:
        if lonely is not None:
            return lonely
    return 0, segment.base_offset


def land(
    items: Iterable[Table | Damage | Disorder], offset: Offset, expected: Offset, end: Position
) -> Landing:
    """Return the landing for an offset; see `OffsetLookUps.seek`.

    Args:
        items: headers of a scan in order.
        offset: offset to search.
        expected: the smallest offset that belongs at the start of the scan.
        end: end of the scan.
    """
    damage: Damage | None = None
    for item in items:
        if isinstance(item, Damage):
            damage = item if damage is None else _joined(damage, item)
            continue
        assert not isinstance(item, Disorder)
        last = item["last_offset"]
        reached = (last >= offset).nonzero()[0]
        if len(reached):
            row = int(reached[0])
            if row:
                damage, expected = None, int(last[row - 1]) + 1
            position = int(item["position"][row])
            if damage is not None and (damage.last_offset is None or damage.last_offset >= offset):
                position = damage.position
            return Landing(position, expected, item[row : row + 1], damage)
        damage, expected = None, int(last[-1]) + 1
    if damage is not None:
        return Landing(damage.position, expected, damage=damage)
    return Landing(end, expected)


def _joined(first: Damage, second: Damage) -> Damage:
    """Join two adjacent stretches of damage, to know the offsets that both may have held."""
    length = second.position + second.length - first.position
    return first._replace(length=length, last_offset=second.last_offset)
