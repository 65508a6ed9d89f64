"""Decide which good batches of a records file are out of place, once for all readers of the file.

A batch is out of place if its offsets are those of another segment, or if it contradicts the chain of batches with
the most records (`chains`). A decision reads the headers of the whole file. It is kept until the file changes, and
extended where the file has only grown by batches that are in order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from engine import kernel
from engine.arrays import np, npt
from engine.budgets import Budgets, MiB
from engine.columns.batch_table import BATCH_ROW, as_table
from engine.files.source_files import SourceFile
from engine.log.segment.resync import OffsetBounds, ScannedFile
from engine.log.segment.scan import BatchRun, scan
from engine.record.batch_frame import CURRENT_MAGIC, HEADER
from engine.units import Offset, Position

if TYPE_CHECKING:
    from engine.log.segment.chains import Ranges

WHOLE_FILE = 1 * MiB
"""Files up to this size are decided before their first batch is read: that takes one read."""
SOON_DECIDED = 64 * 1024
"""Files up to this size are decided before the first look-up in them, too."""
_MOST_BATCHES = 1 << 20
"""Batches that are compared with each other; in a file with more of them, the first ones are decided without the last."""
_SOME_BATCHES = 1 << 14
_MOST_KNOWN = 4096
_KEPT_BACK = 8
_MAGIC = BATCH_ROW.position_of("magic")


class Order:
    """The decision which good batches of a file are out of place.

    Attributes:
        covered: end of the last good batch that was compared.
        next_offset: one past the last offset of a batch in its place.
    """

    __slots__ = ("_ends", "_starts", "covered", "next_offset")

    def __init__(self, next_offset: Offset) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self.covered: Position = 0
        self.next_offset = next_offset

    @property
    def is_sound(self) -> bool:
        """Whether all batches are in their place."""
        return not self._starts

    def is_misplaced(self, position: Position) -> bool:
        """Return whether the batch at a position is out of place."""
        place = bisect_right(self._starts, position) - 1
        return place >= 0 and position < self._ends[place]

    def are_misplaced(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the batches at some positions are out of place."""
        if not self._starts:
            return np.zeros(len(positions), np.bool_)
        starts, ends = np.frombuffer(self._starts, "i8"), np.frombuffer(self._ends, "i8")
        places = np.searchsorted(starts, positions, "right") - 1
        found: npt.NDArray[np.bool_] = (places >= 0) & (positions < ends[places])
        return found

    def touches(self, start: Position, end: Position) -> bool:
        """Return whether a batch in [start, end) is out of place."""
        place = bisect_right(self._starts, start) - 1
        if place >= 0 and start < self._ends[place]:
            return True
        return place + 1 < len(self._starts) and self._starts[place + 1] < end

    def leave_out(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
        """Note batches that are out of place, behind those noted before."""
        if not len(starts):
            return
        joins = starts[1:] == ends[:-1]
        starts = starts[np.concatenate(([True], ~joins))]
        ends = ends[np.concatenate((~joins, [True]))]
        self._starts.frombytes(starts.astype("i8").tobytes())
        self._ends.frombytes(ends.astype("i8").tobytes())

    def extended(self, behind: Order) -> Order | None:
        """Return the decision for a longer file; None if some batch behind this one's end is out of place."""
        if behind._starts:
            return None
        behind._starts, behind._ends = self._starts, self._ends
        return behind


class Deciding:
    """A decision that is fed the good batches of a file, in file order.

    Attributes:
        bounds: offsets of the segment.
        order: the decision, after `finish`.
        last_position: position of the last batch; -1 without one.
    """

    def __init__(
        self, bounds: OffsetBounds, expected: Offset | None = None, covered: Position = 0
    ) -> None:
        self.bounds = bounds
        self.order = Order(bounds.lower if expected is None else expected)
        self.order.covered = covered
        self.last_position: Position = -1
        self._next_offset = self.order.next_offset
        self._is_sound = True
        self._rows = bytearray()
        self._parts: list[Ranges] = []
        self._count = 0

    def add(self, run: BatchRun) -> None:
        """Take in the next batches, in any order."""
        headers = run.headers
        if min(bytes(memoryview(headers.data).cast("B")[_MAGIC :: BATCH_ROW.size])) < CURRENT_MAGIC:
            from engine.log.segment.chains import with_wrappers_opened

            headers = with_wrappers_opened(run).headers
        first, last, count = headers[0], headers[-1], len(headers)
        if self._is_sound:
            is_inside = self._next_offset <= first.base_offset
            is_inside &= not self.bounds.is_above(last.last_offset)
            self._is_sound = is_inside and kernel.good_rows(headers.data, 0, count) == count
            self._next_offset = last.last_offset + 1
        self.last_position = last.position
        self.order.covered = last.position + last.size
        self._rows += headers.data
        self._count += count
        if len(self._rows) >= _SOME_BATCHES * BATCH_ROW.size:
            self._pack()
            if self._count >= _MOST_BATCHES:
                self._decide(self._count - _MOST_BATCHES // _KEPT_BACK)

    def finish(self) -> Order:
        """Decide; return the decision."""
        if self._is_sound:
            self.order.next_offset = self._next_offset
        else:
            self._pack()
            self._decide(self._count)
        self._rows, self._parts = bytearray(), []
        return self.order

    def _pack(self) -> None:
        from engine.log.segment.chains import Ranges

        if self._rows:
            self._parts.append(Ranges.of(as_table(bytes(self._rows))))
            self._rows.clear()

    def _decide(self, count: int) -> None:
        """Decide about the first batches that are not decided."""
        from engine.log.segment.chains import Ranges, in_chain

        batches = Ranges(*map(np.concatenate, zip(*self._parts, strict=True)))
        inside = np.flatnonzero(
            (batches.base >= self.bounds.lower) & (batches.last < self.bounds.upper)
        )
        chosen = np.zeros(len(batches.base), np.bool_)
        chosen[inside] = in_chain(batches.part(inside), self.order.next_offset)
        left = np.flatnonzero(~chosen[:count])
        self.order.leave_out(batches.starts[left], batches.ends[left])
        kept = np.flatnonzero(chosen[:count])
        if len(kept):
            self.order.next_offset = int(batches.last[kept[-1]]) + 1
        self._parts = [batches.part(slice(count, None))]
        self._count -= count


# Decisions that are kept


class _Known(NamedTuple):
    """A decision, the file's size and ctime then, and position and header of the last good batch."""

    order: Order
    size: int
    changed: int
    position: Position
    head: bytes


_Key = tuple[int, int, Offset, Offset]
_known: OrderedDict[_Key, _Known] = OrderedDict()
disordered = 0
"""How often a file was found in which batches are out of place."""
_lock = Lock()


def _key(file: SourceFile, bounds: OffsetBounds) -> _Key:
    return file.device, file.inode, bounds.lower, bounds.next_base


def order_of(file: ScannedFile, end: Position, bounds: OffsetBounds, budgets: Budgets) -> Order:
    """Return which batches of a file are out of place; reads what is not decided yet.

    Args:
        file: the records file.
        end: its end, if it is no SourceFile.
        bounds: offsets of its segment.
        budgets: `batch_bytes` is the largest batch.

    Raises OSError.
    """
    if not isinstance(file, SourceFile):
        return _decided(file, 0, end, budgets, Deciding(bounds)).finish()
    status = file.stat()
    known = _known.get(_key(file, bounds))
    if known is not None:
        if (known.size, known.changed) == (status.st_size, status.st_ctime_ns):
            return known.order
        if known.size < status.st_size and _still_begins_as(file, known):
            before = known.order
            deciding = Deciding(bounds, before.next_offset, before.covered)
            _decided(file, before.covered, status.st_size, budgets, deciding)
            order = before.extended(deciding.finish())
            if order is not None:
                last = deciding.last_position if deciding.last_position >= 0 else known.position
                return _keep(file, bounds, status.st_size, status.st_ctime_ns, order, last)
    deciding = _decided(file, 0, status.st_size, budgets, Deciding(bounds))
    return remember(file, bounds, status.st_size, status.st_ctime_ns, deciding)


def known_order(file: ScannedFile, bounds: OffsetBounds, budgets: Budgets) -> Order | None:
    """Return which batches of a file are out of place, if it was decided; reads only what the file has grown by.

    Also None for a large file while batches are out of place in no file.
    """
    if not isinstance(file, SourceFile) or not (disordered or is_small(file)):
        return None
    return order_of(file, 0, bounds, budgets) if _key(file, bounds) in _known else None


def cheap_order(file: SourceFile, bounds: OffsetBounds, budgets: Budgets) -> Order | None:
    """Return which batches of a file are out of place; None for a file that is not decided and takes long. As `order_of`."""
    if is_tiny(file):
        return order_of(file, 0, bounds, budgets)
    return known_order(file, bounds, budgets)


def is_small(file: ScannedFile) -> bool:
    """Return whether a file is decided before its first batch is read, if it is read from its start."""
    return isinstance(file, SourceFile) and file.opened_as.st_size <= WHOLE_FILE


def is_tiny(file: ScannedFile) -> bool:
    """Return whether a file is decided before any read of it."""
    return is_small(file) and file.opened_as.st_size <= SOON_DECIDED  # type: ignore[attr-defined]


def is_misplaced(
    file: SourceFile, position: Position, bounds: OffsetBounds, budgets: Budgets
) -> bool:
    """Return whether the batch at a position is known to be out of place."""
    order = known_order(file, bounds, budgets)
    return order is not None and order.is_misplaced(position)


def remember(
    file: SourceFile, bounds: OffsetBounds, size: int, changed: int, deciding: Deciding
) -> Order:
    """Finish and keep a decision; return it.

    Args:
        file: the records file.
        bounds: offsets of its segment.
        size, changed: its size and ctime before it was read.
        deciding: has been fed all batches.
    """
    return _keep(file, bounds, size, changed, deciding.finish(), deciding.last_position)


def _keep(
    file: SourceFile,
    bounds: OffsetBounds,
    size: int,
    changed: int,
    order: Order,
    position: Position,
) -> Order:
    global disordered
    head = b""
    if position >= 0:
        try:
            head = file.read_at(position, HEADER.size)
        except (OSError, ValueError):
            return order
    with _lock:
        key = _key(file, bounds)
        _known[key] = _Known(order, size, changed, position, head)
        _known.move_to_end(key)
        disordered += not order.is_sound
        if len(_known) > _MOST_KNOWN:
            _known.popitem(last=False)
    return order


def _still_begins_as(file: SourceFile, known: _Known) -> bool:
    """Return whether the last batch that was compared is still there."""
    if known.position < 0:
        return True
    try:
        return file.read_at(known.position, HEADER.size) == known.head
    except (OSError, ValueError):
        return False


def _decided(
    file: ScannedFile, start: Position, end: Position, budgets: Budgets, deciding: Deciding
) -> Deciding:
    """Feed the batches of [start, end) to a decision; return it."""
    for item in scan(file, start, end, bounds=deciding.bounds, budgets=budgets, any_order=True):
        if isinstance(item, BatchRun):
            deciding.add(item)
        del item  # free it before the next read: a batch may be as large as the budget
    return deciding
