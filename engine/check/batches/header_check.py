"""Check of batch headers on their own: attributes, offsets within the segment, producer fields, timestamps.

Checks a run's headers at once in numpy columns, without the batches before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.check.rules.breach import Breach
from engine.columns.batch_table import holds_control
from engine.record.attributes import TIMESTAMP_TYPE_MASK, TRANSACTIONAL_MASK
from engine.record.batch_frame import HEADER
from engine.units import MAX_INT32, MAX_INT64, NO_TIMESTAMP, Offset

Table: TypeAlias = npt.NDArray[Any]

_UNUSED_BITS = np.int16(~0x7F)
_UNUSED_BITS_LEGACY = 0xF0


def header_breaches(
    table: Table, base_offset: Offset, next_base: Offset | None
) -> Iterator[Breach]:
    """Yield the breaches of headers.

    Args:
        table: the batches, rows of BATCH_ROW.
        base_offset: base offset of their segment.
        next_base: base offset of the next segment, None for the last one.
    """
    yield from _outside(table, base_offset, next_base)
    yield from _attributes(table)
    yield from _producers(table)
    low = table["max_timestamp"] < NO_TIMESTAMP
    if low.any():
        for batch in table[low]:
            sentence = f"the batch at byte {batch['position']} states max timestamp {batch['max_timestamp']}"
            yield Breach.of("timestamp-negative", batch, sentence)
    by_broker = (table["attributes"] & TIMESTAMP_TYPE_MASK != 0) & (table["magic"] > 0)
    unstamped = by_broker & (table["max_timestamp"] == NO_TIMESTAMP)
    if unstamped.any():
        for batch in table[unstamped & (table["record_count"] != 0)]:
            sentence = f"the batch at byte {batch['position']} has LogAppendTime but no timestamp"
            yield Breach.of("records-timestamps", batch, sentence)
    empty = (table["record_count"] == 0) & (table["size"] > HEADER.size) & (table["magic"] == 2)
    if empty.any():
        for batch in table[empty]:
            sentence = (
                f"the batch at byte {batch['position']} states no records and has"
                f" {batch['size'] - HEADER.size} bytes after its header"
            )
            yield Breach.of("batch-without-records", batch, sentence)


def _outside(table: Table, base_offset: Offset, next_base: Offset | None) -> Iterator[Breach]:
    base, last = table["base_offset"], table["last_offset"]
    limit = base_offset + MAX_INT32
    end = MAX_INT64 if next_base is None else next_base
    # In a sound log the bounds of all batches are enough.
    if base.min() >= base_offset and last.max() < min(end, limit + 1):
        return
    for batch in table[(base < base_offset) | (last >= end)]:
        bounds = f"from {base_offset} on" if next_base is None else f"{base_offset} to {end - 1}"
        yield Breach.of(
            "offset-segment",
            batch,
            f"the batch at byte {batch['position']} has offsets {batch['base_offset']} to"
            f" {batch['last_offset']}, in a segment of offsets {bounds}",
            expected=bounds,
        )
    for batch in table[(last > limit) & (last < end)]:
        yield Breach.of(
            "offset-overflow",
            batch,
            f"the batch at byte {batch['position']} reaches offset {batch['last_offset']}, more than"
            f" 2147483647 above the segment's base offset {base_offset}",
            expected=f"at most {limit}",
            found=int(batch["last_offset"]),
        )


def _attributes(table: Table) -> Iterator[Breach]:
    attributes = table["attributes"]
    unused = attributes & _UNUSED_BITS
    legacy = table["magic"] < 2
    if legacy.any():
        unused = np.where(legacy, attributes & _UNUSED_BITS_LEGACY, unused)
    for row in unused.nonzero()[0] if unused.any() else ():
        batch = table[row]
        sentence = (
            f"the batch at byte {batch['position']} has attributes {int(batch['attributes']) & 0xFFFF:#06x},"
            " with bits that have no meaning"
        )
        yield Breach.of("batch-attributes", batch, sentence, found=int(batch["attributes"]))


def _producers(table: Table) -> Iterator[Breach]:
    producer, attributes = table["producer_id"], table["attributes"]
    is_v2 = table["magic"] == 2
    orphan = (producer < 0) & (attributes & TRANSACTIONAL_MASK != 0) & is_v2
    if orphan.any():
        for batch in table[orphan]:
            sentence = (
                f"the batch at byte {batch['position']} is transactional but has no producer id"
            )
            yield Breach.of("transaction-without-producer", batch, sentence)
    known = producer >= 0
    if not known.any():
        return
    is_data = ~holds_control(table)
    odd = known & is_v2 & ((table["producer_epoch"] < 0) | (is_data & (table["base_sequence"] < 0)))
    for row in odd.nonzero()[0]:
        batch = table[row]
        yield Breach.of(
            "batch-producer",
            batch,
            f"the batch at byte {batch['position']} has producer id {batch['producer_id']}, epoch"
            f" {batch['producer_epoch']} and sequence {batch['base_sequence']}",
        )
