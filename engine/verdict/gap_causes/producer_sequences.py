"""Check of producers' epochs and sequence numbers, and of transactions' end markers, over a partition's batches.

A broker accepts a producer's batches only with consecutive sequence numbers. So if they are not consecutive, batches are
missing or repeated, unless compaction or retention removed them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from engine.arrays import np, npt
from engine.columns.batch_table import holds_control
from engine.record.attributes import TRANSACTIONAL_MASK
from engine.units import MAX_INT32, Offset, Position, Timestamp

Table: TypeAlias = "npt.NDArray[Any]"

MOST_PRODUCERS = 200_000
"""Producers that are tracked at once; above this number all are forgotten, and tracking restarts."""
MOST_BREAKS = 10_000
EXPIRATION_MS = 86_400_000
"""producer.id.expiration.ms: after this time without a batch, a producer may continue with any sequence number."""


class _Last(NamedTuple):
    """Last data batch of a producer; `is_open` is whether its transaction is open."""

    epoch: int
    sequence: int
    offset: Offset
    timestamp: Timestamp
    is_open: bool


class SequenceBreak(NamedTuple):
    """A producer's batch with a sequence number or epoch that does not follow the batch before.

    Attributes:
        place: index of the segment in the log.
        position, size: of the batch.
        producer_id, epoch: of the batch.
        after: last offset of the producer's batch before.
        first_offset, next_offset: the batch's offsets.
        expected, found: sequence numbers, or epochs if `is_epoch`.
        is_epoch: whether the epoch decreased.
    """

    place: int
    position: Position
    size: int
    producer_id: int
    epoch: int
    after: Offset
    first_offset: Offset
    next_offset: Offset
    expected: int
    found: int
    is_epoch: bool = False

    @property
    def missing(self) -> int:
        """Number of missing sequence numbers; 0 if the sequence goes back or restarts."""
        return max(self.found - self.expected, 0)


class LoneMarkers(NamedTuple):
    """End markers of a segment without a transactional batch of their producer before."""

    number: int
    position: Position
    first_offset: Offset


class Producers:
    """Follows the batches of a partition, without those out of place.

    Attributes:
        breaks: the first MOST_BREAKS breaks.
        lone_markers: by the segment's index in the log.
    """

    def __init__(self) -> None:
        self.breaks: list[SequenceBreak] = []
        self.lone_markers: dict[int, LoneMarkers] = {}
        self._known: dict[int, _Last] = {}

    def forget(self) -> None:
        """Forget all producers, to free memory after the end of the log."""
        self._known.clear()

    def feed(self, place: int, table: Table) -> None:
        """Add a run of batches of the segment at `place`."""
        producers = np.ascontiguousarray(table["producer_id"])
        rows = (producers >= 0).nonzero()[0]
        if not len(rows):
            return
        ids = producers[rows]
        if ids[0] != ids[-1] or (ids != ids[0]).any():
            order = np.argsort(ids, kind="stable")
            rows, ids = rows[order], ids[order]
        batches = _Columns(table, rows, ids)
        starts = np.diff(ids, prepend=ids[0] - 1).nonzero()[0]
        self._markers(place, batches, starts)
        self._sequences(place, batches)
        self._remember(batches, starts)

    def _markers(self, place: int, batches: _Columns, starts: Table) -> None:
        markers = batches.is_marker.nonzero()[0]
        if not len(markers):
            return
        is_first = np.isin(markers, starts)
        opened = np.zeros(len(markers), bool)
        inner = markers[~is_first]
        opened[~is_first] = batches.opens[inner - 1]
        for at in is_first.nonzero()[0]:
            known = self._known.get(int(batches.ids[markers[at]]))
            opened[at] = known is not None and known.is_open
        lone = markers[~opened]
        if not len(lone):
            return
        known_lone = self.lone_markers.get(place)
        if known_lone is not None:
            self.lone_markers[place] = known_lone._replace(number=known_lone.number + len(lone))
            return
        row = batches.rows[lone].min()
        batch = batches.table[row]
        first = int(batch["position"]), int(batch["base_offset"])
        self.lone_markers[place] = LoneMarkers(len(lone), *first)

    def _sequences(self, place: int, batches: _Columns) -> None:
        data = batches.is_data.nonzero()[0]
        if not len(data):
            return
        ids, epoch, first = batches.ids[data], batches.epoch[data], batches.sequence[data]
        last, stamp = batches.last_sequence[data], batches.timestamp[data]
        same = ids[1:] == ids[:-1]
        expected = np.where(epoch[1:] == epoch[:-1], _after(last[:-1]), 0)
        silent = (stamp[1:] - stamp[:-1] >= EXPIRATION_MS) & (stamp[:-1] >= 0)
        bad = same & ((epoch[1:] < epoch[:-1]) | ((first[1:] != expected) & ~silent))
        for at in bad.nonzero()[0].tolist():
            before = _Last(
                int(epoch[at]), int(last[at]), batches.last_offset(data[at]), int(stamp[at]), False
            )
            self._add(place, batches, int(data[at + 1]), before)
        for at in np.diff(ids, prepend=ids[0] - 1).nonzero()[0].tolist():
            known = self._known.get(int(ids[at]))
            if known is not None:
                self._compare(place, batches, int(data[at]), known)

    def _compare(self, place: int, batches: _Columns, at: int, known: _Last) -> None:
        epoch, sequence = int(batches.epoch[at]), int(batches.sequence[at])
        stamp = int(batches.timestamp[at])
        if known.timestamp >= 0 and stamp - known.timestamp >= EXPIRATION_MS:
            return
        expected = (known.sequence + 1) & MAX_INT32 if epoch == known.epoch else 0
        if epoch < known.epoch or sequence != expected:
            self._add(place, batches, at, known)

    def _add(self, place: int, batches: _Columns, at: int, before: _Last) -> None:
        if len(self.breaks) >= MOST_BREAKS:
            return
        batch = batches.table[batches.rows[at]]
        epoch, sequence = int(batches.epoch[at]), int(batches.sequence[at])
        is_epoch = epoch < before.epoch
        expected = (before.sequence + 1) & MAX_INT32 if epoch == before.epoch else 0
        self.breaks.append(
            SequenceBreak(
                place=place,
                position=int(batch["position"]),
                size=int(batch["size"]),
                producer_id=int(batch["producer_id"]),
                epoch=epoch,
                after=before.offset,
                first_offset=int(batch["base_offset"]),
                next_offset=int(batch["last_offset"]) + 1,
                expected=before.epoch if is_epoch else expected,
                found=epoch if is_epoch else sequence,
                is_epoch=is_epoch,
            )
        )

    def _remember(self, batches: _Columns, starts: Table) -> None:
        if len(self._known) + len(starts) > MOST_PRODUCERS:
            self._known.clear()
        ends = np.append(starts[1:], len(batches.ids)) - 1
        # The last data batch at or before each place: -1 if a producer has only markers here.
        newest = np.maximum.accumulate(np.where(batches.is_data, np.arange(len(batches.ids)), -1))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            producer, at = int(batches.ids[end]), int(newest[end])
            is_open = bool(batches.opens[end])
            if at >= start:
                self._known[producer] = _Last(
                    int(batches.epoch[at]),
                    int(batches.last_sequence[at]),
                    batches.last_offset(at),
                    int(batches.timestamp[at]),
                    is_open,
                )
            elif producer in self._known:
                self._known[producer] = self._known[producer]._replace(is_open=is_open)


class _Columns:
    """Batches of producers, by producer and in log order, as contiguous columns."""

    def __init__(self, table: Table, rows: Table, ids: Table) -> None:
        self.table = table
        self.rows = rows
        self.ids = ids
        is_control = holds_control(table)[rows]
        is_transactional = table["attributes"][rows] & TRANSACTIONAL_MASK != 0
        self.is_marker = is_control & is_transactional
        self.is_data = ~is_control
        self.opens = self.is_data & is_transactional
        self.epoch = table["producer_epoch"][rows]
        self.sequence = table["base_sequence"][rows].astype(np.int64)
        self._last = table["last_offset"][rows]
        span = self._last - table["base_offset"][rows]
        self.last_sequence = (self.sequence + span) & MAX_INT32
        self.timestamp = table["max_timestamp"][rows]

    def last_offset(self, at: int) -> Offset:
        """Return the last offset of a batch."""
        return int(self._last[at])


def _after(sequence: Table) -> Table:
    """Return the next sequence numbers; 2^31 - 1 is followed by 0."""
    following: Table = (sequence + 1) & MAX_INT32
    return following


def breaks_without(
    breaks: list[SequenceBreak], left_out: list[tuple[Offset, Offset]]
) -> Iterator[SequenceBreak]:
    """Yield the breaks without any of the `left_out` offsets (first, next) between their two batches."""
    for each in breaks:
        if not any(
            first < each.next_offset and following > each.after for first, following in left_out
        ):
            yield each
