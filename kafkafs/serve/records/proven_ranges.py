"""The parts of records files whose batches are good, and follow each other; each part is read and checked once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from threading import Lock
from typing import TypeAlias

from engine.files.source_files import SourceFile
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.record.attributes import TRANSACTIONAL_MASK
from engine.record.batch_frame import CURRENT_MAGIC
from engine.units import Offset, Position
from engine.verdict.log_losses import LogLosses

_Stamp: TypeAlias = tuple[int, int, int]
_Key: TypeAlias = tuple[tuple[int, int], int]

_MOST_FILES = 65_536


class _Parts:
    """Parts of a file that do not overlap, ascending."""

    __slots__ = ("_cuts", "ends", "starts")

    def __init__(self) -> None:
        self.starts: list[Position] = []
        self.ends: list[Position] = []
        self._cuts: set[Position] = set()

    def end_from(self, position: Position) -> Position:
        """Return the end of the part that has a position; the position itself without one."""
        place = bisect_right(self.starts, position) - 1
        return max(position, self.ends[place]) if place >= 0 else position

    def around(self, position: Position) -> tuple[Position, Position]:
        """Return start and end of the part that has a position; the position twice without one."""
        place = bisect_right(self.starts, position) - 1
        if place < 0 or self.ends[place] <= position:
            return position, position
        return self.starts[place], self.ends[place]

    def start_from(self, position: Position, stop: Position) -> Position:
        """Return the first position from one on that is in a part; `stop` without one below it."""
        if self.end_from(position) > position:
            return position
        place = bisect_right(self.starts, position)
        return min(stop, self.starts[place]) if place < len(self.starts) else stop

    def cut(self, position: Position) -> None:
        """Let no part have the bytes before and behind a position."""
        self._cuts.add(position)

    def is_cut(self, position: Position) -> bool:
        """Return whether no part has the bytes before and behind a position."""
        return position in self._cuts

    def add(self, start: Position, end: Position) -> None:
        """Add a part, which has no cut inside, and continues a known one that ends at its start.

        Known parts that it reaches into become one with it; one that begins at its end does not, as nobody has looked at
        the offsets between the two.
        """
        first = bisect_right(self.starts, start) - 1
        if first >= 0 and self.ends[first] >= start and not self.is_cut(start):
            start = self.starts[first]
        elif first < 0 or self.starts[first] < start:
            first += 1
        last = bisect_left(self.starts, end)
        if last > first:
            end = max(end, self.ends[last - 1])
        self.starts[first:last] = [start]
        self.ends[first:last] = [end]


class FileProof:
    """What is proven of a file; safe from several threads.

    Attributes:
        stamp: size and times of the file when it was last looked at.
        has_transactions: whether a proven batch is part of a transaction.
    """

    __slots__ = ("_good", "_lock", "_old", "_reached", "has_transactions", "stamp")

    def __init__(self, stamp: _Stamp = (0, 0, 0)) -> None:
        self.stamp = stamp
        self._lock = Lock()
        self._good = _Parts()
        self._old = _Parts()
        self._reached: dict[
            Position, Offset
        ] = {}  # one past the last offset, by the end of what was read
        self.has_transactions = False

    def good_end(
        self, segment: LogSegment, position: Position, stop: Position, losses: LogLosses
    ) -> Position:
        """Return the end of the good batches from the start of a batch on, or `stop` if they reach it.

        It is also where offsets between two batches are lost. The bytes that are not known to be good are read, and their
        checksums are checked.

        Args:
            segment: the file, as it is now.
            position: the start of a batch.
            stop: where to stop.
            losses: those of the log.

        Raises:
            OSError: the file cannot be read, or is gone.
        """
        with self._lock:
            end = self._good.end_from(position)
            if end < stop and (end == position or not self._good.is_cut(end)):
                end = self._prove(segment, position, end, stop, losses)
        return min(end, stop)

    def good_part(self, position: Position) -> tuple[Position, Position]:
        """Return start and end of the batches around a position that are known to be good."""
        with self._lock:
            return self._good.around(position)

    def _prove(
        self,
        segment: LogSegment,
        position: Position,
        end: Position,
        stop: Position,
        losses: LogLosses,
    ) -> Position:
        reached = self._reached.get(end)
        for item in losses.between(segment, segment.scan(end), reached):
            if not isinstance(item, BatchRun):
                if item.kind is not DamageKind.MISSING:
                    break
                self._good.cut(end)
                if end > position:
                    break
                continue
            if not len(item.table):
                continue
            if item.position != end:
                break
            self._add(item)
            self._reached.pop(end, None)
            end = item.end_position
            self._reached[end] = item.next_offset
            if end >= stop:
                break
            del item  # free it before the next read: a batch may be as large as the budget
        return end

    def _add(self, run: BatchRun) -> None:
        table = run.table
        self.has_transactions |= bool(((table["attributes"] & TRANSACTIONAL_MASK) != 0).any())
        for row in (table["magic"] < CURRENT_MAGIC).nonzero()[0].tolist():
            position = int(table["position"][row])
            self._old.add(position, position + int(table["size"][row]))
        self._good.add(run.position, run.end_position)

    def old_part(self, position: Position, stop: Position) -> tuple[Position, Position]:
        """Return start and end of the first batches of magic 0 or 1 in a proven part; `stop` twice without any."""
        with self._lock:
            start = self._old.start_from(position, stop)
            return start, min(self._old.end_from(start), stop)


class ProvenRanges:
    """The proven parts of the files of a source; safe from several threads."""

    def __init__(self) -> None:
        self._files: OrderedDict[_Key, FileProof] = OrderedDict()
        self._lock = Lock()

    def of(self, file: SourceFile, rewrites: int) -> FileProof:
        """Return what is proven of a records file; nothing if bytes of it were written without an append.

        Args:
            file: the open file.
            rewrites: that of the log's view. A truncated file keeps its inode, and later batches take the place of those
                that were cut off.
        """
        key = (file.device, file.inode), rewrites
        status = file.stat()
        stamp = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        with self._lock:
            found = self._files.get(key)
            if found is not None and found.stamp != stamp:
                if found.stamp[0] == stamp[0]:
                    found = None
                else:
                    found.stamp = stamp
            if found is None:
                found = self._files[key] = FileProof(stamp)
                if len(self._files) > _MOST_FILES:
                    self._files.popitem(last=False)
            return found
