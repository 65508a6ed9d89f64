"""What many losses add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from engine.files.file_names import FileState, FolderState
from engine.json_facts import facts_of
from engine.log.segment.damage import ElsewhereKind
from engine.units import Offset, Timestamp
from engine.verdict.loss import Loss

_SWAP = FileState.SWAP.value
_OFFSET_ORDER = "offset_order"
_UNREADABLE = "unreadable"
_FUTURE = FolderState.FUTURE.value


class LossTotals(NamedTuple):
    """Sums over the losses of a source; an offset in several of them counts once.

    Attributes:
        offsets: lost offsets, as far as known.
        partitions: partitions with losses.
        before, after: timestamps in milliseconds around the losses: the smallest one before and the largest one after
            a loss; None if none is known.
        is_certain: whether all losses are certain and their offsets known.
        swapped: offsets among them that .swap files may hold, which a rebuild takes.
        misplaced: offsets among them in the place of whole batches that state wrong offsets, which a rebuild puts right
            where the neighbours prove the right ones.
        moving: offsets among them that future logs lost, and the logs did not that they are copies of.
        unread: offsets among them whose bytes nobody could read here: a device, a store or a key refused them.
    """

    offsets: int = 0
    partitions: int = 0
    before: Timestamp | None = None
    after: Timestamp | None = None
    is_certain: bool = True
    swapped: int = 0
    misplaced: int = 0
    moving: int = 0
    unread: int = 0

    @classmethod
    def of(cls, losses: Iterable[Loss]) -> LossTotals:
        """Return the sums over some losses."""
        ranges: dict[str, list[tuple[Offset, Offset]]] = {}
        swapped: dict[str, list[tuple[Offset, Offset]]] = {}
        misplaced: dict[str, list[tuple[Offset, Offset]]] = {}
        unread: dict[str, list[tuple[Offset, Offset]]] = {}
        moving: set[str] = set()
        before: list[Timestamp] = []
        after: list[Timestamp] = []
        is_certain = True
        for loss in losses:
            found = ranges.setdefault(loss.partition, [])
            if loss.first_offset is not None and loss.next_offset is not None:
                found.append((loss.first_offset, loss.next_offset))
                if any(each.name.endswith(_SWAP) for each in loss.elsewhere):
                    swapped.setdefault(loss.partition, []).append(found[-1])
                if loss.damage_kinds == (_OFFSET_ORDER,):
                    misplaced.setdefault(loss.partition, []).append(found[-1])
                if loss.damage_kinds == (_UNREADABLE,):
                    unread.setdefault(loss.partition, []).append(found[-1])
                if loss.partition.endswith(_FUTURE) and any(
                    each.kind is ElsewhereKind.COPY for each in loss.elsewhere
                ):
                    moving.add(loss.partition)
            is_certain &= loss.is_certain and loss.next_offset is not None
            before += [] if loss.before is None else [loss.before]
            after += [] if loss.after is None else [loss.after]
        return cls(
            sum(map(_covered, ranges.values())),
            len(ranges),
            min(before, default=None),
            max(after, default=None),
            is_certain,
            sum(map(_covered, swapped.values())),
            sum(map(_covered, misplaced.values())),
            sum(_only_in(ranges[name], ranges.get(_log_of(name), [])) for name in moving),
            sum(map(_covered, unread.values())),
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
            sum(each.swapped for each in every),
            sum(each.misplaced for each in every),
            sum(each.moving for each in every),
            sum(each.unread for each in every),
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
            facts.get("inSwapFiles", 0),
            facts.get("inMisplacedBatches", 0),
            facts.get("inFutureLogs", 0),
            facts.get("inUnreadBytes", 0),
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; times in milliseconds."""
        facts: dict[str, Any] = facts_of(
            self,
            "offsets partitions certain=is_certain timestampBefore=before timestampAfter=after",
        )
        if self.swapped:
            facts["inSwapFiles"] = self.swapped
        if self.misplaced:
            facts["inMisplacedBatches"] = self.misplaced
        if self.moving:
            facts["inFutureLogs"] = self.moving
        if self.unread:
            facts["inUnreadBytes"] = self.unread
        return facts


def _log_of(future: str) -> str:
    """Return the name of the log that a future log is a copy of."""
    return future.rpartition(".")[0]


def _only_in(some: list[tuple[Offset, Offset]], others: list[tuple[Offset, Offset]]) -> int:
    """Return the number of offsets that are in a range of the first list, and in none of the second."""
    return _covered(some + others) - _covered(others)


def _covered(ranges: list[tuple[Offset, Offset]]) -> int:
    """Return the number of offsets that are in at least one range."""
    number, reached = 0, 0
    for first, following in sorted(ranges):
        number += max(following - max(first, reached), 0)
        reached = max(reached, following)
    return number
