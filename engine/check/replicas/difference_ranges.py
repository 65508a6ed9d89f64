"""Join differences of adjacent batches to one finding each, and limit the number of findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.check.replicas.replica_batches import ReplicaBatch
from engine.check.replicas.replica_pair import ReplicaPair
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.log.segment.scan import Damage
from engine.units import Offset

MOST_FINDINGS = 100
"""Maximum per rule and pair; further ones are counted."""


@dataclass(slots=True)
class DifferenceRange:
    """Offsets of breaches of one rule in adjacent batches.

    Attributes:
        rule: rule of the finding.
        side: copy with the batches, 0 or 1.
        first_offset, next_offset: first offset, and the one after the last.
        batch: first batch.
        other: first batch of the other copy; None if that copy has none.
        records: number of records.
        reason: difference of the records; "" if they are missing in the other copy.
    """

    rule: str
    side: int
    first_offset: Offset
    next_offset: Offset
    batch: ReplicaBatch
    records: int
    other: ReplicaBatch | None = None
    reason: str = ""


class DifferenceRanges:
    """Differences of two copies, joined while their batches are adjacent.

    Args:
        pair: the copies.
        damages: damage found so far in each copy; grows.
    """

    def __init__(
        self, pair: ReplicaPair, damages: tuple[Sequence[Damage], Sequence[Damage]]
    ) -> None:
        self._pair = pair
        self._damages = damages
        self._open: DifferenceRange | None = None
        self._reported: Counter[str] = Counter()
        self._rebatched: DifferenceRange | None = None

    def note(self, difference: DifferenceRange) -> Iterator[Finding]:
        """Extend the open range by a difference without a reason, or close it and begin another."""
        known = self._open
        is_same = known is not None and (known.rule, known.side) == (
            difference.rule,
            difference.side,
        )
        if known is not None and is_same and not difference.reason:
            known.next_offset = max(known.next_offset, difference.next_offset)
            known.records += difference.records
            return
        yield from self.close()
        self._open = difference

    def close(self) -> Iterator[Finding]:
        """Yield the finding for the open range, if any."""
        known, self._open = self._open, None
        if known is None or not self.may_report(known.rule):
            return
        if known.rule == "replica-diverges":
            yield self._diverges(known)
        else:
            yield self._lacks(known)

    def may_report(self, rule: str) -> bool:
        """Count a finding; return whether it is within the maximum of its rule."""
        self._reported[rule] += 1
        return self._reported[rule] <= MOST_FINDINGS

    def _diverges(self, known: DifferenceRange) -> Finding:
        assert known.other is not None
        mine, theirs = known.batch.facts(), known.other.facts()
        epochs = mine["leaderEpoch"], theirs["leaderEpoch"]
        return self._pair.found(
            "replica-diverges",
            f"from offset {known.first_offset}, leader epoch {epochs[0]}, it differs from"
            f" {self._pair.path(1)}, leader epoch {epochs[1]}: {known.reason}",
            batch=known.batch,
            first_offset=known.first_offset,
            next_offset=known.next_offset,
            mine=mine,
            other=theirs,
            epochs=self._pair.epochs_at(known.first_offset),
        )

    def _lacks(self, known: DifferenceRange) -> Finding:
        lacking = 1 - known.side
        damage = next(
            (
                each
                for each in self._damages[lacking]
                if (each.first_offset or 0) < known.next_offset
                and (each.last_offset is None or each.last_offset >= known.first_offset)
            ),
            None,
        )
        is_compacted = damage is None and self._pair.is_compacted()
        what = "it" if lacking == 0 else self._pair.path(1)
        has = f" that {self._pair.path(1)} has" if lacking == 0 else ""
        why = (
            ""
            if damage is None
            else f": {damage.reason} at position {damage.position} of {damage.path}"
        )
        why = why or (", normal after compaction" if is_compacted else "")
        return self._pair.found(
            "replica-lacks",
            f"{what} lacks {counted(known.records)} of offsets {known.first_offset} to"
            f" {known.next_offset - 1}{has}{why}",
            batch=known.batch if known.side == 0 else None,
            severity=Severity.NOTE if is_compacted else None,
            first_offset=known.first_offset,
            next_offset=known.next_offset,
            records=known.records,
            batchOfTheCopyThatHasIt=known.batch.facts(),
        )

    def summed_up(self) -> Iterator[Finding]:
        """Yield the findings for equal records in different batches, and for findings above the maximum."""
        known = self._rebatched
        if known is not None:
            yield self._pair.found(
                "replica-batching",
                f"{known.records} records from offset {known.first_offset} are in different batches in"
                f" {self._pair.path(1)}",
                batch=known.batch,
                first_offset=known.first_offset,
                next_offset=known.next_offset,
                records=known.records,
            )
        for rule, count in self._reported.items():
            if count > MOST_FINDINGS:
                yield self._pair.found(
                    rule, f"{count - MOST_FINDINGS} more places like those before"
                )

    def add_rebatched(self, mine: list[ReplicaBatch], records: int) -> None:
        """Count equal records in different batches."""
        if self._rebatched is None:
            first = mine[0].first_offset
            self._rebatched = DifferenceRange("replica-batching", 0, first, first, mine[0], 0)
        self._rebatched.next_offset = mine[-1].last_offset + 1
        self._rebatched.records += max(records, 1)


def counted(records: int) -> str:
    """Return a number of records in words."""
    return f"{records} record{'s' * (records != 1)}"
