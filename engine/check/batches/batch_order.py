"""Check of offsets and leader epochs from batch to batch; finds missing offsets.

Batches come in runs with ascending offsets (`engine.log.segment.scan` splits them so), so offsets can go back only at
the start of a run. Then the check decides which batch is out of place: base offset and epoch are not covered by the
checksum, so one flipped bit moves a single batch, and its neighbours show where it belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.check.rules.breach import Breach
from engine.units import Offset, Position
from engine.verdict.gap_causes.gaps import OffsetGap

Table: TypeAlias = npt.NDArray[Any]

GAPS_KEPT = 1000
"""Gaps of one segment that are kept individually."""


@dataclass(slots=True)
class Gaps:
    """Gaps of a segment, including the one before its first batch.

    Attributes:
        kept: the first gaps, by offset.
        count, offsets: number of all gaps, and of all missing offsets.
        next_offset: end of the last gap.
    """

    kept: list[OffsetGap]
    count: int = 0
    offsets: int = 0
    next_offset: Offset = -1


class _Row(NamedTuple):
    """A batch; `gap` is the gap before it."""

    place: int
    position: Position
    size: int
    base: Offset
    last: Offset
    crc: int
    gap: OffsetGap | None = None

    @property
    def span(self) -> int:
        """Number of its offsets."""
        return self.last - self.base + 1


FindCopy: TypeAlias = Callable[[Offset, int, int], str | None]
"""Returns the place of another batch with a base offset, size and checksum, in words; None without one."""


class BatchOrder:
    """Follows the batches of a partition.

    Args:
        first_offset: expected offset of the first batch: the first segment's base offset.

    Attributes:
        next_offset: one past the last batch in its place.
        gaps: by the segment's index in the log.
        late: offsets (first, next) of batches with offsets below those before them.
    """

    def __init__(self, first_offset: Offset) -> None:
        self.next_offset = first_offset
        self.gaps: dict[int, Gaps] = {}
        self.late: list[tuple[Offset, Offset]] = []
        self._last: list[_Row] = []
        self._is_after_damage = False
        self._epochs: list[int] = []

    def pass_damage(self) -> None:
        """Note that bytes were skipped: offsets missing there are no gap."""
        self._is_after_damage = True

    def begin(self, base_offset: Offset) -> None:
        """Begin a segment: damage before it took no offset from its base offset on."""
        if self._is_after_damage:
            self.next_offset = max(self.next_offset, base_offset)
            self._is_after_damage = False

    def end(self, place: int, next_base: Offset) -> None:
        """Note that the log ends in an empty segment: offsets missing before its base offset are a gap too."""
        if next_base > self.next_offset and not self._is_after_damage:
            self._add_gap(place, OffsetGap(self.next_offset, next_base, 0))

    def feed(self, place: int, table: Table, find_copy: FindCopy) -> tuple[list[Breach], int]:
        """Add a run of the segment at `place`. Return the breaches, and how many of its first batches are late."""
        base = np.ascontiguousarray(table["base_offset"])
        last = np.ascontiguousarray(table["last_offset"])
        breaches: list[Breach] = []
        late = 0
        if base[0] < self.next_offset:
            late = self._resolve(place, table, base, breaches, find_copy)
        if late < len(base):
            self._accept(place, table[late:], base[late:], last[late:])
            breaches += self._epoch_breaches(table[late:])
        return breaches, late

    def _accept(self, place: int, table: Table, base: Table, last: Table) -> None:
        gap = None
        if base[0] > self.next_offset and not self._is_after_damage:
            gap = OffsetGap(self.next_offset, int(base[0]), int(table["position"][0]))
            self._add_gap(place, gap)
        self._is_after_damage = False
        holes = (base[1:] != last[:-1] + 1).nonzero()[0]
        if len(holes):
            self._add_gaps(place, last[holes] + 1, base[holes + 1], table["position"][holes + 1])
        rows = range(max(len(table) - 2, 0), len(table))
        for row in rows:
            before = gap
            if row and base[row] > last[row - 1] + 1:
                before = OffsetGap(
                    int(last[row - 1]) + 1, int(base[row]), int(table["position"][row])
                )
            elif row:
                before = None
            self._last.append(_row_of(place, table[row], before))
        del self._last[:-2]
        self.next_offset = int(last[-1]) + 1

    def _add_gaps(self, place: int, first: Table, following: Table, position: Table) -> None:
        found = self.gaps.setdefault(place, Gaps([]))
        room = max(GAPS_KEPT - len(found.kept), 0)
        columns = (first[:room].tolist(), following[:room].tolist(), position[:room].tolist())
        found.kept += map(OffsetGap, *columns)
        found.count += len(first)
        found.offsets += int((following - first).sum())
        found.next_offset = int(following[-1])

    def _add_gap(self, place: int, gap: OffsetGap) -> None:
        self._add_gaps(place, *(np.array([field]) for field in gap))

    def _take_back(self, row: _Row) -> None:
        """Remove the gap before a batch that is out of place."""
        found = self.gaps.get(row.place)
        if row.gap is None or found is None:
            return
        if row.gap in found.kept:
            found.kept.remove(row.gap)
        found.count -= 1
        found.offsets -= row.gap.next_offset - row.gap.first_offset

    def _resolve(
        self,
        place: int,
        table: Table,
        base: Table,
        breaches: list[Breach],
        find_copy: FindCopy,
    ) -> int:
        """Find the batch out of place where a run begins below the last batch's end. Return how many are late."""
        first = _row_of(place, table[0])
        before = self._last[-1] if self._last else None
        if before is not None and not _is_copy(before, first):
            start = self._last[-2].last + 1 if len(self._last) > 1 else None
            follows = int(base[1]) if len(base) > 1 else None
            if self._is_too_high(before, first, start, follows):
                breaches.append(_misplaced(before, start))
                self._take_back(before)
                self._last.pop()
                fits = start is not None and start + before.span == first.base
                self.next_offset = first.base if fits or start is None else start
                if base[0] >= self.next_offset:
                    return 0
            elif follows == self.next_offset + first.span:
                breaches.append(_misplaced(first, self.next_offset))
                self.next_offset += first.span
                return 1
        late = int(np.count_nonzero(base < self.next_offset))  # ascending
        breaches.append(self._late(table[:late], find_copy))
        return late

    def _is_too_high(
        self, before: _Row, first: _Row, start: Offset | None, follows: Offset | None
    ) -> bool:
        """Return whether the batch before is out of place, not the one that begins below its end."""
        if start is None:
            return before.base > first.last and (follows is None or follows <= before.last)
        if start + before.span == first.base:
            return True
        if follows is not None and self.next_offset + first.span == follows:
            return False
        return start <= first.base and follows is not None and follows <= before.last

    def _late(self, table: Table, find_copy: FindCopy) -> Breach:
        """Return the breach for batches with offsets of earlier batches."""
        first, last = table[0], table[-1]
        start, end = int(first["base_offset"]), int(last["last_offset"]) + 1
        position = int(first["position"])
        length = int(last["position"]) + int(last["size"]) - position
        self.late.append((start, end))
        copy = find_copy(start, int(first["size"]), int(first["crc"]))
        what = "a batch" if len(table) == 1 else f"{len(table)} batches"
        if copy is not None:
            sentence = (
                f"{what} of offsets {start} to {end - 1} at byte {position}"
                f" {'is' if len(table) == 1 else 'are'} in the log twice, first at {copy}"
            )
            facts = {"copyOf": copy, "batches": len(table)}
            return Breach("offset-duplicate", sentence, position, length, start, end, None, facts)
        sentence = (
            f"{what} of offsets {start} to {end - 1} at byte {position}"
            f" come{'s' * (len(table) == 1)} after offset {self.next_offset - 1}"
        )
        facts = {"expected": self.next_offset, "found": start, "batches": len(table)}
        return Breach("offset-order", sentence, position, length, start, end, None, facts)

    def _epoch_breaches(self, table: Table) -> Iterator[Breach]:
        epochs = table["leader_epoch"]
        known = self._epochs
        first = int(epochs[0])
        if len(known) == 2 and known[0] <= known[1] <= first and (epochs == first).all():
            self._epochs = [first, first]
            return
        rows = (table["magic"] == 2).nonzero()[0]
        values = np.concatenate((np.array(known, np.int64), epochs[rows].astype(np.int64)))
        ahead = len(known)
        self._epochs = values[-2:].tolist()
        for place in (np.diff(values) < 0).nonzero()[0].tolist():
            if place:
                high = values[place - 1] <= values[place + 1]
            else:
                high = len(values) < 3 or values[2] < values[0]
            culprit = place if high and place >= ahead else place + 1
            if culprit < ahead:
                continue
            batch = table[rows[culprit - ahead]]
            near = int(values[place + 1] if culprit == place else values[place])
            yield Breach.of(
                "epoch-order",
                batch,
                f"the batch at byte {batch['position']} has leader epoch {batch['leader_epoch']},"
                f" its neighbour has {near}",
                expected=near,
                found=int(batch["leader_epoch"]),
            )


def _row_of(place: int, batch: np.void, gap: OffsetGap | None = None) -> _Row:
    position, base, last = batch["position"], batch["base_offset"], batch["last_offset"]
    return _Row(
        place, int(position), int(batch["size"]), int(base), int(last), int(batch["crc"]), gap
    )


def _is_copy(one: _Row, other: _Row) -> bool:
    return (one.base, one.last, one.crc) == (other.base, other.last, other.crc)


def _misplaced(row: _Row, expected: Offset | None) -> Breach:
    sentence = f"the batch at byte {row.position} has offsets {row.base} to {row.last}"
    if expected is not None:
        sentence += f"; by its neighbours, its first should be {expected}"
    facts = {"expected": expected, "found": row.base, "segmentPlace": row.place}
    return Breach(
        "offset-order", sentence, row.position, row.size, row.base, row.last + 1, None, facts
    )
