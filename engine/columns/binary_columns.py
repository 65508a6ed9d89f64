"""Keys, values or headers of many records gathered into one buffer each, as columnar formats store them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from engine.arrays import np, npt
from engine.coding.layout import Buffer
from engine.coding.varint import read_varint
from engine.columns.columns import Columns
from engine.units import MAX_INT32

Indices: TypeAlias = "npt.NDArray[np.int64]"
BinaryColumn: TypeAlias = tuple[bytes | None, bytes, bytes]
"""Validity bitmap, offsets and bytes of an Arrow binary column.

The bitmap has a bit for each row, set when the row is not null, lowest bit of a byte first; it is
None when no row is null. The offsets are int32 in native byte order, one more than rows. The bytes
are those of all rows.
"""


def gather(columns: Columns, indices: Indices, field: str) -> BinaryColumn:
    """Return the keys or values of some records as an Arrow binary column.

    Args:
        columns: records.
        indices: indices of the records to gather.
        field: "key" or "value".

    Raises:
        ValueError: the field is another, an index or a field is out of bounds, or there are more
            than 2 GiB of bytes.
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
    """Return the headers of some records as Arrow list columns of keys and values.

    Args:
        columns: records.
        indices: indices of the records to gather.

    Returns:
        validity bitmap with a bit for each record that has headers, or None when all have; int32
            offsets into the keys and
        values that follow; keys; values.

    Raises:
        ValueError: an index or a header is out of bounds, or a column has more than 2 GiB.
    """
    if len(indices) and (indices.min() < 0 or indices.max() >= len(columns)):
        raise ValueError("a header is outside the arena")
    table = columns.table[indices]
    starts, sizes = table["headers_start"], table["headers_size"].astype(np.int64)
    some = table["headers_count"] > 0
    if (some & ((starts < 0) | (sizes < 0) | (starts > len(columns.arena) - sizes))).any():
        raise ValueError("a header is outside the arena")
    try:
        found = [
            list(_headers(columns.arena[start : start + size], count))
            for start, size, count in zip(
                starts.tolist(), sizes.tolist(), table["headers_count"].tolist(), strict=True
            )
        ]
    except (ValueError, IndexError) as error:
        raise ValueError("a header is outside the arena") from error
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
        raise ValueError(f"a {field} is outside the arena")
    return starts, sizes
