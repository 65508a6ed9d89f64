"""Fates of transactional records: committed, aborted or open.

The fate of a producer's transactional batch is that producer's next end marker, ABORT or COMMIT; without one the
batch is open. Markers are read from the log. The index of aborted transactions is used only where damage may
have taken a marker.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple, Protocol, TypeAlias

from engine import kernel
from engine.arrays import np, npt
from engine.budgets import DEFAULT_BUDGETS, MiB
from engine.columns.batch_table import holds_control
from engine.errors import InvalidRecordError
from engine.log.segment.scan import BatchRun, Damage, ScanItem
from engine.record.attributes import COMPRESSION_MASK, TRANSACTIONAL_MASK, is_control
from engine.record.batch_frame import HEADER
from engine.record.control_records import CONTROL_KEY, ControlRecordType, parse_control_key
from engine.record.fate import Fate
from engine.units import MAX_INT64, Offset, Position

Aborted: TypeAlias = Mapping[int, Sequence[tuple[Offset, Offset]]]
"""First and last offsets of aborted transactions by producer id."""

_CHUNK = 1 * MiB
_MOST_MARKERS = 1_000_000


class OngoingTxn(NamedTuple):
    """A transaction that has not ended."""

    producer_id: int
    producer_epoch: int
    first_offset: Offset


class Event(NamedTuple):
    """A batch of a transaction; `ended` is the fate that an end marker gives, None for data."""

    row: int
    producer_id: int
    producer_epoch: int
    base_offset: Offset
    ended: Fate | None


def events(run: BatchRun) -> list[Event]:
    """Return the transactional batches with records, and the end markers, in file order."""
    table = run.table
    attributes = table["attributes"]
    marked = holds_control(table) | (attributes & TRANSACTIONAL_MASK != 0)
    if not marked.any():
        return []
    # Compaction leaves empty batches: they have no record to decide, and the transaction of an empty
    # marker was removed.
    marked &= (table["magic"] == 2) & (table["producer_id"] >= 0) & (table["record_count"] > 0)
    found = []
    for row in np.flatnonzero(marked).tolist():
        _, base, _, _, _, producer_id, _, _, _, _, _, flags, epoch, *_ = table[row].item()
        ended = None
        if is_control(2, flags):
            ended = _end_marker(run, row, flags)
            if ended is None:
                continue
        found.append(Event(row, producer_id, epoch, base, ended))
    return found


_ENDS = {ControlRecordType.COMMIT: Fate.COMMITTED, ControlRecordType.ABORT: Fate.ABORTED}
_ENDS_BY_ID = {int(kind): fate for kind, fate in _ENDS.items()}


def _end_marker(run: BatchRun, row: int, flags: int) -> Fate | None:
    """Return the fate that a control batch gives its producer's transaction; None for another control record."""
    buffer = run.buffer
    at = int(run.table["position"][row]) - run.start_position + HEADER.size
    if not flags & COMPRESSION_MASK:
        # Kafka's own markers: length, attributes, two deltas and the key's size take a byte each.
        head = buffer[at : at + 9]
        if len(head) == 9 and max(head[0], head[2], head[3]) < 0x80 and head[4] == 8:
            version, type_id = CONTROL_KEY.plain.unpack_from(head, 5)
            return _ENDS_BY_ID.get(type_id) if version >= 0 else None
    columns = kernel.decode(
        buffer, run.table, row, row + 1, start_position=run.start_position, budgets=DEFAULT_BUDGETS
    )
    if not len(columns.offset):
        return None
    try:
        return _ENDS.get(parse_control_key(columns.key(0)).type)
    except InvalidRecordError:
        return None


class TransactionState:
    """The open transactions at an offset, updated by the batches after it."""

    __slots__ = ("_open",)

    def __init__(self, ongoing: Iterable[OngoingTxn] = ()) -> None:
        self._open = {txn.producer_id: txn for txn in ongoing}

    def copy(self) -> TransactionState:
        """Return an independent copy."""
        return TransactionState(self._open.values())

    def apply(self, run: BatchRun, until: Offset | None = None) -> None:
        """Update the state with a run's batches that start before `until`."""
        for event in events(run):
            if until is not None and event.base_offset >= until:
                return
            if event.ended is not None:
                self._open.pop(event.producer_id, None)
            elif event.producer_id not in self._open:
                self._open[event.producer_id] = OngoingTxn(
                    event.producer_id, event.producer_epoch, event.base_offset
                )

    def lose_track(self) -> None:
        """Forget all transactions, after damage that may have taken their markers."""
        self._open.clear()

    @property
    def ongoing(self) -> tuple[OngoingTxn, ...]:
        """Open transactions by their first offset."""
        return tuple(sorted(self._open.values(), key=lambda txn: txn.first_offset))


