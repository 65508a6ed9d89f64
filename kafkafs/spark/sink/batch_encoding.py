"""Records in, batches of magic 2 out: where one ends and the next begins, and their bytes.

A batch also has the offsets between the batch before and its own first record, as batches have that compaction took
records from: a check sees that nothing is missing, and no reader is held up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine import kernel
from engine.coding.compression import CompressionType, compress
from engine.columns.columns import Columns
from engine.record.attributes import TimestampType, compute_attributes
from engine.record.batch_frame import CURRENT_MAGIC, BatchHeader
from engine.units import (
    MAX_INT32,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Offset,
    Timestamp,
)
from engine.writing.records.encoding import encode_batch
from kafkafs.spark.sink.arrow_spans import Column, sizes_of
from kafkafs.spark.sink.record_columns import columns_of

_BESIDE = 12
"""What a record takes beside its fields, about: an estimate suffices to end batches."""


class EncodedBatch(NamedTuple):
    """A batch and what its segment has to know of it."""

    data: bytearray
    base_offset: Offset
    last_offset: Offset
    max_timestamp: Timestamp
    epoch: int
    records: int


class _Piece(NamedTuple):
    """The first offset of a batch, and its rows [start, stop)."""

    base_offset: Offset
    start: int
    stop: int


def record_sizes(records: pa.RecordBatch) -> Column:
    """Bytes of each record before compression, about; int64."""
    found = np.full(len(records), _BESIDE, np.int64)
    for name in ("key", "value"):
        found += sizes_of(records[name]).clip(0)
    headers = records["headers"]
    if headers.null_count < len(headers):
        counts = headers.value_lengths().fill_null(0).to_numpy().astype(np.int64)
        keys, values = headers.flatten().flatten()
        each = sizes_of(keys.cast(pa.binary())).clip(0) + sizes_of(values).clip(0) + 2
        ends = np.cumsum(counts)
        sums = np.concatenate([[0], np.cumsum(each)])
        found += sums[ends] - sums[ends - counts]
    return found


class BatchEncoder:
    """Cuts records into batches and encodes them.

    Args:
        batch_bytes: after which a batch ends.
        level: of the codec, None for Kafka's default.
    """

    def __init__(self, batch_bytes: int, level: int | None) -> None:
        self._batch_bytes = batch_bytes
        self._level = level

    def encode(
        self, records: pa.RecordBatch, follows: Offset | None, *, is_last: bool
    ) -> tuple[list[EncodedBatch], pa.RecordBatch]:
        """Full batches, and the records that are left for the next.

        Args:
            records: of RECORD_SCHEMA and one partition, offsets set and ascending.
            follows: one past the last offset of the batch before; None when there is none.
            is_last: leave none.
        """
        pieces = list(self._pieces(records, follows))
        if not is_last and pieces:
            rest = records.slice(pieces.pop().start)
        else:
            rest = records.slice(len(records))
        if not pieces:
            return [], rest
        columns = columns_of(records.slice(0, pieces[-1].stop))
        kinds = {name: records[name].to_numpy() for name in ("epoch", "codec", "append_time")}
        return [self._batch(columns, kinds, piece) for piece in pieces], rest

    def _pieces(self, records: pa.RecordBatch, follows: Offset | None) -> Iterator[_Piece]:
        """What batches are made of; the last one may go on."""
        ends = np.cumsum(record_sizes(records))
        offsets = records["offset"].to_numpy()
        borders = [*_changes(records).tolist(), len(records)]
        start = 0
        for border in borders:
            while start < border:
                before = int(ends[start - 1]) if start else 0
                stop = int(ends.searchsorted(before + self._batch_bytes, "right"))
                first = int(offsets[start])
                # A batch counts its offsets in 31 bits.
                base = first if follows is None or first - follows > MAX_INT32 else follows
                near = int(offsets.searchsorted(base + MAX_INT32, "right"))
                stop = min(max(stop, start + 1), near, border)
                yield _Piece(base, start, stop)
                follows = int(offsets[stop - 1]) + 1
                start = stop

    def _batch(self, columns: Columns, kinds: dict[str, Column], piece: _Piece) -> EncodedBatch:
        base, start, stop = piece
        table = columns.table[start:stop]
        last = int(table["offset"][-1])
        base_timestamp, max_timestamp = (
            int(table["timestamp"][0]),
            int(table["timestamp"].max()),
        )
        codec = CompressionType(int(kinds["codec"][start]))
        epoch = int(kinds["epoch"][start])
        plain = kernel.encode_records(
            Columns(table, columns.arena, [], 0), np.ones(len(table), bool), base, base_timestamp
        )
        is_append_time = bool(kinds["append_time"][start])
        header = BatchHeader(
            base_offset=base,
            length=0,
            partition_leader_epoch=epoch,
            magic=CURRENT_MAGIC,
            crc=0,
            attributes=compute_attributes(
                codec,
                TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
            ),
            last_offset_delta=last - base,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=len(table),
        )
        data = encode_batch(header, compress(codec, plain, level=self._level))
        return EncodedBatch(data, base, last, max_timestamp, epoch, len(table))


def _changes(records: pa.RecordBatch) -> Column:
    """Rows that cannot be in the batch of the row before."""
    changes = np.zeros(max(len(records) - 1, 0), bool)
    for name in ("epoch", "codec", "append_time"):
        changes |= np.diff(records[name].to_numpy()) != 0
    append_times = records["append_time"].to_numpy() != 0
    if append_times.any():
        # Under append time all records of a batch have its largest timestamp.
        changes |= append_times[1:] & (np.diff(records["timestamp"].to_numpy()) != 0)
    return np.flatnonzero(changes) + 1
