"""What many losses add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from engine.units import Offset, Timestamp
from engine.verdict.loss import Loss


class LossTotals(NamedTuple):
    """Sums over the losses of a source; an offset in several of them counts once.

    Attributes:
        offsets: lost offsets, as far as known.
        partitions: partitions with losses.
        before, after: timestamps in milliseconds around the losses: the smallest one before and the largest one after
            a loss; None if none is known.
        is_certain: whether all losses are certain and their offsets known.
    """

    offsets: int = 0
    partitions: int = 0
    before: Timestamp | None = None
    after: Timestamp | None = None
    is_certain: bool = True

    @classmethod
    def of(cls, losses: Iterable[Loss]) -> LossTotals:
        """Return the sums over some losses."""
        ranges: dict[str, list[tuple[Offset, Offset]]] = {}
        before: list[Timestamp] = []
        after: list[Timestamp] = []
        is_certain = True
        for loss in losses:
            found = ranges.setdefault(loss.partition, [])
            if loss.first_offset is not None and loss.next_offset is not None:
                found.append((loss.first_offset, loss.next_offset))
            is_certain &= loss.is_certain and loss.next_offset is not None
            before += [] if loss.before is None else [loss.before]
            after += [] if loss.after is None else [loss.after]
        return cls(
            sum(map(_covered, ranges.values())),
            len(ranges),
            min(before, default=None),
            max(after, default=None),
            is_certain,
        )

    @classmethod
    def joined(cls, some: Iterable[LossTotals]) -> LossTotals:
        """Return the sums over partitions that have sums of their own."""
        every = [each for each in some if each.partitions]
        return cls(
            sum(each.offsets for each in every),
            sum(each.partitions for each in every),
            min((each.before for each in every if each.before is not None), default=None),
            max((each.after for each in every if each.after is not None), default=None),
            all(each.is_certain for each in every),
        )

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> LossTotals:
        """Return the sums that `to_json` has made an object of."""
        return cls(
            facts["offsets"],
            facts["partitions"],
            facts["timestampBefore"],
            facts["timestampAfter"],
            facts["certain"],
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; times in milliseconds."""
        return {
            "offsets": self.offsets,
            "partitions": self.partitions,
            "certain": self.is_certain,
            "timestampBefore": self.before,
            "timestampAfter": self.after,
        }


def _covered(ranges: list[tuple[Offset, Offset]]) -> int:
    """Return the number of offsets that are in at least one range."""
    number, reached = 0, 0
    for first, following in sorted(ranges):
        number += max(following - max(first, reached), 0)
        reached = max(reached, following)
    return number
