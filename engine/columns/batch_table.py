"""Table of batch headers: one row per batch, filled in one pass over a run of batches.

Shared by the compiled kernel and its Python twin. Positions are absolute in the file. For magic 0 and 1 a
row is one outer message: `base_offset` and `last_offset` are both the offset its header states
(for a compressed wrapper: the last inner message's offset), `record_count` is -1 and both timestamps are the
message's own (-1 for magic 0).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias, overload

from engine.arrays import np, npt
from engine.coding.layout import Buffer, Int8, Int16, Int32, Int64, Layout, UInt8, UInt16, UInt32
from engine.record.attributes import TRANSACTIONAL_MASK, has_flag, is_control
from engine.units import MAX_INT64

Table: TypeAlias = "npt.NDArray[Any]"


class BatchRow(NamedTuple):
    """Header of a batch in a table; the kernel maps a C struct with the fields in this order onto its 80 bytes."""

    position: Int64
    base_offset: Int64
    last_offset: Int64
    base_timestamp: Int64
    max_timestamp: Int64
    producer_id: Int64
    size: Int32  # bytes on disk, with the 12 of offset and length
    leader_epoch: Int32
    base_sequence: Int32
    record_count: Int32
    crc: UInt32
    attributes: Int16
    producer_epoch: Int16
    magic: Int8
    crc_ok: UInt8
    pad: UInt16
    pad2: UInt32


class KeptRow(NamedTuple):
    """What is left of a batch; the kernel maps a C struct onto it."""

    max_timestamp: Int64
    max_offset: Int64  # of the records that stay; of a batch that loses none the last offset
    size: Int32  # bytes of the batch that stays; 0: none
    count: Int32  # type: ignore[assignment]  # of the records that stay; hides tuple.count


BATCH_ROW: Final = Layout(BatchRow, "=")
KEPT_ROW: Final = Layout(KeptRow, "=")


def as_table(rows: Table | Buffer) -> Table:
    """Return rows of BATCH_ROW as a table; bytes are not copied."""
    return rows if isinstance(rows, np.ndarray) else np.frombuffer(rows, BATCH_ROW.dtype)


@overload
def holds_control(table: np.void) -> bool: ...
@overload
def holds_control(table: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]: ...
def holds_control(table: Any) -> Any:
    """Tell which batches of a table hold control records; of a row, whether it does."""
    return is_control(table["magic"], table["attributes"])


def holds_transactional(table: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Tell which batches of a table belong to a transaction; of a row, whether it does."""
    return has_flag(table["magic"], table["attributes"], TRANSACTIONAL_MASK)


def good_count(table: Table) -> int:
    """Return how many batches from the first on have the right checksum and possible offsets, in any order."""
    base, last = table["base_offset"], table["last_offset"]
    good = (table["crc_ok"] != 0) & (base >= 0) & (last >= base) & (last < MAX_INT64)
    bad = np.flatnonzero(~good)
    return int(bad[0]) if len(bad) else len(table)


class BatchRows:
    """Headers of batches, as the kernel has filled them in.

    One header is a named tuple, for a look-up; all are a numpy table, which is made at the first request.

    Args:
        data: the bytes of whole rows of BATCH_ROW.
    """

    __slots__ = ("_table", "data")

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self._table: Table | None = None

    @classmethod
    def of(cls, table: Table) -> BatchRows:
        """Return the rows of a table."""
        rows = cls(np.ascontiguousarray(table).view(np.uint8).data)
        rows._table = table
        return rows

    def __len__(self) -> int:
        return len(self.data) // BATCH_ROW.size if self._table is None else len(self._table)

    def __getitem__(self, row: int) -> BatchRow:
        """Return one header; negative numbers count from the end."""
        count = len(self)
        if not -count <= row < count:
            raise IndexError(f"row {row} of {count}")
        return BATCH_ROW.unpack(self.data, row % count * BATCH_ROW.size)

    def part(self, first: int, stop: int) -> BatchRows:
        """Return the rows [first, stop)."""
        if (first, stop) == (0, len(self)):
            return self
        size = BATCH_ROW.size
        return BatchRows(self.data[first * size : stop * size])

    @property
    def table(self) -> Table:
        """The headers as a numpy table."""
        known = self._table
        if known is None:
            known = self._table = as_table(self.data)
        return known


class Stop(IntEnum):
    """Reason why a walk over batches ended."""

    TABLE_FULL = 0
    NEED_MORE = 1
    LENGTH_TOO_SMALL = 2
    UNKNOWN_MAGIC = 3
    TOO_LARGE = 4


class HeaderStop(IntEnum):
    """Reason why a walk over headers ended.

    Members:
        DONE: all batches up to the end, or as many as asked for, are walked.
        CROSSES: some of the next batch's offsets are wanted, others are not.
        ODD: the next header is impossible, unreadable, or has a bit that ends the walk.
    """

    DONE = 0
    CROSSES = 1
    ODD = 2


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
