"""Encoding of records into batches of magic 2: borders of batches, and their bytes.

A batch also covers the offsets between the batch before and its first record, like a compacted batch: a check finds
nothing missing, and consumers pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine import kernel
from engine.coding.compression import CompressionType, compress
from engine.coding.varint import encode_varint
from engine.columns.columns import RECORD_ROW, Columns
from engine.record.attributes import TimestampType, compute_attributes
from engine.record.batch_frame import CURRENT_MAGIC, BatchHeader
from engine.record.encoding.batch_encoding import encode_batch
from engine.units import (
    MAX_INT32,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Offset,
    Timestamp,
)
from kafkafs.spark.sink.arrow_spans import Column, sizes_of, spans_of
from kafkafs.spark.sink.frame_columns import RecordError

_BESIDE = 12
"""Bytes of a record besides its fields, about: an estimate suffices to end batches."""


_COMMON_SIZES = 2048
"""Number of sizes, from null (-1) on, with cached varints."""


def columns_of(records: pa.RecordBatch) -> Columns:
    """Convert records of RECORD_SCHEMA with offsets; the column `row` stays 0.

    Raises:
        RecordError: a header has no key.
    """
    table = np.zeros(len(records), RECORD_ROW.dtype)
    table["offset"] = records["offset"].to_numpy()
    table["timestamp"] = records["timestamp"].to_numpy()
    table["sequence"] = -1
    parts: list[memoryview] = []
    at = 0
    for field in ("key", "value"):
        at = _place(table, field, records[field], parts, at)
    _place_headers(table, records["headers"], parts, at)
    return Columns(table, memoryview(b"".join(parts)), [], 0)


def _place(table: Column, field: str, column: pa.Array, parts: list[memoryview], at: int) -> int:
    """Note the positions of the values of a binary column; return the position after them."""
    offsets, data = spans_of(column)
    low, high = int(offsets[0]), int(offsets[-1])
    parts.append(data[low:high].data)
    table[f"{field}_start"] = offsets[:-1] - low + at
    table[f"{field}_size"] = sizes_of(column)
    return at + high - low


def _place_headers(table: Column, headers: pa.Array, parts: list[memoryview], at: int) -> None:
    if headers.null_count == len(headers):
        return
    counts = headers.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    encoded = encode_headers(headers.flatten())
    sizes, data = spans_of(encoded)
    ends = np.cumsum(counts)
    starts = sizes[ends - counts]
    parts.append(data[int(sizes[0]) : int(sizes[-1])].data)
    table["headers_start"] = starts - int(sizes[0]) + at
    table["headers_size"] = sizes[ends] - starts
    table["headers_count"] = counts


def encode_headers(headers: pa.StructArray) -> pa.BinaryArray:
    """Encode each header as in a record: size and bytes of its key, size and bytes of its value.

    Raises:
        RecordError: a header is null, or its key is.
    """
    keys, values = headers.flatten()
    keys = keys.cast(pa.binary())
    if keys.null_count:
        raise RecordError("a header without a key present in the data")
    spans = pa.concat_arrays([_varints(keys), keys, _varints(values), values.fill_null(b"")])
    count = len(headers)
    order = np.arange(4 * count).reshape(4, count).T.reshape(-1)
    # In that order the bytes are those of the records; the four spans of a header then become one.
    taken = spans.take(pa.array(order))
    offsets, data = spans_of(taken)
    joined = offsets[::4].astype(np.int32)
    return pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(joined), pa.py_buffer(data)]
    )


def _varints(column: pa.Array) -> pa.BinaryArray:
    """Return the size of each value as a varint; -1 for null."""
    sizes = sizes_of(column)
    common = _common_varints()
    if int(sizes.max(initial=0)) < _COMMON_SIZES - 1:
        return common.take(pa.array(sizes + 1))
    return pa.array([encode_varint(size) for size in sizes.tolist()], pa.binary())


@cache
def _common_varints() -> pa.BinaryArray:
    return pa.array([encode_varint(size) for size in range(-1, _COMMON_SIZES - 1)], pa.binary())


class EncodedBatch(NamedTuple):
    """A batch with the facts that its segment needs."""

    data: bytearray
    base_offset: Offset
    last_offset: Offset
    max_timestamp: Timestamp
    epoch: int
    records: int


class _Piece(NamedTuple):
    """First offset of a batch, and its rows [start, stop)."""

    base_offset: Offset
    start: int
    stop: int


def record_sizes(records: pa.RecordBatch) -> Column:
    """Return the bytes of each record before compression, about; int64."""
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
    """Encoder of records into batches.

    Args:
        batch_bytes: bytes of records after which a batch ends.
        level: compression level of the codec; None for Kafka's default.
    """

    def __init__(self, batch_bytes: int, level: int | None) -> None:
        self._batch_bytes = batch_bytes
        self._level = level

    def encode(
        self, records: pa.RecordBatch, follows: Offset | None, *, is_last: bool
    ) -> tuple[list[EncodedBatch], pa.RecordBatch]:
        """Return full batches, and the records that are left for the next batch.

        Args:
            records: records of RECORD_SCHEMA and one partition, offsets set and ascending.
            follows: one past the last offset of the batch before; None for the first batch.
            is_last: encode all records.
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
        """Yield the borders of batches; the last batch may be incomplete."""
        ends = np.cumsum(record_sizes(records))
        offsets = records["offset"].to_numpy()
        borders = [*_changes(records).tolist(), len(records)]
        start = 0
        for border in borders:
            while start < border:
                before = int(ends[start - 1]) if start else 0
                stop = int(ends.searchsorted(before + self._batch_bytes, "right"))
                first = int(offsets[start])
                # Offset deltas in a batch have 31 bits.
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
    """Return the rows that must begin a new batch."""
    changes = np.zeros(max(len(records) - 1, 0), bool)
    for name in ("epoch", "codec", "append_time"):
        changes |= np.diff(records[name].to_numpy()) != 0
    append_times = records["append_time"].to_numpy() != 0
    if append_times.any():
        # With LogAppendTime all records of a batch have its largest timestamp.
        changes |= append_times[1:] & (np.diff(records["timestamp"].to_numpy()) != 0)
    return np.flatnonzero(changes) + 1
