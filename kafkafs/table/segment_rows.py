"""view=segments: one row for each segment, from the headers of its batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.budgets import Budgets
from engine.columns.batch_table import holds_control
from engine.json_facts import facts_of
from engine.log.segment.scan import BatchRun, Damage, Disorder
from engine.units import NO_TIMESTAMP, Offset, Timestamp
from kafkafs.decode.error_line import damage_facts
from kafkafs.forms.arrow.arrow_rows import MOST_MILLISECONDS, one_row
from kafkafs.table.row_options import RowOptions
from kafkafs.table.splits.header_facts import (
    Numbers,
    base_timestamps,
    header_facts,
)
from kafkafs.table.splits.split import Split
from kafkafs.table.splits.split_scan import is_hole, scan_split


class SegmentTotalRows:
    """Whole segments as splits, a row for each.

    Args:
        schema: schema of the record batches.
        options: see `RowOptions`.
    """

    def __init__(self, schema: pa.Schema, options: RowOptions) -> None:
        self._schema = schema
        self._options = options

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the row of a segment. Damage is counted, unless `on_corrupt` is fail.

        Raises:
            LostRecordsError: the segment is gone, and `fail_on_data_loss` is true.
            CorruptBatchError: the segment is damaged, and `on_corrupt` is fail.
        """
        on_corrupt = self._options.on_corrupt
        found = _Totals()
        for _, _, part, item in scan_split(
            split, fail_on_data_loss=self._options.fail_on_data_loss
        ):
            if isinstance(item, BatchRun):
                found.add(item, self._options.budgets)
                continue
            if on_corrupt == "fail" and is_hole(part, item, on_corrupt=on_corrupt):
                self._options.reported(split, damage_facts(item))
            found.add_damage(item)
        if not found.size:
            return  # the segment is gone, and fail_on_data_loss is false
        known = {
            **facts_of(
                split, "topic=partition.topic partition=partition.partition segment file=path"
            ),
            **facts_of(found, "size batches records control_batches first_offset last_offset"),
            "minTimestamp": _instant(found.min_timestamp),
            "maxTimestamp": _instant(found.max_timestamp),
            "damagedBytes": found.damaged_bytes,
            "damagedPlaces": found.damaged_places,
        }
        yield one_row(self._schema, known)


def _instant(timestamp: Timestamp | None) -> int | None:
    """Return microseconds since 1970; None without a timestamp, or for one that overflows."""
    return None if timestamp is None or abs(timestamp) > MOST_MILLISECONDS else timestamp * 1000


@dataclass(slots=True)
class _Totals:
    """Sums over a segment; `size` is in bytes, damage included."""

    size: int = 0
    batches: int = 0
    records: int = 0
    control_batches: int = 0
    first_offset: Offset | None = None
    last_offset: Offset | None = None
    min_timestamp: Timestamp | None = None
    max_timestamp: Timestamp | None = None
    damaged_bytes: int = 0
    damaged_places: int = 0

    def add(self, run: BatchRun, budgets: Budgets) -> None:
        table, facts = run.table, header_facts(run, budgets)
        control = holds_control(table)
        self.size += int(table["size"].sum(dtype=np.int64))
        self.batches += len(table)
        self.control_batches += int(control.sum())
        self.records += int(facts.records[~control].sum())
        self._add_offsets(int(facts.base_offset.min()), int(table["last_offset"].max()))
        data = table[~control]
        self._add_times(base_timestamps(data), data["max_timestamp"])

    def add_damage(self, damage: Damage | Disorder) -> None:
        is_damage = not damage.is_quiet
        self.damaged_places += is_damage
        if isinstance(damage, Damage):
            self.size += damage.length
            self.damaged_bytes += damage.length * is_damage

    def _add_offsets(self, first: Offset, last: Offset) -> None:
        self.first_offset = first if self.first_offset is None else min(first, self.first_offset)
        self.last_offset = last if self.last_offset is None else max(last, self.last_offset)

    def _add_times(self, first: Numbers, largest: Numbers) -> None:
        first, largest = first[first != NO_TIMESTAMP], largest[largest != NO_TIMESTAMP]
        if len(first):
            low = int(first.min())
            self.min_timestamp = low if self.min_timestamp is None else min(low, self.min_timestamp)
        if len(largest):
            high = int(largest.max())
            self.max_timestamp = (
                high if self.max_timestamp is None else max(high, self.max_timestamp)
            )
