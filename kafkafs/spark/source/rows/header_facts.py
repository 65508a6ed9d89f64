"""What batches' headers say of their records; compressed messages of magic 0 and 1 say too little, and are inflated."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.budgets import Budgets
from engine.log.segment.scan import BatchRun
from engine.record.attributes import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
)
from engine.units import NO_TIMESTAMP
from kafkafs.spark.source.planning.splits import Split

Table: TypeAlias = npt.NDArray[Any]
Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_BEST_CODEC = 4


class HeaderFacts(NamedTuple):
    """Of each batch of a table.

    Attributes:
        base_offset: of its first record.
        records: how many; what does not decode of a compressed message of magic 0 or 1 does not count.
    """

    base_offset: Numbers
    records: Numbers

    def of(self, rows: Flags) -> HeaderFacts:
        """Those of some batches."""
        return HeaderFacts(self.base_offset[rows], self.records[rows])


def header_facts(run: BatchRun, budgets: Budgets) -> HeaderFacts:
    """The facts of a run's batches."""
    table = run.table
    base = table["base_offset"].astype(np.int64)
    records = table["record_count"].astype(np.int64)
    old = table["magic"] < 2
    if old.any():
        records[old] = 1
        wrappers = np.flatnonzero(old & is_compressed(table))
        records[wrappers] = 0
        for columns in run.columns(table[wrappers], budgets):
            rows, first, counts = np.unique(columns.row, return_index=True, return_counts=True)
            # Records of one message do not come in two parts.
            base[wrappers[rows]] = columns.offset[first]
            records[wrappers[rows]] = counts
    return HeaderFacts(base, records)


def own_batches(split: Split, table: Table, facts: HeaderFacts) -> Flags:
    """The batches that a split has to tell of: those that end in its offsets, and one across the end of them all."""
    last = table["last_offset"]
    own: Flags = (last >= split.start) & (last < split.stop)
    if split.is_last:
        own |= (last >= split.stop) & (facts.base_offset < split.stop)
    return own


def countable(split: Split, table: Table, budgets: Budgets) -> Flags:
    """The batches of which all records are wanted, and whose header alone says how many they are."""
    base, last, count = table["base_offset"], table["last_offset"], table["record_count"]
    codec = table["attributes"] & COMPRESSION_MASK
    told = (count >= 0) & (count <= last - base + 1) & (count <= budgets.records_per_batch)
    told &= (codec <= _BEST_CODEC) & (table["magic"] == 2)
    told |= (table["magic"] < 2) & (codec == 0)
    inside: Flags = told & (base >= split.start) & (last < split.stop)
    return inside


def records_in(table: Table) -> int:
    """How many records there are in batches that are countable."""
    return int(np.where(table["magic"] < 2, 1, table["record_count"]).sum())


def is_compressed(table: Table) -> Flags:
    """Of each batch."""
    compressed: Flags = (table["attributes"] & COMPRESSION_MASK) != 0
    return compressed


def is_control(table: Table) -> Flags:
    """Of each batch."""
    return has_flag(table, CONTROL_MASK)


def has_flag(table: Table, mask: int) -> Flags:
    """Of each batch, a flag that only magic 2 has."""
    found: Flags = ((table["attributes"] & mask) != 0) & (table["magic"] >= 2)
    return found


def base_timestamps(table: Table) -> Numbers:
    """The first record's timestamp in ms, NO_TIMESTAMP where the header has none."""
    is_append_time = (table["attributes"] & TIMESTAMP_TYPE_MASK) != 0
    stated = np.where(is_append_time, table["max_timestamp"], table["base_timestamp"])
    return np.where(has_flag(table, DELETE_HORIZON_MASK), NO_TIMESTAMP, stated).astype(np.int64)


def delete_horizons(table: Table) -> Numbers:
    """From when on tombstones may go, in ms; NO_TIMESTAMP where that is not set."""
    is_set = has_flag(table, DELETE_HORIZON_MASK)
    return np.where(is_set, table["base_timestamp"], NO_TIMESTAMP).astype(np.int64)
