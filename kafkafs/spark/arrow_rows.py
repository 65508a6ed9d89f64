"""Arrow record batches of decoded records: only the columns that a schema asks for are built."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.coding.compression import CompressionType
from engine.internal_topics.decoded_record import DecodedRecord, TopicDecoder
from engine.record.attributes import COMPRESSION_MASK, TIMESTAMP_TYPE_MASK
from engine.record.columns import Columns
from engine.units import Offset, TopicPartition
from kafkafs.spark.errors import malformed_timestamp

Indices: TypeAlias = npt.NDArray[np.int64]

MOST_ROWS = 10_000
MOST_BYTES = 16 * 1024 * 1024
MOST_MILLISECONDS = (1 << 63) // 1000 - 1
_NO_TIMESTAMP_TYPE = -1
_TRANSACTIONS = pa.array([None, "committed", "aborted", "open"], pa.string())
"""By engine.log.transactions.Fate."""
_CODECS = pa.array([codec.name.lower() for codec in CompressionType], pa.string())


@dataclass(frozen=True, slots=True)
class Rows:
    """Some records of a run of batches.

    Attributes:
        partition: whose they are.
        segment: base offset of the segment.
        columns: the records.
        table: BATCH_DTYPE rows, which `columns.row` counts into.
        fates: of each row of the table, or None when none is transactional.
        indices: which of the records, ascending.
        decoder: of an internal topic's records, when they are to be shown decoded.
    """

    partition: TopicPartition
    segment: Offset
    columns: Columns
    table: npt.NDArray[Any]
    fates: npt.NDArray[np.uint8] | None
    indices: Indices
    decoder: TopicDecoder | None = None

    def of_batch(self, field: str) -> npt.NDArray[Any]:
        """A field of the batch of each record."""
        column: npt.NDArray[Any] = self.table[field][self.columns.row[self.indices]]
        return column


def record_batches(schema: pa.Schema, rows: Rows) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at most MOST_ROWS, and about MOST_BYTES where a single record is not larger."""
    for part in _parts(rows):
        some = Rows(
            rows.partition, rows.segment, rows.columns, rows.table, rows.fates, part, rows.decoder
        )
        arrays = [_BUILDERS[name](some) for name in schema.names]
        if arrays:
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        else:
            yield rows_without_columns(len(part))


def rows_without_columns(count: int) -> pa.RecordBatch:
    """Rows that only count."""
    struct = pa.StructArray.from_buffers(pa.struct([]), count, [None])
    return pa.RecordBatch.from_struct_array(struct)


def one_row(schema: pa.Schema, known: Mapping[str, object]) -> pa.RecordBatch:
    """A row of what is known; all other columns are null."""
    if not schema.names:
        return rows_without_columns(1)
    return pa.RecordBatch.from_pylist(
        [{name: known.get(name) for name in schema.names}], schema=schema
    )


def _parts(rows: Rows) -> Iterator[Indices]:
    indices = rows.indices
    columns = rows.columns
    start = 0
    while start < len(indices):
        part = indices[start : start + MOST_ROWS]
        sizes = (
            columns.key_size[part] + columns.value_size[part] + columns.headers_size[part]
        ).astype(np.int64)
        ends = np.cumsum(sizes)
        if ends[-1] > MOST_BYTES:
            part = part[: max(int(ends.searchsorted(MOST_BYTES, "right")), 1)]
        yield part
        start += len(part)


# -- columns


def _bytes(rows: Rows, field: str) -> pa.Array:
    """The keys or values as one binary array; a size of -1 is null."""
    records = rows.columns.table
    starts: Indices = records[f"{field}_start"][rows.indices]
    sizes: Indices = records[f"{field}_size"][rows.indices].astype(np.int64)
    nulls: npt.NDArray[np.bool_] | None = sizes < 0
    if nulls is not None and nulls.any():
        if nulls.all():
            return pa.nulls(len(sizes), pa.binary())
        sizes = np.where(nulls, 0, sizes)
        # A null begins where what comes before it ends, so that starts ascend.
        ends = np.maximum.accumulate(np.where(nulls, 0, starts + sizes))
        starts = np.where(nulls, np.maximum(ends, starts[~nulls][0]), starts)
    else:
        nulls = None
    if (np.diff(starts) < sizes[:-1]).any():
        arena = rows.columns.arena
        spans = [
            bytes(arena[start : start + size]) for start, size in zip(starts, sizes, strict=True)
        ]
        return pa.array(spans, pa.binary(), mask=nulls)
    return _gathered(rows.columns.arena, starts, sizes, nulls)


