"""Facts about records from batch headers; compressed messages of magic 0 and 1 are inflated, as theirs are incomplete."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.budgets import Budgets
from engine.log.segment.scan import BatchRun
from engine.record.attributes import (
    COMPRESSION_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    has_flag,
)
from engine.units import NO_TIMESTAMP
from kafkafs.table.splits.split import Split

Table: TypeAlias = npt.NDArray[Any]
Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_BEST_CODEC = 4


class HeaderFacts(NamedTuple):
    """Facts of each batch of a table.

    Attributes:
        base_offset: offset of the first record.
        records: number of records; of a compressed message of magic 0 or 1 only decodable ones.
    """

    base_offset: Numbers
    records: Numbers

    def of(self, rows: Flags) -> HeaderFacts:
        """Return the facts of some batches."""
        return HeaderFacts(self.base_offset[rows], self.records[rows])


def header_facts(run: BatchRun, budgets: Budgets) -> HeaderFacts:
    """Return the facts of a run's batches."""
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
            # The records of one message are all in one `columns`.
            base[wrappers[rows]] = columns.offset[first]
            records[wrappers[rows]] = counts
    return HeaderFacts(base, records)


def own_batches(split: Split, table: Table, facts: HeaderFacts) -> Flags:
    """Return a mask of the batches that end in a split's offsets; the last split also takes one across its end."""
    last = table["last_offset"]
    own: Flags = (last >= split.start) & (last < split.stop)
    if split.is_last:
        own |= (last >= split.stop) & (facts.base_offset < split.stop)
    return own


def countable(split: Split, table: Table, budgets: Budgets) -> Flags:
    """Return a mask of the batches without unwanted records, for which the header alone gives the number of records."""
    base, last, count = table["base_offset"], table["last_offset"], table["record_count"]
    codec = table["attributes"] & COMPRESSION_MASK
    known = (count >= 0) & (count <= last - base + 1) & (count <= budgets.records_per_batch)
    known &= (codec <= _BEST_CODEC) & (table["magic"] == 2)
    known |= (table["magic"] < 2) & (codec == 0)
    inside: Flags = known & (base >= split.start) & (last < split.stop)
    return inside


def records_in(table: Table) -> int:
    """Return the number of records in countable batches."""
    return int(np.where(table["magic"] < 2, 1, table["record_count"]).sum())


def is_compressed(table: Table) -> Flags:
    """Return a mask of the compressed batches."""
    compressed: Flags = (table["attributes"] & COMPRESSION_MASK) != 0
    return compressed


def base_timestamps(table: Table) -> Numbers:
    """Return the timestamps of first records in ms; NO_TIMESTAMP where the header has none."""
    is_append_time = (table["attributes"] & TIMESTAMP_TYPE_MASK) != 0
    stated = np.where(is_append_time, table["max_timestamp"], table["base_timestamp"])
    return np.where(_has_horizon(table), NO_TIMESTAMP, stated).astype(np.int64)


def delete_horizons(table: Table) -> Numbers:
    """Return the delete horizons in ms, after which tombstones may go; NO_TIMESTAMP where none is set."""
    return np.where(_has_horizon(table), table["base_timestamp"], NO_TIMESTAMP).astype(np.int64)


def _has_horizon(table: Table) -> Flags:
    return has_flag(table["magic"], table["attributes"], DELETE_HORIZON_MASK)
