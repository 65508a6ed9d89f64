"""Decide the transactions that end near a moment, so that each is in all its partitions or in none.

A transaction is in if its coordinator had decided how it ends, or if one of its markers is in. The producer id and the
epoch of the markers name it over all partitions: from transaction.version 2 on each end has an epoch of its own. Before,
a producer keeps its epoch; its transactions are told apart by their partitions, their ends and their time, as the data of
one follow all markers of the last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from engine.cut.tail import Tail, TransactionPart
from engine.log.partition_log import PartitionLog
from engine.record.fate import Fate
from engine.units import MAX_INT64, NO_TIMESTAMP, Offset, Timestamp


class Prepared(NamedTuple):
    """A record of a coordinator that says how a transaction ends."""

    producer_id: int
    marker_epoch: int
    time: Timestamp
    fate: Fate


class Decided(NamedTuple):
    """A transaction that is in the cut.

    Attributes:
        producer_id, marker_epoch: the producer of its markers.
        fate: how it ended.
        first, last: times of its first and last marker near the moment, -1 without one.
        evidence: why it is in, in words.
    """

    producer_id: int
    marker_epoch: int
    fate: Fate
    first: Timestamp
    last: Timestamp
    evidence: str


_Piece: TypeAlias = tuple[PartitionLog, TransactionPart]
_OTHER_END = {Fate.COMMITTED: Fate.ABORTED, Fate.ABORTED: Fate.COMMITTED}
_MARGIN = 2
"""Clocks differ by at most this times what was seen."""


class _Transaction:
    """The pieces of a transaction in all partitions."""

    def __init__(self, pieces: list[_Piece], epoch: int) -> None:
        self.pieces = pieces
        self.epoch = epoch
        self.times = [each.marker_time for _, each in pieces if each.marker is not None]

    @property
    def first(self) -> Timestamp:
        """Time of the first marker; the largest number without one."""
        return min(self.times, default=MAX_INT64)


class Decisions:
    """The transactions around a moment.

    Args:
        tails: logs around the moment.
        floors: offsets that groups had committed, by log; a log ends there or above.
        prepared: what the coordinators had decided by then.

    Attributes:
        ends: end of each log.
        ended: fates of the transactions that are in and lack their end there, by log and producer.
        decided: the transactions that are in, and lack an end in some partition.
    """

    def __init__(
        self,
        tails: Mapping[PartitionLog, Tail],
        floors: Mapping[PartitionLog, Offset],
        prepared: list[Prepared],
    ) -> None:
        self._prepared = prepared
        self._transactions = _grouped(tails)
        self.ends = {log: max(each.end, floors.get(log, 0)) for log, each in tails.items()}
        self.ended: dict[PartitionLog, dict[int, Fate]] = defaultdict(dict)
        self.decided: list[Decided] = []
        found: dict[int, tuple[Fate, str]] = {}
        is_settled = False
        while not is_settled:
            is_settled = True
            for at, each in enumerate(self._transactions):
                if at not in found and (why := self._why(each)) is not None:
                    found[at] = why
                    is_settled = not self._take_in(each) and is_settled
        for at, (fate, evidence) in sorted(found.items()):
            self._note(self._transactions[at], fate, evidence)

    def _why(self, transaction: _Transaction) -> tuple[Fate, str] | None:
        """Return how a transaction that is in ends, and why it is in; None if it is not."""
        for log, piece in transaction.pieces:
            if piece.marker is not None and piece.marker < self.ends[log]:
                return piece.fate, f"{log.topic_partition} has its marker at offset {piece.marker}"
        producer, first = transaction.pieces[0][1].producer_id, transaction.first
        others = [
            each.first
            for each in self._transactions
            if each is not transaction
            and (each.pieces[0][1].producer_id, each.epoch) == (producer, transaction.epoch)
        ]
        for each in reversed(self._prepared):
            is_its = (each.producer_id, each.marker_epoch) == (producer, transaction.epoch)
            if is_its and each.time <= first and not any(each.time <= at < first for at in others):
                return each.fate, f"its coordinator had decided at {each.time}"
        return None

    def _take_in(self, transaction: _Transaction) -> bool:
        """Move the ends behind the data of a transaction; return whether one moved."""
        has_moved = False
        for log, piece in transaction.pieces:
            if piece.data_end > self.ends[log]:
                self.ends[log], has_moved = piece.data_end, True
        return has_moved

    def _note(self, transaction: _Transaction, fate: Fate, evidence: str) -> None:
        cut_off = [
            (log, piece)
            for log, piece in transaction.pieces
            if piece.marker is None or piece.marker >= self.ends[log]
        ]
        for log, piece in cut_off:
            self.ended[log][piece.producer_id] = fate
        if cut_off:
            times = transaction.times or [NO_TIMESTAMP]
            producer = transaction.pieces[0][1].producer_id
            self.decided.append(
                Decided(producer, transaction.epoch, fate, min(times), max(times), evidence)
            )


def _grouped(tails: Mapping[PartitionLog, Tail]) -> list[_Transaction]:
    """Return the transactions that the pieces are of."""
    by_producer: dict[int, list[_Piece]] = defaultdict(list)
    for log, tail in tails.items():
        for piece in tail.pieces:
            by_producer[piece.producer_id].append((log, piece))
    found: list[_Transaction] = []
    skew = max((each.skew for each in tails.values()), default=0)
    for pieces in by_producer.values():
        bumps = (
            any(each.epoch >= 0 and each.marker_epoch == each.epoch + 1 for _, each in pieces)
            or len({each.marker_epoch for _, each in pieces if each.marker is not None}) > 1
        )
        by_epoch: dict[int, list[_Piece]] = defaultdict(list)
        for log, piece in pieces:
            unmarked = piece.epoch + bumps
            by_epoch[unmarked if piece.marker is None else piece.marker_epoch].append((log, piece))
        for epoch, of_epoch in by_epoch.items():
            parts = [of_epoch] if bumps else _by_time(of_epoch, skew)
            found += [_Transaction(each, epoch) for each in parts]
    return found


def _by_time(pieces: list[_Piece], skew: int) -> list[list[_Piece]]:
    """Tell apart the transactions of one epoch.

    All data of one begin before all of its markers. So a new one begins with data that are newer than all markers before,
    by more than the clocks differ. Where a part still has two of a partition, or two kinds of ends, the longest time
    between markers and data there parts them.
    """
    parts: list[list[_Piece]] = []
    left = [sorted(pieces, key=lambda each: _begin(each[1]))]
    while left:
        part = left.pop()
        gaps = _gaps(part)
        at = max(gaps, key=gaps.__getitem__, default=0)
        if at and gaps[at] <= _MARGIN * skew:
            at = max(_between(part), key=gaps.__getitem__, default=0)
        if at:
            left += [part[at:], part[:at]]
        else:
            parts.append(part)
    return parts


def _gaps(part: list[_Piece]) -> dict[int, int]:
    """Return how long after all markers before them the pieces begin, by their number from 1 on, in milliseconds."""
    gaps: dict[int, int] = {}
    newest = part[0][1].marker_time
    for at, (_, piece) in enumerate(part[1:], 1):
        gaps[at] = -MAX_INT64 if newest == NO_TIMESTAMP else _begin(piece) - newest
        newest = max(newest, piece.marker_time)
    return gaps


def _between(part: list[_Piece]) -> set[int]:
    """Return where a part may be parted so that pieces fall apart which are not of one transaction."""
    found: set[int] = set()
    seen: dict[PartitionLog | Fate, int] = {}
    for at, (log, piece) in enumerate(part):
        if log in seen:
            found.update(range(seen[log] + 1, at + 1))
        seen[log] = at
        if piece.fate in _OTHER_END:
            if (other := seen.get(_OTHER_END[piece.fate])) is not None:
                found.update(range(other + 1, at + 1))
            seen[piece.fate] = at
    return found


def _begin(piece: TransactionPart) -> Timestamp:
    """Return the time of the first data; of a piece without data that of its marker."""
    return piece.marker_time if piece.first_timestamp == NO_TIMESTAMP else piece.first_timestamp
