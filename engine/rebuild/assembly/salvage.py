"""Every good batch of one copy of a partition, in the order of the offsets.

The checksum does not cover the base offset, so a batch may state wrong offsets. If its neighbours
in the file leave exactly its number of offsets between them, the batch gets these. Otherwise the
chain of ascending offsets with the most records in a segment is used (`log/segment/chains`), as
readers do. A batch outside of the chain goes into a hole that it fits, or is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.budgets import MiB
from engine.columns.batch_table import BatchRows, holds_control
from engine.errors import KafkaStorageError
from engine.files.file_names import FileKind, FileState, parse_file_name
from engine.log.segment.chains import Ranges, in_chain, with_wrappers_opened
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.resync import OffsetBounds
from engine.log.segment.scan import BatchRun, Damage, Disorder, ScanItem, scan
from engine.log.view.log_view import LogView
from engine.rebuild.assembly.differing import Fingerprints
from engine.rebuild.assembly.hole_filling import fill
from engine.rebuild.assembly.pieces import (
    Dropped,
    Piece,
    RecordsFile,
    append_piece,
    coalesced,
    rows_to_pieces,
    same_batch,
    stated_end,
)
from engine.record.attributes import TRANSACTIONAL_MASK
from engine.record.control_records import (
    ControlRecordType,
    parse_control_key,
    parse_end_marker,
)
from engine.record.record_batch import make_batch
from engine.units import MAX_INT32, MAX_INT64, NO_PRODUCER_ID, Offset
from engine.verdict.gap_causes.compaction_marks import marked_to

Table: TypeAlias = npt.NDArray[Any]

_MOST_GAPS = 10_000
_MOST_MOVED = 64 * MiB
"""Most bytes of a segment's batches that are kept in memory with corrected offsets."""


class Salvaged(NamedTuple):
    """Good and damaged parts of one copy of a partition.

    Attributes:
        pieces: in offset order, not overlapping.
        spare: good batches that do not fit among the pieces, one piece each.
        dropped: damaged bytes.
        log_end_offset: log end offset of this copy.
        is_compacted: whether compaction removed records: then missing offsets are no loss.
        has_transactions: whether any batch is transactional.
        fingerprints: of its batches, to compare with another copy; None if they were not asked for.
        largest_producer_id: of its batches; -1 without a producer.
    """

    pieces: list[Piece]
    spare: list[Piece]
    dropped: list[Dropped]
    log_end_offset: Offset
    is_compacted: bool = False
    has_transactions: bool = False
    fingerprints: Fingerprints | None = None
    largest_producer_id: int = NO_PRODUCER_ID


Advance: TypeAlias = Callable[[int], None]


class Bounds(NamedTuple):
    """Offsets that a segment can have: [lower, upper).

    Attributes:
        furthest: a batch that reaches this offset without continuing its predecessor has a damaged
            base offset, which no checksum covers.
    """

    lower: Offset
    upper: Offset = MAX_INT64
    furthest: Offset = MAX_INT64

    @property
    def last(self) -> Offset | None:
        """Largest offset that the segment can have; None without a bound."""
        return None if self.upper == MAX_INT64 else self.upper - 1

    def include(self, table: Table, expected: Offset) -> npt.NDArray[np.bool_]:
        """Return which batches state possible offsets, if the first one should start at `expected`."""
        base, last = table["base_offset"], table["last_offset"]
        inside = (base >= self.lower) & (last < self.upper)
        if self.furthest != MAX_INT64:
            leaps = base != np.concatenate(([expected], last[:-1] + 1))
            inside &= ~(leaps & (last >= self.furthest))
        return np.asarray(inside)


def salvage(view: LogView, copy: int, advance: Advance, *, compares: bool = False) -> Salvaged:
    """Read all segments of a log.

    Args:
        view: view of the log.
        copy: index of this copy of the partition.
        advance: called with the number of bytes read.
        compares: whether to make fingerprints.
    """
    reader = _Reader(advance, Fingerprints() if compares else None)
    reader.is_copy = partial(_is_copy, view)
    reader.is_compacted = bool(view.log.checkpoints.cleaner_offset(view.partition))
    bases = view.base_offsets
    for place in range(len(bases)):
        segment = view.segment_at(place)
        if place + 1 < len(bases):
            bounds = Bounds(bases[place], bases[place + 1])
        else:
            bounds = Bounds(bases[place], MAX_INT64, _furthest(view))
        reader.read(_records_file(segment, copy), segment, bounds)
    end = max([reader.stated_end, *(piece.next_offset for piece in reader.pieces[-1:])])
    if bases:
        end = max(end, bases[-1])
    else:
        end = view.log_end_offset
    filled = fill(reader.pieces, reader.spare, must_touch=True, lowest=bases[0] if bases else 0)
    pieces = coalesced(filled.pieces, across_gaps=reader.is_compacted)
    dropped = reader.dropped + [_misplaced(pieces, piece) for piece in filled.refused]
    return Salvaged(
        pieces,
        filled.refused,
        dropped,
        end,
        reader.is_compacted,
        reader.has_transactions,
        reader.fingerprints,
        reader.largest_producer_id,
    )


