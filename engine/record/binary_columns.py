"""Keys or values of many records in one run of bytes, as columnar formats keep them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from engine.record.columns import Columns
from engine.units import MAX_INT32


def gather(
    columns: Columns, indices: npt.NDArray[np.int64], field: str
) -> tuple[bytes | None, bytes, bytes]:
    """Keys or values of some records: validity, offsets and data of a binary column of Arrow's.

    Args:
        columns: records.
        indices: which of them.
        field: "key" or "value".

    Returns:
        a bit for each that is not null, the lowest bit of a byte first, or None when none is null;
        int32 offsets in this machine's byte order, one more than there are records; the bytes.

    Raises:
        ValueError: another field, an index or a field outside, more than 2 GiB of bytes.
    """
    if field not in ("key", "value"):
        raise ValueError(f"no field {field!r} of bytes")
    starts, sizes = _places(columns, indices, field)
    nulls = sizes < 0
    kept = np.where(nulls, 0, sizes)
    total = int(kept.sum())
    if total > MAX_INT32:
        raise ValueError(f"{total} bytes of {field}s do not fit into one column")
    offsets = np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)
    data = b"".join(
        columns.arena[start : start + size]
        for start, size in zip(starts.tolist(), kept.tolist(), strict=True)
        if size
    )
    valid = np.packbits(~nulls, bitorder="little").tobytes() if nulls.any() else None
    return valid, offsets.tobytes(), data


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
