"""Signs of compaction in batch headers: batches with fewer records than offsets, and delete horizons.

Producers write none of them. Placeholders, which `kafkafs rebuild` and Spark's writer write for offsets without records,
are no sign of compaction: they have no timestamp, while a batch emptied by compaction keeps its own.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from engine.arrays import np, npt
from engine.columns.batch_table import holds_control
from engine.record.attributes import DELETE_HORIZON_MASK
from engine.units import Offset

Table: TypeAlias = "npt.NDArray[Any]"


def is_placeholder(table: Table) -> npt.NDArray[np.bool_]:
    """Return which batches are placeholders."""
    found: npt.NDArray[np.bool_] = (
        (table["record_count"] == 0)
        & (table["producer_id"] < 0)
        & (table["max_timestamp"] < 0)
        & (table["magic"] == 2)
        & ~holds_control(table)
    )
    return found


def marked_to(table: Table) -> Offset:
    """Return one past the last batch of magic 2 with a sign of compaction; -1 without one."""
    last, attributes = table["last_offset"], table["attributes"]
    thinned = table["record_count"] < last - table["base_offset"] + 1
    thinned &= ~holds_control(table) & ~is_placeholder(table)
    marked = (thinned | (attributes & DELETE_HORIZON_MASK != 0)) & (table["magic"] == 2)
    return int(last[marked].max()) + 1 if marked.any() else -1