def salvage_leftovers(
    view: LogView, copy: int, states: frozenset[FileState], advance: Advance
) -> Iterator[Salvaged]:
    """Read the records files that are not part of the log, such as .deleted and .swap, and yield each by itself."""
    for leftover in view.leftovers:
        name = parse_file_name(leftover.name)
        if name is None or name.kind is not FileKind.LOG or name.state not in states:
            continue
        path = view.log.relative(leftover.name)
        root = view.log.root
        records = RecordsFile(
            root.display(path), name.base_offset or 0, partial(root.open, path), copy
        )
        reader = _Reader(advance)
        reader.read(records, None, Bounds(records.base_offset))
        yield Salvaged(
            reader.pieces,
            reader.spare,
            reader.dropped,
            0,
            has_transactions=reader.has_transactions,
            largest_producer_id=reader.largest_producer_id,
        )


def _furthest(view: LogView) -> Offset:
    """Return a bound of the last segment's offsets: the log end of a clean stop, or 31 bits above the base offset."""
    base = view.base_offsets[-1]
    furthest = min(base + MAX_INT32 + 1, MAX_INT64)
    end = view.log.end_of_clean_stop()
    return furthest if end is None or end <= base else min(furthest, end)


def _records_file(segment: LogSegment, copy: int) -> RecordsFile:
    path = segment.files.root.display(segment.path)
    return RecordsFile(path, segment.base_offset, lambda: segment.file, copy)


def _is_copy(view: LogView, segment: Offset, batch: np.void) -> bool:
    """Return whether the batch of a segment stands once more, where it states to be."""
    base = int(batch["base_offset"])
    try:
        found = view.batch(base)
    except (KafkaStorageError, OSError):
        return False
    if found is None:
        return False
    place, other = found[0].base_offset, found[1].headers[0]
    is_same = (other.base_offset, other.size, other.crc) == (base, batch["size"], batch["crc"])
    return is_same and (place, other.position) != (segment, int(batch["position"]))


def _misplaced(pieces: list[Piece], piece: Piece) -> Dropped:
    if same_batch(pieces, piece):
        return piece.dropped("duplicate", "a duplicate batch")
    reason = "a good batch with offsets of other batches, or with wrong offsets"
    return piece.dropped("misplaced", reason)


