"""A loss: offsets that a source once had and has no more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engine.errors import CorruptRecordError
from engine.json_facts import facts_of
from engine.log.segment.damage import DamageKind, Elsewhere
from engine.log.segment.scan import Damage
from engine.units import Offset, Position, Timestamp


class LossKind(StrEnum):
    """What is missing."""

    START = "start"
    """The first segments of a log."""
    GAP = "gap"
    """Batches or segments between others."""
    BYTES = "bytes"
    """Bytes of a records file that are no good batches."""
    END = "end"
    """The last batches or segments of a log."""
    PARTITION = "partition"
    """The folder of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Offsets that a source lost, with the evidence.

    Attributes:
        partition: name of the partition in the source.
        kind: what is missing.
        first_offset, next_offset: the lost offsets [first, next); None where only a file could tell them.
        file: path in the source of the file at which they are missing; "" for a whole folder.
        position, length: bytes of that file; length 0 where offsets are missing between two batches.
        is_certain: whether no other cause is possible.
        reason: the loss and its evidence in one sentence.
        before, after: timestamps in milliseconds of the last record before and the first one after; None if unknown.
        elsewhere: places that may still hold the records.
        damage_kinds: kinds of the damage of lost bytes, see `engine.log.segment.damage.DamageKind`.
    """

    partition: str
    kind: LossKind
    first_offset: Offset | None
    next_offset: Offset | None
    file: str
    reason: str
    position: Position = 0
    length: int = 0
    is_certain: bool = True
    before: Timestamp | None = None
    after: Timestamp | None = None
    elsewhere: tuple[Elsewhere, ...] = ()
    damage_kinds: tuple[str, ...] = ()

    @property
    def offsets(self) -> int:
        """The number of lost offsets; 0 if unknown."""
        if self.first_offset is None or self.next_offset is None:
            return 0
        return max(self.next_offset - self.first_offset, 0)

    def holds(self, offset: Offset) -> bool:
        """Return whether an offset is among the lost ones."""
        if self.first_offset is None or self.next_offset is None:
            return False
        return self.first_offset <= offset < self.next_offset

    def damage(self) -> Damage:
        """Return the loss as a reader meets it between the batches of a file."""
        last = None if self.next_offset is None else self.next_offset - 1
        return Damage(
            self.file,
            self.position,
            self.length,
            DamageKind.MISSING,
            self.reason,
            first_offset=self.first_offset,
            last_offset=last,
            elsewhere=self.elsewhere,
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; times in milliseconds."""
        facts: dict[str, Any] = facts_of(
            self,
            "partition kind=kind.value first_offset next_offset offsets "
            "certain=is_certain reason timestampBefore=before timestampAfter=after",
        )
        if self.file:
            facts |= facts_of(self, "file position length")
        if self.elsewhere:
            facts["elsewhere"] = [each.to_json() for each in self.elsewhere]
        return facts


class LostRecordError(CorruptRecordError):
    """The record at an offset is lost.

    Attributes:
        loss: the loss that the offset is in.
    """

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.reason, path=loss.file, position=loss.position)
        self.loss = loss
