"""The records of a partly unreadable batch that lie on bytes which can be read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine import kernel
from engine.columns.batch_table import BATCH_DTYPE
from engine.files.unreadable import FilledFile, Stretch
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import HEADER
from engine.units import Offset

_MOST_RANGES = 100


def unproven_offsets(
    file: FilledFile, row: np.void, stretches: Sequence[Stretch]
) -> tuple[tuple[Offset, Offset], ...]:
    """The first and last offsets of runs of records that touch no unreadable stretch, at most 100 runs.

    Nothing proves these records: the batch's checksum covers the bytes that cannot be read. A compressed
    batch has none, and of magic 0 and 1 a batch that is not compressed is one record.

    Args:
        file: of the batch.
        row: the batch's row of BATCH_DTYPE.
        stretches: those that touch the batch.
    """
    if row["magic"] < 2 or row["attributes"] & COMPRESSION_MASK:
        return ()
    position, size = int(row["position"]), int(row["size"])
    table = np.array([row], BATCH_DTYPE)
    columns = kernel.decode(file.read_at(position, size), table, 0, 1, start_position=position)
    records = columns.table
    ends = position + records["headers_start"] + records["headers_size"]
    starts = np.concatenate(([position + HEADER.size], ends[:-1])) if len(ends) else ends
    can_be_read = np.ones(len(ends), bool)
    for stretch in stretches:
        can_be_read &= (ends <= stretch.position) | (starts >= stretch.end)
    offsets = columns.offset[can_be_read]
    if not len(offsets):
        return ()
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    firsts = np.concatenate(([0], breaks + 1))[:_MOST_RANGES]
    lasts = np.concatenate((breaks, [len(offsets) - 1]))[:_MOST_RANGES]
    return tuple(zip(offsets[firsts].tolist(), offsets[lasts].tolist(), strict=True))
