"""Positions and sizes of values in Arrow's binary columns."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column: TypeAlias = npt.NDArray[Any]


def spans_of(column: pa.Array) -> tuple[Column, Column]:
    """Return the starts of a binary column's values in its bytes (int64, plus the last end), and these bytes (uint8)."""
    _, offsets, data = column.buffers()
    if offsets is None or not len(column):
        return np.zeros(len(column) + 1, np.int64), np.empty(0, np.uint8)
    found = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    values = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return found.astype(np.int64), values


def sizes_of(column: pa.Array) -> Column:
    """Return the bytes of each value of a binary column, int64; -1 for null."""
    sizes = np.diff(spans_of(column)[0])
    if column.null_count:
        sizes[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return sizes