class _Reader:
    """Reader of the segments of one log, in order."""

    def __init__(self, advance: Advance, fingerprints: Fingerprints | None = None) -> None:
        self.fingerprints = fingerprints
        self.pieces: list[Piece] = []
        self.spare: list[Piece] = []
        self.dropped: list[Dropped] = []
        self.stated_end: Offset = 0
        self._advance = advance
        self.is_compacted = False
        self.is_copy: Callable[[Offset, np.void], bool] | None = None
        self.has_transactions = False
        self.largest_producer_id = NO_PRODUCER_ID
        self._gaps_left = _MOST_GAPS

    def read(self, records: RecordsFile, segment: LogSegment | None, bounds: Bounds) -> None:
        """Read one segment."""
        found: list[Piece] = []
        dropped: list[Dropped] = []
        is_disordered = False
        expected = bounds.lower
        for item in self._items(records, segment):
            if isinstance(item, Dropped):
                dropped.append(item._replace(first_offset=expected, last_offset=bounds.last))
                continue
            if isinstance(item, Disorder):
                is_disordered = True
                continue
            if isinstance(item, Damage):
                dropped.append(_damaged(records, item, expected, bounds))
                continue
            _end_before(dropped, item)
            for run in self._loadable(records, item, dropped):
                is_disordered |= bool(
                    run.table["base_offset"][0] < expected
                    or not bounds.include(run.table, expected).all()
                )
                expected = int(run.table["last_offset"][-1]) + 1
                if self.fingerprints is not None:
                    self.fingerprints.add(run.table)
                at_gaps = self._splits_at_gaps(run)
                for piece in rows_to_pieces(records, run, at_gaps=at_gaps):
                    append_piece(found, piece, across_gaps=not at_gaps)
                del run
            del item  # free it before the next one is read: a batch may be as large as the budget
        if is_disordered:
            found, spare = self._put_in_order(records, found, bounds)
            self.spare += spare
        self.pieces += found
        self.dropped += dropped
        self._note_stated_end(records, dropped)

    def _items(
        self, records: RecordsFile, segment: LogSegment | None
    ) -> Iterator[ScanItem | Dropped]:
        """Yield the items of a scan; at the end the bytes after a place that the device cannot read."""
        done = 0
        try:
            for item in _scan(records, segment):
                if isinstance(item, BatchRun):
                    end = item.end_position
                else:
                    end = item.position + item.length
                if end > done:
                    self._advance(end - done)
                    done = end
                yield with_wrappers_opened(item) if isinstance(item, BatchRun) else item
                del (
                    item
                )  # freed before the next item is read: a batch may be as large as the budget
        except OSError as error:
            reason = f"it cannot be read from here on: {error.strerror or error}"
            yield Dropped(records.path, done, 0, DamageKind.UNREADABLE, reason)

    def _splits_at_gaps(self, run: BatchRun) -> bool:
        """Return whether a missing offset means a lost batch; in a compacted log it does not."""
        table = run.table
        if marked_to(table) >= 0:
            self.is_compacted = True
        if self._gaps_left <= 0 or self.is_compacted:
            return False
        gaps = np.count_nonzero(table["base_offset"][1:] != table["last_offset"][:-1] + 1)
        self._gaps_left -= int(gaps)
        return True

    def _loadable(
        self, records: RecordsFile, run: BatchRun, dropped: list[Dropped]
    ) -> Iterator[BatchRun]:
        """Yield the run without control batches that would keep a broker from loading the log."""
        self.has_transactions |= bool((run.table["attributes"] & TRANSACTIONAL_MASK).any())
        producers = run.table["producer_id"][run.table["magic"] >= 2]
        if len(producers):
            self.largest_producer_id = max(self.largest_producer_id, int(producers.max()))
        controls = holds_control(run.table)
        if not controls.any():
            yield run
            return
        start = 0
        for row in np.flatnonzero(controls).tolist():
            reason = _why_unloadable(run, row)
            if reason is None:
                continue
            if row > start:
                yield run.with_table(run.table[start:row])
            start = row + 1
            each = run.table[row]
            dropped.append(
                Dropped(
                    records.path,
                    int(each["position"]),
                    int(each["size"]),
                    "unloadable",
                    reason,
                    int(each["base_offset"]),
                    int(each["last_offset"]),
                )
            )
        if start < len(run.table):
            yield run.with_table(run.table[start:])

    def _put_in_order(
        self, records: RecordsFile, found: list[Piece], bounds: Bounds
    ) -> tuple[list[Piece], list[Piece]]:
        """Return the chain with the most records, and the batches outside of it."""
        # A comprehension would hold each run until the next one is read.
        runs = chain.from_iterable(piece.runs() for piece in found)
        stated = np.concatenate([*map(attrgetter("table"), runs)])
        table = with_proven_offsets(stated, bounds)
        for row in np.flatnonzero(table["base_offset"] != stated["base_offset"]).tolist():
            if self.is_copy is not None and self.is_copy(bounds.lower, stated[row]):
                table[row] = stated[row]  # its records belong where it states
        inside = bounds.include(table, bounds.lower)
        chosen = np.zeros(len(table), np.bool_)
        rows = np.flatnonzero(inside)
        chosen[rows] = in_chain(Ranges.of(table[rows]), bounds.lower)
        ordered: list[Piece] = []
        spare: list[Piece] = []
        for row in range(len(table)):
            run = BatchRun(b"", 0, BatchRows.of(stated[row : row + 1]))
            piece = next(rows_to_pieces(records, run, at_gaps=False))
            if not chosen[row]:
                spare.append(piece)
                continue
            if table["base_offset"][row] != stated["base_offset"][row]:
                piece = self._moved(piece, int(table["base_offset"][row]))
            append_piece(ordered, piece, across_gaps=self.is_compacted)
        return ordered, spare

    def _moved(self, piece: Piece, base_offset: Offset) -> Piece:
        """Return a batch rewritten at the offset that its neighbours prove."""
        data = base_offset.to_bytes(8, "big") + piece.read(8, piece.size - 8)
        end = base_offset + piece.next_offset - piece.base_offset
        moved = piece._replace(
            origin=None, position=0, base_offset=base_offset, next_offset=end, data=data
        )
        reason = (
            f"its header states offset {piece.base_offset}, but its neighbours leave only {base_offset} to"
            f" {end - 1} for its records: the result has it at these offsets"
        )
        self.dropped.append(piece.dropped("misplaced", reason, is_repaired=True))
        return moved

    def _note_stated_end(self, records: RecordsFile, dropped: list[Dropped]) -> None:
        """Note the end offset that a damaged last batch of the log states."""
        last = dropped[-1] if dropped else None
        if last is None or last.kind != DamageKind.CRC_MISMATCH:
            return
        if self.pieces and self.pieces[-1].next_offset > (last.first_offset or 0):
            return
        end = stated_end(records.file, last.position, last.first_offset)
        self.stated_end = max(self.stated_end, end or 0)


