"""Table of batch headers: one row per batch, filled in one pass over a run of batches.

Shared by the compiled kernel and its Python twin. Positions are absolute in the file. For magic 0 and 1 a
row is one outer message: `base_offset` and `last_offset` are both the offset its header states
(for a compressed wrapper: the last inner message's offset), `record_count` is -1 and both timestamps are the
message's own (-1 for magic 0).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.record.attributes import CONTROL_MASK

BATCH_DTYPE = np.dtype(
    [
        ("position", "i8"),
        ("base_offset", "i8"),
        ("last_offset", "i8"),
        ("base_timestamp", "i8"),
        ("max_timestamp", "i8"),
        ("producer_id", "i8"),
        ("size", "i4"),  # bytes on disk, with the 12 of offset and length
        ("leader_epoch", "i4"),
        ("base_sequence", "i4"),
        ("record_count", "i4"),
        ("crc", "u4"),
        ("attributes", "i2"),
        ("producer_epoch", "i2"),
        ("magic", "i1"),
        ("crc_ok", "u1"),
        ("pad", "u2"),
        ("pad2", "u4"),
    ],
    align=True,
)
"""80 bytes a row; the kernel maps a C struct with the fields in this order onto it."""


KEPT_DTYPE = np.dtype(
    [
        ("max_timestamp", "i8"),
        (
            "max_offset",
            "i8",
        ),  # of the records that stay; of a batch that loses none the last offset
        ("size", "i4"),  # bytes of the batch that stays; 0: none
        ("count", "i4"),  # of the records that stay
    ],
    align=True,
)
"""What is left of a batch; the kernel maps a C struct onto it."""


def holds_control(table: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Tell which batches of a table hold control records."""
    found: npt.NDArray[np.bool_] = (table["magic"] >= 2) & (table["attributes"] & CONTROL_MASK != 0)
    return found


class Stop(IntEnum):
    """Reason why a walk over batches ended."""

    TABLE_FULL = 0
    NEED_MORE = 1
    LENGTH_TOO_SMALL = 2
    UNKNOWN_MAGIC = 3
    TOO_LARGE = 4


class Problem(IntEnum):
    """Reason why a batch with a valid checksum cannot be decoded, in whole or in part."""

    UNKNOWN_CODEC = 1
    CODEC_MISSING = 2
    DECOMPRESSION = 3
    LIMIT = 4
    INVALID_RECORD = 5
    RECORD_COUNT = 6
    LEFTOVER_BYTES = 7
    INVALID_HEADER = 8  # last offset delta or record count below zero


class BatchProblem(NamedTuple):
    """A batch that was not decoded whole: its `row` in the table, the index of the failing record, the reason."""

    row: int
    code: Problem
    record_index: int
    detail: str
