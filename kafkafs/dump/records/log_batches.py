"""Batches of a records file as DumpLogSegments walks it, and on after the place where it stops.

A whole frame is shown also with a wrong checksum, an unknown magic or invalid offsets. Bytes without a frame
are a `Lost` item.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from engine import kernel
from engine.budgets import Budgets
from engine.columns.batch_table import BATCH_ROW, Table
from engine.columns.columns import Columns
from engine.files.source_files import SourceFile
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import BatchRun, Damage, scan
from engine.record.batch_frame import HEAD, HEADER, LOG_OVERHEAD, MAGIC_POSITION, UP_TO_MAGIC
from engine.units import MAX_INT64, Position

_SHOWN = (DamageKind.CRC_MISMATCH, DamageKind.BAD_OFFSETS, DamageKind.UNKNOWN_MAGIC)


class ShownBatches(NamedTuple):
    """Consecutive batches.

    Attributes:
        buffer, start_position: bytes of the file, and their position in it.
        table: rows of BATCH_ROW, as shown.
        readable: the same rows in a form that the kernel decodes: with a known magic and ordered offsets.
        damage: damage of the batch, which is then the only row; None for good batches.
    """

    buffer: bytes
    start_position: Position
    table: Table
    readable: Table
    damage: Damage | None = None

    @property
    def end_position(self) -> Position:
        """Position to go on from. A damaged batch ends where the next good one starts, whatever its length states."""
        if self.damage is not None:
            return self.damage.position + self.damage.length
        return int(self.table["position"][-1]) + int(self.table["size"][-1])

    def decoded(self, first: int, last: int, budgets: Budgets, enough: int) -> Columns:
        """Return the records of rows [first, last), up to about `enough` bytes."""
        rows, start = self.readable, self.start_position
        return kernel.decode(
            self.buffer, rows, first, last, start_position=start, budgets=budgets, enough=enough
        )


class Lost(NamedTuple):
    """Bytes that make no batch."""

    damage: Damage


def batches_of(
    file: SourceFile, end: Position, *, path: str, budgets: Budgets
) -> Iterator[ShownBatches | Lost]:
    """Yield all items in the first `end` bytes of a records file, in file order."""
    for item in scan(file, 0, end, path=path, budgets=budgets):
        if isinstance(item, BatchRun):
            yield ShownBatches(item.buffer, item.start_position, item.table, item.table)
        elif isinstance(item, Damage):
            yield _bad_batch(file, item, end, budgets) or Lost(item)
        del item  # free it before the next read: a batch may be as large as the budget


def _bad_batch(
    file: SourceFile, damage: Damage, end: Position, budgets: Budgets
) -> ShownBatches | None:
    """Return the damaged batch as its frame states it; None for an incomplete frame."""
    if damage.kind not in _SHOWN:
        return None
    head = file.read_at(damage.position, HEADER.size)
    if len(head) < UP_TO_MAGIC:
        return None
    _, length, _, magic = HEAD.unpack_from(head)
    size = length + LOG_OVERHEAD
    whole = LOG_OVERHEAD < size <= min(budgets.batch_bytes, end - damage.position)
    if magic < 0 or not whole:
        return None
    data = file.read_at(damage.position, size)
    readable = np.zeros(1, BATCH_ROW.dtype)
    known = decodable(data, magic)
    rows, _, _ = kernel.walk(known, readable, 0, damage.position, True, largest=budgets.batch_bytes)
    if not rows:
        return None
    table = readable.copy()
    table["magic"] = magic
    # Kafka reads the records of such a batch, too; the kernel requires ordered offsets.
    readable["last_offset"] = np.maximum(readable["last_offset"], readable["base_offset"])
    return ShownBatches(known, damage.position, table, readable, damage)


def decodable(data: bytes, magic: int) -> bytes:
    """Return batches whose first one has a magic, with one that the kernel knows: an unknown one is read as 2."""
    return data if magic <= 2 else data[:MAGIC_POSITION] + b"\2" + data[MAGIC_POSITION + 1 :]


def rows_within(table: Table, first: int, last: int) -> Table:
    """Return a mask of the rows that may have offsets from `first` to `last`.

    A wrapper of magic 0 or 1 states only its last offset: it counts unless that is below `first`.
    """
    mask = table["last_offset"] >= first
    if last < MAX_INT64:
        mask &= (table["base_offset"] <= last) | (table["magic"] < 2)
    return mask