def _gathered(
    arena: memoryview, starts: Indices, sizes: Indices, nulls: npt.NDArray[np.bool_] | None
) -> pa.Array:
    """Spans that ascend, gathered by Arrow: the even ones of the 2n-1 that cover the arena."""
    low = int(starts[0])
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2] = starts - low
    offsets[1::2] = starts + sizes - low
    data = pa.py_buffer(arena[low : int(starts[-1] + sizes[-1])])
    spans = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * len(starts) - 1, [None, pa.py_buffer(offsets), data]
    )
    return spans.take(pa.array(np.arange(0, 2 * len(starts), 2), mask=nulls))


def _key(rows: Rows) -> pa.Array:
    return _bytes(rows, "key") if rows.decoder is None else _decoded(rows, rows.decoder, "key")


def _value(rows: Rows) -> pa.Array:
    return _bytes(rows, "value") if rows.decoder is None else _decoded(rows, rows.decoder, "value")


def _decoded(rows: Rows, decoder: TopicDecoder, field: str) -> pa.Array:
    """What an internal topic's keys or values say, as JSON; bytes that say nothing stay as they are."""
    columns = rows.columns
    found = []
    for index in rows.indices.tolist():
        key, value = columns.key(index), columns.value(index)
        record: DecodedRecord = decoder.decode(key, value)
        said = record.key if field == "key" else record.value
        raw = key if field == "key" else value
        found.append(raw if said is None else json.dumps(said, separators=(",", ":")).encode())
    return pa.array(found, pa.binary())


def _timestamps(milliseconds: npt.NDArray[Any], rows: Rows) -> pa.Array:
    bad = np.flatnonzero(np.abs(milliseconds) > MOST_MILLISECONDS)
    if len(bad):
        place = int(bad[0])
        offset = int(rows.columns.offset[rows.indices[place]])
        raise malformed_timestamp(rows.partition, offset, int(milliseconds[place]))
    return pa.array(milliseconds * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))


def _timestamp_type(rows: Rows) -> pa.Array:
    is_append_time = (rows.of_batch("attributes") & TIMESTAMP_TYPE_MASK) != 0
    kinds = np.where(rows.of_batch("magic") == 0, _NO_TIMESTAMP_TYPE, is_append_time)
    return pa.array(kinds.astype(np.int32))


def _headers(rows: Rows) -> pa.Array:
    columns = rows.columns
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    counts = columns.headers_count[rows.indices]
    if not counts.any():
        return pa.nulls(len(counts), kind)
    found = [
        [
            {"key": header.key.decode("utf-8", "replace"), "value": header.value}
            for header in columns.headers(int(index))
        ]
        if count
        else None
        for index, count in zip(rows.indices, counts, strict=True)
    ]
    return pa.array(found, kind)


def _transaction(rows: Rows) -> pa.Array:
    if rows.fates is None:
        return pa.nulls(len(rows.indices), pa.string())
    return _TRANSACTIONS.take(pa.array(rows.fates[rows.columns.row[rows.indices]].astype(np.int32)))


def _codec(rows: Rows) -> pa.Array:
    return _CODECS.take(pa.array((rows.of_batch("attributes") & COMPRESSION_MASK).astype(np.int32)))


def _of_batch(field: str, kind: pa.DataType) -> Callable[[Rows], pa.Array]:
    dtype = kind.to_pandas_dtype()
    return lambda rows: pa.array(rows.of_batch(field).astype(dtype), kind)


_BUILDERS: dict[str, Callable[[Rows], pa.Array]] = {
    "key": _key,
    "value": _value,
    "topic": lambda rows: pa.repeat(pa.scalar(rows.partition.topic), len(rows.indices)),
    "partition": lambda rows: pa.repeat(
        pa.scalar(rows.partition.partition, pa.int32()), len(rows.indices)
    ),
    "offset": lambda rows: pa.array(rows.columns.offset[rows.indices]),
    "timestamp": lambda rows: _timestamps(rows.columns.timestamp[rows.indices], rows),
    "timestampType": _timestamp_type,
    "headers": _headers,
    "leaderEpoch": _of_batch("leader_epoch", pa.int32()),
    "producerId": _of_batch("producer_id", pa.int64()),
    "producerEpoch": _of_batch("producer_epoch", pa.int32()),
    "sequence": lambda rows: pa.array(rows.columns.sequence[rows.indices]),
    "transaction": _transaction,
    "codec": _codec,
    "segment": lambda rows: pa.repeat(pa.scalar(rows.segment, pa.int64()), len(rows.indices)),
    "batchPosition": _of_batch("position", pa.int64()),
    "_corrupt": lambda rows: pa.nulls(len(rows.indices), pa.string()),
}
