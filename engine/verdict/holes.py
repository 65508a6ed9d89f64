"""The map of holes: bytes of a partition's segments that are not good batches, and the offsets they may have held.

Exact in bytes: a hole reaches from the end of one good batch to the start of the next, or to the file's end. In offsets
it is the range between the batches around it: all of these offsets may have been in the hole, and in a log that was not
compacted all of them were. Zeros at the end of a preallocated file are no hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.json_facts import facts_of
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage
from engine.units import Offset, Position
from engine.verdict.gap_causes.wrappers import first_offset_of
from engine.verdict.loss import Loss, LossKind


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes [position, position + length) of a segment that are not good batches.

    Attributes:
        partition: name of the partition in the source.
        file: path relative to the source.
        base_offset: base offset of the segment.
        position, length: the bytes.
        first_offset: one past the last offset of the good batch before.
        next_offset: base offset of the next good batch or segment; None at the log's end, where it is unknown. If not
            above `first_offset`, only copies can have been lost.
        kinds: kinds of its damage, in file order without repetitions; see `engine.log.segment.damage.DamageKind`.
        file_size: bytes of the file, as it was read.
        stated: unproven offsets (first, next) in its batch headers.
    """

    partition: str
    file: str
    base_offset: Offset
    position: Position
    length: int
    first_offset: Offset
    next_offset: Offset | None
    kinds: tuple[str, ...]
    file_size: int
    stated: tuple[tuple[Offset, Offset], ...] = ()

    @property
    def offsets(self) -> int | None:
        """Maximum number of lost offsets; None if unknown."""
        if self.next_offset is None:
            return None
        return max(self.next_offset - self.first_offset, 0)

    @property
    def may_be_lost(self) -> bool:
        """Whether it may have held records: it is no batch that was being written, nor copies of other batches."""
        if self.next_offset is None:
            return not all(DamageKind(kind).is_tail for kind in self.kinds)
        return self.next_offset > self.first_offset

    def loss(self, *, is_compacted: bool) -> Loss:
        """Return the hole as a loss.

        Args:
            is_compacted: whether compaction may have left fewer records in the bytes than offsets.
        """
        following = self.next_offset
        if following is None and self.stated:
            following = max(end for _, end in self.stated)
        return Loss(
            partition=self.partition,
            kind=LossKind.BYTES,
            first_offset=self.first_offset,
            next_offset=following,
            file=self.file,
            position=self.position,
            length=self.length,
            reason=f"{self.length} bytes from byte {self.position} are no good batches: {', '.join(self.kinds)}",
            is_certain=self.next_offset is not None and not is_compacted,
            damage_kinds=self.kinds,
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            **facts_of(self, "partition file position length first_offset next_offset"),
            "kinds": list(self.kinds),
            "stated": [list(each) for each in self.stated],
        }


class HoleMap:
    """Collects the holes of one segment from the items of its scan.

    Args:
        partition: the partition's name.
        segment: the segment.
        next_base: base offset of the next segment, None for the last one.
        next_offset: one past the last offset of the segments before, or its own base offset if that is higher.
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
        """Add the next item; yield a hole that ends before it.

        Args:
            item: batches or damage.
            first_offset: offset of the first record of the batches, if the records were checked.
        """
        if isinstance(item, Damage):
            self._open.append(item)
            return
        if self._open:
            yield self._hole(first_offset_of(item) if first_offset is None else first_offset)
        self.next_offset = max(self.next_offset, item.next_offset)

    def end(self) -> Iterator[Hole]:
        """End the segment; yield a hole at its end."""
        # Zeros that were never written cost no offsets, unless the next segment begins higher.
        if all(damage.kind is DamageKind.ZERO_TAIL for damage in self._open) and (
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
            if damage.kind is DamageKind.CRC_MISMATCH
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
            self._segment.tail_end,
            tuple(stated),
        )
