"""Cut a log to offsets, or to the records of a period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.columns.batch_table import holds_control
from engine.errors import KafkaStorageError
from engine.rebuild.assembly.pieces import Dropped, Piece, rows_to_pieces
from engine.record.attributes import COMPRESSION_MASK, TimestampType
from engine.record.default_records import increment_sequence
from engine.record.encoding.batch_builder import BatchBuilder
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.record import Record
from engine.record.record_batch import RecordBatch, make_batch
from engine.units import NO_SEQUENCE, Offset, Timestamp


class CutLog(NamedTuple):
    """A part of a log: its pieces, and the dropped ones."""

    pieces: list[Piece]
    dropped: list[Dropped]


def cut(
    pieces: Sequence[Piece], start: Offset, stop: Offset, *, whole_batches: bool, kind: str
) -> CutLog:
    """Return the records of [start, stop).

    Args:
        pieces: in offset order, not overlapping.
        start, stop: offsets, `stop` exclusive.
        whole_batches: keep a batch across a bound whole; otherwise it is rewritten.
        kind: `Dropped.kind` of dropped records.
    """
    selection = _Selection(start, stop, whole_batches, kind)
    made = CutLog([], [])
    for piece in pieces:
        if piece.next_offset <= start or (piece.base_offset >= stop and not piece.is_legacy):
            made.dropped.append(selection.outside(piece))
        elif start <= piece.base_offset and piece.next_offset <= stop and not piece.is_legacy:
            made.pieces.append(piece)
        else:
            for part in _parts(piece, start, stop):
                selection.take(part, made)
    return made


def first_at_or_after(pieces: Sequence[Piece], timestamp: Timestamp) -> Offset | None:
    """Return the offset of the first record with a timestamp at or after a time, in offset order;
    None without one.

    Control records do not count: a transaction's marker has the broker's clock.
    """
    for piece in pieces:
        for run in piece.runs():
            fits = (run.table["max_timestamp"] >= timestamp) & ~holds_control(run.table)
            for row in np.flatnonzero(fits).tolist():
                columns = run.decoded(row)
                late = np.flatnonzero(columns.timestamp >= timestamp)
                if len(late):
                    return int(columns.offset[late[0]])
                del columns
            del run  # free it before the next one is read: a batch may be as large as the budget
    return None


def _parts(piece: Piece, start: Offset, stop: Offset) -> list[Piece]:
    """Return the piece in parts: below the bounds, each batch across a bound, between the bounds, above."""
    if piece.origin is None:
        return [piece]
    parts: list[Piece] = []
    for run in piece.runs():
        base, last = run.table["base_offset"], run.table["last_offset"]
        is_edge = ((base < start) & (last >= start)) | ((base < stop) & (last >= stop))
        wrapper = (run.table["magic"] < 2) & (run.table["attributes"] & COMPRESSION_MASK != 0)
        is_edge |= wrapper & (last >= start)
        side = np.where(last < start, 0, np.where(base >= stop, 2, 1))
        breaks = is_edge[1:] | is_edge[:-1] | (side[1:] != side[:-1])
        edges = np.concatenate(([0], np.flatnonzero(breaks) + 1, [len(base)]))
        for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            part = run.with_table(run.table[first:end])
            parts += rows_to_pieces(piece.origin, part, at_gaps=False)
        del run, part  # free it before the next one is read: a batch may be as large as the budget
    return parts


class _Selection(NamedTuple):
    """Records to keep; see `cut`."""

    start: Offset
    stop: Offset
    whole_batches: bool
    kind: str

    def take(self, part: Piece, into: CutLog) -> None:
        """Keep a part inside the bounds, or the records inside the bounds of a part that is one batch."""
        start, stop = self.start, self.stop
        is_above = part.base_offset >= stop and not (part.is_legacy and part.batches == 1)
        if part.next_offset <= start or is_above:
            into.dropped.append(self.outside(part))
            return
        is_inside = start <= part.base_offset and part.next_offset <= stop
        if (is_inside and not part.is_legacy) or part.batches != 1:
            into.pieces.append(part)
            return
        try:
            made = cut_batch(part.read(0, part.size), start, stop)
        except (KafkaStorageError, ValueError) as error:
            into.dropped.append(part.dropped("cannot_be_cut", f"it cannot be cut: {error}"))
            return
        if made is None:
            into.dropped.append(self.outside(part))
        elif self.whole_batches or not made.data:
            into.pieces.append(part)
        else:
            into.pieces.append(made._replace(epoch=part.epoch, is_legacy=part.is_legacy))

    def outside(self, piece: Piece) -> Dropped:
        """Return a piece outside of the bounds as dropped."""
        return piece.dropped(self.kind, _REASONS[self.kind])


def cut_batch(data: bytes, start: Offset, stop: Offset) -> Piece | None:
    """Return a batch rewritten with only its records of [start, stop), otherwise unchanged.

    Returns:
        None without such records; a piece without data if all its records are inside.

    Raises:
        KafkaStorageError: the records cannot be read.
        ValueError: no batch can be made of the records.
    """
    batch = make_batch(data, file_position=0, path=None)
    records = list(batch.records())
    inside = [record for record in records if start <= record.offset < stop]
    if not inside:
        return None
    if len(inside) == len(records):
        return Piece(None, 0, 0, 0, 0, -1, 1, 0)
    made = built(batch, inside, max(batch.base_offset, start) if batch.magic >= 2 else start)
    again = list(make_batch(made, file_position=0, path=None).records())
    if [record_facts(record) for record in again] != [record_facts(record) for record in inside]:
        raise ValueError("its records would not be the same")
    base = inside[-1].offset if batch.magic < 2 else max(batch.base_offset, start)
    end = inside[-1].offset + 1
    return Piece(None, 0, len(made), base, end, -1, 1, len(inside), batch.magic < 2, made)


def built(batch: RecordBatch, records: list[Record], base_offset: Offset) -> bytes:
    """Return a batch like another one with some of its records. Raises ValueError if no batch can be made of them.

    Args:
        base_offset: that of the new batch, of magic 2.
    """
    sequence = batch.base_sequence
    if sequence != NO_SEQUENCE:
        sequence = increment_sequence(sequence, base_offset - batch.base_offset)
    kind = batch.timestamp_type
    builder = BatchBuilder(
        magic=batch.magic,
        compression=batch.compression,
        timestamp_type=kind,
        base_offset=base_offset if batch.magic >= 2 else records[0].offset,
        log_append_time=batch.max_timestamp if kind is TimestampType.LOG_APPEND_TIME else -1,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=sequence,
        is_transactional=batch.is_transactional,
        is_control_batch=batch.is_control,
        partition_leader_epoch=batch.leader_epoch,
        delete_horizon_ms=batch.delete_horizon_ms,
    )
    with builder:
        for record in records:
            simple = SimpleRecord(record.key, record.value, record.timestamp, record.headers)
            builder.append_unchecked_with_offset(record.offset, simple)
        return bytes(builder.build().buffer)


def record_facts(record: Record) -> tuple[object, ...]:
    """Return all that is told of a record but its place."""
    return (
        *(record.offset, record.timestamp, record.timestamp_type, record.key, record.value),
        *(record.headers, record.sequence, record.leader_epoch),
    )


_REASONS = {
    "below_log_start": "records below the log start",
    "outside": "records outside of the selected range",
}
