"""The map of holes: which bytes of a partition's segments are no good batches, and which offsets they held.

Exact in bytes: a hole reaches from the end of one good batch to the start of the next, or to the file's
end. In offsets it is what the batches around it leave: all of these may have been there, and in a log that
was not compacted all of them were. Zeros that a preallocated file ends in are no hole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine import kernel
from engine.log.log_view import LogView
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage
from engine.record.attributes import COMPRESSION_MASK
from engine.units import Offset, Position


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes [position, position + length) of a segment that are no good batches.

    Attributes:
        partition: its name in the source.
        file: path relative to the source.
        base_offset: the segment's.
        position, length: where.
        first_offset: one past the last offset of the good batch before.
        next_offset: the base offset of the good batch behind, or of the next segment; None at the log's
            end, where nothing tells. Not above `first_offset`: nothing can have been lost but copies.
        kinds: of the damage in it, in file order without repetitions; see `engine.log.segment.scan.Damage`.
        stated: what the headers in it state, (first, next): unproven.
    """

    partition: str
    file: str
    base_offset: Offset
    position: Position
    length: int
    first_offset: Offset
    next_offset: Offset | None
    kinds: tuple[str, ...]
    stated: tuple[tuple[Offset, Offset], ...] = ()

    @property
    def offsets(self) -> int | None:
        """How many offsets it can have cost; None where nothing tells."""
        if self.next_offset is None:
            return None
        return max(self.next_offset - self.first_offset, 0)

    def to_json(self) -> dict[str, Any]:
        """All of it as a JSON object."""
        return {
            "partition": self.partition,
            "file": self.file,
            "position": self.position,
            "length": self.length,
            "firstOffset": self.first_offset,
            "nextOffset": self.next_offset,
            "kinds": list(self.kinds),
            "stated": [list(each) for each in self.stated],
        }


class HoleMap:
    """Collects the holes of one segment from what a scan of it yields.

    Args:
        partition: the partition's name.
        segment: which segment.
        next_base: the base offset of the segment behind it, None for the last one.
        next_offset: one past the last offset of the segments before it, at least its own base offset.
    """

    def __init__(
        self, partition: str, segment: LogSegment, next_base: Offset | None, next_offset: Offset
    ) -> None:
        self.next_offset = max(next_offset, segment.base_offset)
        self._partition = partition
        self._segment = segment
        self._next_base = next_base
        self._open: list[Damage] = []

    def add(self, item: BatchRun | Damage, first_offset: Offset | None = None) -> Iterator[Hole]:
        """Take in what comes next; a hole when it is over.

        Args:
            item: batches or damage.
            first_offset: that of the first record of the batches, where the records were looked at.
        """
        if isinstance(item, Damage):
            if item.skipped:
                self._open.append(item)
            return
        if self._open:
            yield self._hole(_first_offset(item) if first_offset is None else first_offset)
        self.next_offset = max(self.next_offset, item.next_offset)

    def end(self) -> Iterator[Hole]:
        """The segment is over."""
        # What only was never written took nothing, unless the next segment says otherwise.
        if all(damage.kind == DamageKind.ZERO_TAIL for damage in self._open) and (
            self._next_base is None or self._next_base <= self.next_offset
        ):
            self._open.clear()
        if self._open:
            yield self._hole(self._next_base)

    def _hole(self, next_offset: Offset | None) -> Hole:
        damages, self._open = self._open, []
        first, last = damages[0], damages[-1]
        stated = [
            (damage.first_offset, damage.last_offset + 1)
            for damage in damages
            if damage.kind == DamageKind.CRC_MISMATCH
            and damage.first_offset is not None
            and damage.last_offset is not None
        ]
        return Hole(
            self._partition,
            self._segment.path,
            self._segment.base_offset,
            first.position,
            last.position + last.length - first.position,
            self.next_offset,
            next_offset,
            tuple(dict.fromkeys(damage.kind for damage in damages)),
            tuple(stated),
        )


def _first_offset(run: BatchRun) -> Offset:
    """The offset of a run's first record; the header of a compressed batch of magic 0 or 1 states the last one's."""
    first = run.table[:1]
    if int(first["magic"][0]) < 2 and int(first["attributes"][0]) & COMPRESSION_MASK:
        summaries, _ = kernel.summarize(run.buffer, first, start_position=run.start_position)
        if summaries["count"][0] > 0:
            return int(summaries["first_offset"][0])
    return run.base_offset


def holes_of(view: LogView) -> Iterator[Hole]:
    """The map of holes of a whole log, in log order. Reads all of it.

    What follows the last good batch of a log that is written to is not there yet, and no hole.

    Raises OSError when a segment cannot be read.
    """
    next_offset: Offset = 0
    bases: Sequence[Offset] = view.base_offsets
    for place, base in enumerate(bases):
        segment = view.segment_at(place)
        following = bases[place + 1] if place + 1 < len(bases) else None
        found = HoleMap(view.name, segment, following, next_offset)
        for item in segment.scan(0, segment.tail_end, next_offset=base):
            yield from found.add(item)
        yield from found.end()
        next_offset = found.next_offset
