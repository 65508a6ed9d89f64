"""Read the batches of a copy of a log in order, and the records of some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from engine import kernel
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, ScanItem
from engine.log.view.log_view import LogView
from engine.record.attributes import COMPRESSION_MASK, CONTROL_MASK, TRANSACTIONAL_MASK
from engine.units import Offset, Position

Table: TypeAlias = npt.NDArray[Any]
Content: TypeAlias = tuple[object, ...]

_SAME = ("base_offset", "last_offset", "crc", "size", "magic")


class ReplicaBatch(NamedTuple):
    """A batch of one copy. `first_offset` is known for compressed batches of magic 0 and 1 too."""

    segment: LogSegment
    run: BatchRun
    row: int
    first_offset: Offset

    @property
    def last_offset(self) -> Offset:
        """Last offset of the batch."""
        return int(self.run.table["last_offset"][self.row])

    @property
    def position(self) -> Position:
        """Position of the batch in its segment."""
        return int(self.run.table["position"][self.row])

    def facts(self) -> dict[str, object]:
        """Return the facts of its header, for a finding."""
        row = self.run.table[self.row]
        return {
            "segment": self.segment.name,
            "position": int(row["position"]),
            "baseOffset": int(row["base_offset"]),
            "lastOffset": int(row["last_offset"]),
            "size": int(row["size"]),
            "crc": int(row["crc"]),
            "leaderEpoch": int(row["leader_epoch"]),
            "records": self.record_count,
        }

    @property
    def record_count(self) -> int:
        """Number of records in the batch."""
        return _records_in(self.run, self.run.table[self.row : self.row + 1])

    def records(self) -> tuple[dict[Offset, Content], str]:
        """Return the content of each record by offset, and why some cannot be read ("" if all can)."""
        run, row = self.run, self.run.table[self.row]
        columns = run.decoded(self.row, self.segment.budgets)
        flags = int(row["attributes"]) & (CONTROL_MASK | TRANSACTIONAL_MASK)
        written = int(row["producer_id"]), int(row["producer_epoch"]), flags
        found: dict[Offset, Content] = {}
        for at in range(len(columns)):
            content = columns.timestamp[at].item(), columns.key(at), columns.value(at)
            found[columns.offset[at].item()] = (*content, columns.headers(at), *written)
        return found, columns.problems[0].detail if columns.problems else ""


class ReplicaCursor:
    """Batches of one copy in order of their offsets; batches with earlier offsets are skipped.

    Attributes:
        view: the copy.
        damages: damage found so far.
        next_offset: one past the last batch taken.
    """

    def __init__(self, view: LogView, start: Offset, stop: Offset) -> None:
        self.view = view
        self.damages: list[Damage] = []
        self.next_offset = start
        self._items: Iterator[tuple[LogSegment, ScanItem]] = view.runs(start, stop)
        self._segment: LogSegment | None = None
        self._run: BatchRun | None = None
        self._row = 0

    def ready(self) -> bool:
        """Return whether there is another batch; reads on if necessary."""
        while self._run is None or self._row >= len(self._run.table):
            item = next(self._items, None)
            if item is None:
                return False
            self._segment, found = item
            if not isinstance(found, BatchRun):
                if isinstance(found, Damage):
                    self.damages.append(found)
                continue
            self._run, self._row = found, 0
            while self._row < len(found.table) and self._last() < self.next_offset:
                self._row += 1
        return True

    def rest(self) -> Table:
        """Return the headers of the batches read so far; call `ready` before."""
        assert self._run is not None
        return self._run.table[self._row :]

    def records_in_next(self, count: int) -> int:
        """Return the number of records in the next `count` batches of those read so far."""
        assert self._run is not None
        return _records_in(self._run, self.rest()[:count])

    @property
    def first_offset(self) -> Offset:
        """First offset of the next batch."""
        row = self.rest()[0]
        if row["magic"] < 2 and row["attributes"] & COMPRESSION_MASK:
            return min(self.next_offset, int(row["last_offset"]))
        return int(row["base_offset"])

    @property
    def last_offset(self) -> Offset:
        """Last offset of the next batch."""
        return self._last()

    def take(self) -> ReplicaBatch:
        """Return the next batch and go past it."""
        assert self._run is not None
        assert self._segment is not None
        taken = ReplicaBatch(self._segment, self._run, self._row, self.first_offset)
        self.skip(1)
        return taken

    def skip(self, count: int) -> None:
        """Go past `count` batches of those read so far."""
        assert self._run is not None
        self._row += count
        last = int(self._run.table["last_offset"][self._row - 1])
        self.next_offset = max(self.next_offset, last + 1)

    def _last(self) -> Offset:
        assert self._run is not None
        return int(self._run.table["last_offset"][self._row])


def _records_in(run: BatchRun, table: Table) -> int:
    """Return the number of records in a run's batches. Decompresses those of magic 0 and 1 to count."""
    stated = table["record_count"]
    count = int(stated[stated >= 0].sum())
    if (stated < 0).any():
        summaries, _ = kernel.summarize(
            run.buffer, table[stated < 0], start_position=run.start_position
        )
        count += int(summaries["count"].sum())
    return count


def same_batches(one: Table, other: Table) -> int:
    """Return how many batches from the start are equal, apart from their leader epochs."""
    count = min(len(one), len(other))
    same = one[_SAME[0]][:count] == other[_SAME[0]][:count]
    for name in _SAME[1:]:
        same &= one[name][:count] == other[name][:count]
    return count if same.all() else int(same.argmin())
