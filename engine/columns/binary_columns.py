"""Keys, values or headers of many records in runs of bytes, as columnar formats keep them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.coding.layout import Buffer
from engine.coding.varint import read_varint
from engine.columns.columns import Columns
from engine.units import MAX_INT32

Indices: TypeAlias = npt.NDArray[np.int64]
BinaryColumn: TypeAlias = tuple[bytes | None, bytes, bytes]
"""A bit for each row that is not null, the lowest bit of a byte first, or None when none is null; int32
offsets in this machine's byte order, one more than there are rows; the bytes of all rows."""


def gather(columns: Columns, indices: Indices, field: str) -> BinaryColumn:
    """Keys or values of some records, as Arrow lays out a binary column.

    Args:
        columns: records.
        indices: which of them.
        field: "key" or "value".

    Raises:
        ValueError: another field, an index or a field outside, more than 2 GiB of bytes.
    """
    if field not in ("key", "value"):
        raise ValueError(f"no field {field!r} of bytes")
    starts, sizes = _places(columns, indices, field)
    spans = [
        None if size < 0 else columns.arena[start : start + size]
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
    ]
    return _column(spans, f"{field}s")


def gather_headers(
    columns: Columns, indices: Indices
) -> tuple[bytes | None, bytes, BinaryColumn, BinaryColumn]:
    """Headers of some records, as Arrow lays out lists of keys and values.

    Args:
        columns: records.
        indices: which of them.

    Returns:
        a bit for each record that has headers, or None when all have; int32 offsets into the keys and
        values that follow; keys; values.

    Raises:
        ValueError: an index or a header outside, more than 2 GiB of anything.
    """
    if len(indices) and (indices.min() < 0 or indices.max() >= len(columns)):
        raise ValueError("a header does not lie in the arena")
    table = columns.table[indices]
    starts, sizes = table["headers_start"], table["headers_size"].astype(np.int64)
    some = table["headers_count"] > 0
    if (some & ((starts < 0) | (sizes < 0) | (starts > len(columns.arena) - sizes))).any():
        raise ValueError("a header does not lie in the arena")
    try:
        found = [
            list(_headers(columns.arena[start : start + size], count))
            for start, size, count in zip(
                starts.tolist(), sizes.tolist(), table["headers_count"].tolist(), strict=True
            )
        ]
    except (ValueError, IndexError) as error:
        raise ValueError("a header does not lie in the arena") from error
    flat = [header for headers in found for header in headers]
    valid = None if some.all() else np.packbits(some, bitorder="little").tobytes()
    lists = np.concatenate([[0], np.cumsum([len(headers) for headers in found])]).astype(np.int32)
    keys = _column([key for key, _ in flat], "header keys")
    return valid, lists.tobytes(), keys, _column([value for _, value in flat], "header values")


def _headers(data: memoryview, count: int) -> Iterator[tuple[memoryview, memoryview | None]]:
    position = 0
    for _ in range(count):
        key, position = _field(data, position)
        if key is None:
            raise ValueError("a header without a key")
        value, position = _field(data, position)
        yield key, value


def _field(data: memoryview, position: int) -> tuple[memoryview | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    if size > len(data) - position:
        raise ValueError("a field is cut off")
    return data[position : position + size], position + size


def _column(spans: Sequence[Buffer | None], what: str) -> BinaryColumn:
    sizes = [0 if span is None else len(span) for span in spans]
    total = sum(sizes)
    if total > MAX_INT32:
        raise ValueError(f"{total} bytes of {what} do not fit into one column")
    offsets = np.zeros(len(sizes) + 1, np.int32)
    offsets[1:] = np.cumsum(sizes)
    valid = np.array([span is not None for span in spans], bool)
    bits = None if valid.all() else np.packbits(valid, bitorder="little").tobytes()
    return bits, offsets.tobytes(), b"".join(span for span in spans if span is not None)


def _places(
    columns: Columns, indices: npt.NDArray[np.int64], field: str
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    fine = len(indices) == 0 or (indices.min() >= 0 and indices.max() < len(columns))
    starts = columns.table[f"{field}_start"][indices if fine else []]
    sizes = columns.table[f"{field}_size"][indices if fine else []].astype(np.int64)
    bad = (sizes >= 0) & ((starts < 0) | (starts > len(columns.arena) - sizes))
    if not fine or bad.any():
        raise ValueError(f"a {field} does not lie in the arena")
    return starts, sizes
