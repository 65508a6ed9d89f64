"""Arrow columns of records in the form that the kernel takes: a table of positions in one byte string."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from engine.coding.varint import encode_varint
from engine.columns.columns import RECORD_ROW, Columns
from kafkafs.spark.sink.arrow_spans import Column, sizes_of, spans_of
from kafkafs.spark.sink.frame_columns import RecordError

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