class MarkedSegment(Protocol):
    """The part of a segment that the search for markers uses."""

    @property
    def base_offset(self) -> Offset:
        """Base offset of the segment."""

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of its records file."""

    @property
    def tail_end(self) -> Position:
        """End of the segment, with the damage after its last good batch."""

    def scan(
        self, start: Position, end: Position | None = None, *, chunk: int = MiB
    ) -> Iterator[ScanItem]:
        """Yield good batches and damage of [start, end)."""


class _Chunk(NamedTuple):
    """The markers of a part of a file by producer id, offsets ascending.

    `lost` has the first and last offsets that damage may have held.
    """

    end: Position
    markers: dict[int, list[tuple[Offset, Fate]]]
    marker_count: int
    lost: tuple[tuple[Offset, Offset], ...]


class MarkerCache:
    """A bounded cache of end markers of parts of files; safe from several threads."""

    def __init__(self, most_markers: int = _MOST_MARKERS) -> None:
        self._most = most_markers
        self._count = 0
        self._files: dict[tuple[int, int], tuple[list[Position], dict[Position, _Chunk]]] = {}
        self._lock = Lock()

    def chunk_at(self, segment: MarkedSegment, position: Position) -> _Chunk:
        """Return the markers of about 1 MiB from a position on, which is the start of a batch."""
        with self._lock:
            starts, chunks = self._files.get(segment.identity, ([], {}))
            place = bisect_right(starts, position) - 1
            if place >= 0 and chunks[starts[place]].end > position:
                return chunks[starts[place]]
            limit = starts[place + 1] if place + 1 < len(starts) else segment.tail_end
        chunk = _read_chunk(segment, position, min(limit, segment.tail_end))
        if chunk.end < segment.tail_end:
            self._keep(segment.identity, position, chunk)
        return chunk

    def _keep(self, identity: tuple[int, int], position: Position, chunk: _Chunk) -> None:
        with self._lock:
            starts, chunks = self._files.setdefault(identity, ([], {}))
            if position not in chunks:
                starts.insert(bisect_right(starts, position), position)
                chunks[position] = chunk
                self._count += chunk.marker_count + 1
            while self._count > self._most:
                _, forgotten = self._files.pop(next(iter(self._files)))
                self._count -= sum(each.marker_count + 1 for each in forgotten.values())


def _read_chunk(segment: MarkedSegment, start: Position, end: Position) -> _Chunk:
    markers: dict[int, list[tuple[Offset, Fate]]] = {}
    lost: list[tuple[Offset, Offset]] = []
    count, position = 0, start
    for item in segment.scan(start, end, chunk=_CHUNK):
        if not isinstance(item, BatchRun):
            if isinstance(item, Damage) and may_have_taken_a_marker(item):
                first, last = item.first_offset, item.last_offset
                lost.append((first or 0, MAX_INT64 if last is None else last))
            continue
        for event in events(item):
            if event.ended is not None:
                markers.setdefault(event.producer_id, []).append((event.base_offset, event.ended))
                count += 1
        position = item.end_position
        if position - start >= _CHUNK // 2:
            return _Chunk(position, markers, count, tuple(lost))
        del item  # free it before the next read: a batch may be as large as the budget
    return _Chunk(end, markers, count, tuple(lost))


def may_have_taken_a_marker(damage: Damage) -> bool:
    """Return whether damage may have held a marker; the tail of a log is not damage that did."""
    return not damage.kind.is_tail


class FateFinder:
    """Finds the fates of batches by their producers' next markers in the log.

    Args:
        segments_from: yields the segment with a base offset and those after it.
        ongoing: returns the open transactions; called for a transaction that does not end soon, to spare
            a read of the rest of the log.
        cache: cache of markers.
        aborted: returns first and last offsets of aborted transactions by producer id, from the indexes.
        ended: of a log that is cut, see `LogView.ended`.
    """

    __slots__ = ("_aborted", "_cache", "_ended", "_ongoing", "_read_aborted", "_segments_from")

    def __init__(
        self,
        segments_from: Callable[[Offset], Iterator[MarkedSegment]],
        ongoing: Callable[[], Iterable[OngoingTxn]],
        cache: MarkerCache,
        aborted: Callable[[], Aborted],
        ended: Mapping[int, Fate] | None = None,
    ) -> None:
        self._ended = ended
        self._aborted: Aborted | None = None
        self._read_aborted = aborted
        self._segments_from = segments_from
        self._ongoing = ongoing
        self._cache = cache

    def fates(self, segment: MarkedSegment, run: BatchRun) -> npt.NDArray[np.uint8] | None:
        """Return a Fate for each row of the run's table; None when no row is transactional."""
        found = events(run)
        if not any(event.ended is None for event in found):
            return None
        pending: dict[int, Offset] = {}
        for event in found:
            if event.ended is None:
                pending.setdefault(event.producer_id, event.base_offset)
            else:
                pending.pop(event.producer_id, None)
        decided = self._look_ahead(segment, run.end_position, pending) if pending else {}
        fates = np.zeros(len(run.table), np.uint8)
        for event in reversed(found):
            if event.ended is not None:
                decided[event.producer_id] = event.ended
            else:
                fates[event.row] = decided.get(
                    event.producer_id, self._undecided(event.producer_id)
                )
        return fates

    def _undecided(self, producer_id: int) -> Fate:
        """Return the fate of a transaction without an end in the log."""
        return Fate.OPEN if self._ended is None else self._ended.get(producer_id, Fate.ABORTED)

    def _look_ahead(
        self, segment: MarkedSegment, position: Position, pending: Mapping[int, Offset]
    ) -> dict[int, Fate]:
        """Return the fates of the transactions that are open at a position, without those that do not end."""
        decided: dict[int, Fate] = {}
        left = dict(pending)
        lost: list[tuple[Offset, Offset]] = []
        chunks = 0
        for each in self._segments_from(segment.base_offset):
            while left and position < each.tail_end:
                chunk = self._cache.chunk_at(each, position)
                lost += chunk.lost
                for producer_id in [known for known in left if known in chunk.markers]:
                    ended = _first_above(chunk.markers[producer_id], left[producer_id])
                    if ended is not None:
                        offset = left.pop(producer_id)
                        decided[producer_id] = self._confirmed(producer_id, offset, ended, lost)
                position = max(chunk.end, position + 1)
                chunks += 1
                if chunks == 2:
                    for txn in self._ongoing():
                        if txn.first_offset <= left.get(txn.producer_id, -1):
                            del left[txn.producer_id]
            if not left:
                break
            position = 0
        for producer_id, offset in left.items() if lost else ():
            never = MAX_INT64, Fate.OPEN
            decided[producer_id] = self._confirmed(producer_id, offset, never, lost)
        return decided

    def _confirmed(
        self,
        producer_id: int,
        offset: Offset,
        marker: tuple[Offset, Fate],
        lost: Sequence[tuple[Offset, Offset]],
    ) -> Fate:
        """Return the fate of a marker, or of an earlier one that damage took and an index has.

        An index entry counts only where the log does not contradict it.
        """
        end, fate = marker
        gaps = [(first, last) for first, last in lost if offset < last and first < end]
        if not gaps:
            return fate
        if self._aborted is None:
            self._aborted = self._read_aborted()
        aborted = self._aborted.get(producer_id, ())
        for begun, ended in aborted:
            if begun <= offset < ended and any(first <= ended <= last for first, last in gaps):
                return Fate.ABORTED
        is_of_another = any(ended == end and begun > offset for begun, ended in aborted)
        return Fate.COMMITTED if fate is Fate.ABORTED and is_of_another else fate


def _first_above(markers: list[tuple[Offset, Fate]], offset: Offset) -> tuple[Offset, Fate] | None:
    place = bisect_right(markers, offset, key=lambda marker: marker[0])
    return markers[place] if place < len(markers) else None
