"""Check of offsets and leader epochs from batch to batch; finds missing offsets.

Batches come in runs with ascending offsets; `engine.log.segment.ordered_scan` decides which batches are out of place.
Base offset and epoch are not covered by the checksum, so one flipped bit moves a single batch, and its neighbours show
where it belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.check.rules.breach import Breach
from engine.log.segment.scan import Damage
from engine.units import Offset
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


FindCopy: TypeAlias = Callable[[Offset, int, int], str | None]
"""Returns the place of another batch with a base offset, size and checksum, in words; None without one."""


class BatchOrder:
    """Follows the batches of a partition.

    Args:
        first_offset: expected offset of the first batch: the first segment's base offset.

    Attributes:
        next_offset: one past the last batch in its place.
        gaps: by the segment's index in the log.
        late: offsets (first, next) of batches that are out of place.
    """

    def __init__(self, first_offset: Offset) -> None:
        self.next_offset = first_offset
        self.gaps: dict[int, Gaps] = {}
        self.late: list[tuple[Offset, Offset]] = []
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

    def feed(self, place: int, table: Table) -> Iterator[Breach]:
        """Add a run of the segment at `place`; yield the breaches.

        Batches below the end of the segment before, which reaches beyond its next one, are no part of the order.
        """
        late = table["last_offset"] < self.next_offset
        if late.any():
            self._note_late(table[late])
            table = table[~late]
        if not len(table):
            return
        base = np.ascontiguousarray(table["base_offset"])
        last = np.ascontiguousarray(table["last_offset"])
        if base[0] > self.next_offset and not self._is_after_damage:
            self._add_gap(
                place, OffsetGap(self.next_offset, int(base[0]), int(table["position"][0]))
            )
        self._is_after_damage = False
        holes = (base[1:] != last[:-1] + 1).nonzero()[0]
        if len(holes):
            self._add_gaps(place, last[holes] + 1, base[holes + 1], table["position"][holes + 1])
        self.next_offset = int(last[-1]) + 1
        yield from self._epoch_breaches(table)

    def misplaced(self, table: Table, damage: Damage, find_copy: FindCopy) -> Breach:
        """Return the breach for batches in a row that are out of place, and note their offsets.

        Args:
            table: the batches.
            damage: what the scan says of them.
            find_copy: finds the same batch in its place.
        """
        first, last = table[0], table[-1]
        start, end = int(first["base_offset"]), int(last["last_offset"]) + 1
        position = int(first["position"])
        length = int(last["position"]) + int(last["size"]) - position
        self._note_late(table)
        copy = find_copy(start, int(first["size"]), int(first["crc"]))
        low, high = damage.first_offset, damage.last_offset
        is_one = len(table) == 1
        what = "a batch" if is_one else f"{len(table)} batches"
        what += f" of offsets {start} to {end - 1} at byte {position}"
        if copy is not None:
            sentence = f"{what} {'is' if is_one else 'are'} in the log twice, first at {copy}"
            facts = {"copyOf": copy, "batches": len(table)}
            return Breach("offset-duplicate", sentence, position, length, start, end, None, facts)
        sentence = f"{what} {'is' if is_one else 'are'} out of place"
        if is_one and low is not None and high is not None and high - low == end - 1 - start:
            sentence = f"the batch at byte {position} has offsets {start} to {end - 1}"
            sentence += f"; by its neighbours, its first should be {low}"
        elif damage.expected is not None:
            sentence += f" after offset {damage.expected - 1}"
        facts = {"expected": low, "found": start, "batches": len(table)}
        return Breach("offset-order", sentence, position, length, start, end, None, facts)

    def _note_late(self, table: Table) -> None:
        for each in table[: max(GAPS_KEPT - len(self.late), 0)]:
            self.late.append((int(each["base_offset"]), int(each["last_offset"]) + 1))

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
