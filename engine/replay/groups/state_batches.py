"""Records in flight of a share partition: ranges of offsets with a delivery state and a delivery count.

A later record does not simply win: for each offset the largest delivery count counts, and among equals the delivery state
with the higher number, as in Kafka's share coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from engine.units import Offset

DELIVERY_STATES = {
    0: "AVAILABLE", 1: "ACQUIRED", 2: "ACKNOWLEDGED", 3: "ARCHIVING", 4: "ARCHIVED",
}  # fmt: skip
"""Kafka's names of delivery states by number."""


class StateBatch(NamedTuple):
    """Range of offsets (both inclusive) with the same delivery state and count."""

    first_offset: Offset
    last_offset: Offset
    delivery_state: int
    delivery_count: int

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        state = self.delivery_state
        return {
            "firstOffset": self.first_offset,
            "lastOffset": self.last_offset,
            "deliveryState": DELIVERY_STATES.get(state, str(state)),
            "deliveryCount": self.delivery_count,
        }


class BatchesOfRecord(NamedTuple):
    """Batches of one record.

    Attributes:
        start: the share partition's start offset from then on, or None.
        batches: with ascending offsets in each.
    """

    start: Offset | None
    batches: Sequence[StateBatch]


def merged(records: Sequence[BatchesOfRecord]) -> tuple[StateBatch, ...]:
    """Merge the batches of successive records, by offset and without overlaps.

    Each start offset removes the offsets below it from that record and all earlier ones. Adjacent equal batches are
    joined.
    """
    left: list[StateBatch] = []
    floor: Offset | None = None
    for start, batches in reversed(records):
        if start is not None:
            floor = start if floor is None else max(floor, start)
        left += batches if floor is None else _above(batches, floor)
    left.sort()
    return tuple(_joined(_by_priority(left)))


def _above(batches: Iterable[StateBatch], floor: Offset) -> Iterator[StateBatch]:
    for batch in batches:
        if batch.last_offset >= floor:
            yield batch._replace(first_offset=max(batch.first_offset, floor))


def _by_priority(batches: Sequence[StateBatch]) -> Iterator[StateBatch]:
    """Yield the winning batch for each range of offsets; `batches` is sorted."""
    here: list[tuple[int, int, Offset]] = []  # the batches begun so far, winner first
    place, at = 0, 0
    while place < len(batches) or here:
        if not here:
            at = batches[place].first_offset
        while place < len(batches) and batches[place].first_offset <= at:
            _, last, state, count = batches[place]
            heappush(here, (-count, -state, last))
            place += 1
        count, state, last = here[0]
        if last < at:
            heappop(here)
            continue
        if place < len(batches):
            last = min(last, batches[place].first_offset - 1)
        yield StateBatch(at, last, -state, -count)
        at = last + 1


def _joined(runs: Iterable[StateBatch]) -> Iterator[StateBatch]:
    before: StateBatch | None = None
    for run in runs:
        if before is None:
            before = run
        elif before.last_offset + 1 == run.first_offset and before[2:] == run[2:]:
            before = before._replace(last_offset=run.last_offset)
        else:
            yield before
            before = run
    if before is not None:
        yield before