def _scan(records: RecordsFile, segment: LogSegment | None) -> Iterator[ScanItem]:
    if segment is not None:
        return segment.scan(0, max(segment.end, segment.tail_end), in_order=False)
    file, base = records.file, records.base_offset
    size = file.size()  # type: ignore[attr-defined]
    return scan(file, 0, size, path=records.path, next_offset=base, bounds=OffsetBounds(base))


def _end_before(dropped: list[Dropped], run: BatchRun) -> None:
    """End the offsets of damage at the start of the next run, which a wrapper's header does not state."""
    if not dropped or run.table["magic"][0] >= 2:
        return
    first, last = dropped[-1], run.base_offset - 1
    if first.last_offset is not None and first.first_offset is not None:
        dropped[-1] = first._replace(last_offset=min(first.last_offset, last))


def _damaged(records: RecordsFile, damage: Damage, expected: Offset, bounds: Bounds) -> Dropped:
    dropped = Dropped(
        records.path,
        damage.position,
        damage.length,
        damage.kind,
        damage.reason,
        damage.first_offset,
        damage.last_offset,
    )
    if damage.kind is DamageKind.ZERO_TAIL and bounds.last is not None and expected <= bounds.last:
        # Only the last segment is preallocated: in another one these bytes had batches.
        return dropped._replace(
            kind=DamageKind.ZEROS, first_offset=expected, last_offset=bounds.last
        )
    return dropped


def _why_unloadable(run: BatchRun, row: int) -> str | None:
    """Return why a broker does not load a log with this control batch; None if it does."""
    each = run.table[row]
    if each["producer_id"] == NO_PRODUCER_ID or not each["attributes"] & TRANSACTIONAL_MASK:
        return None
    start = int(each["position"]) - run.start_position
    data = memoryview(run.buffer)[start : start + int(each["size"])]
    try:
        batch = make_batch(data, file_position=int(each["position"]), path=None)
        record = next(iter(batch.records()), None)
        if record is None:
            return None
        key = parse_control_key(record.key)
        if key.type not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            return "a transaction's control record of an unknown type"
        parse_end_marker(key.type, record.value)
    except KafkaStorageError as error:
        return f"a control record that no broker can read: {error}"
    return None


def with_proven_offsets(table: Table, bounds: Bounds) -> Table:
    """Return the batches of a segment in file order, with the offsets that their neighbours prove.

    A batch is moved if it does not start at the end of its predecessor, and its successor starts
    exactly the batch's number of offsets after that end. The segment's base offset bounds the first
    batch; the next segment's base offset, or the log end of a clean stop, the last one.
    """
    base, last = table["base_offset"], table["last_offset"]
    span = last - base
    ends = table["position"] + table["size"]
    adjoins = np.concatenate(([table["position"][0] == 0], table["position"][1:] == ends[:-1]))
    before = np.concatenate(([bounds.lower], last[:-1] + 1))
    behind = np.concatenate((base[1:], [min(bounds.upper, bounds.furthest)]))
    adjoins_next = np.concatenate((adjoins[1:], [True]))
    proven = adjoins & adjoins_next & (base != before) & (behind - before == span + 1)
    proven &= table["magic"] >= 2
    rows = np.flatnonzero(proven)
    rows = rows[np.cumsum(table["size"][rows].astype("i8")) <= _MOST_MOVED]
    result = table.copy()
    result["base_offset"][rows] = before[rows]
    result["last_offset"][rows] = before[rows] + span[rows]
    return result
