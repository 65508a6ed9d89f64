"""Number of records in a split from the headers of its batches alone, without their checksums.

Between two headers nothing is read. What a header does not tell for sure is left to a scan: batches across a bound of
the wanted offsets, transactions for read_committed, old formats, and all from the first header on that is impossible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from engine.budgets import Budgets
from engine.log.partition_log import PartitionLog
from engine.record.attributes import COMPRESSION_MASK, CONTROL_MASK, TRANSACTIONAL_MASK
from engine.record.batch_frame import CURRENT_MAGIC, HEADER, LOG_OVERHEAD
from engine.units import Offset, Position
from kafkafs.table.split_scan import planned_segment
from kafkafs.table.splits import Split

_FIELDS = HEADER.subset(
    "base_offset", "length", "magic", "attributes", "last_offset_delta", "record_count"
)
_BEST_CODEC = 4
_FEW = 32
_SMALL_BATCH = 4096
"""Mean bytes of batches below which a scan is faster than a read for each header."""


class WalkedHeaders(NamedTuple):
    """What a walk has found.

    Attributes:
        records: records in batches that were counted.
        left: parts of the split to scan, in log order.
    """

    records: int
    left: tuple[Split, ...]


def walk_headers(
    split: Split, log: PartitionLog, budgets: Budgets, *, committed: bool
) -> WalkedHeaders:
    """Count the records of a split; see the module.

    Args:
        split: the split.
        log: the partition's log in an open source.
        budgets: limits for each batch.
        committed: leave transactions to a scan.

    Raises:
        OSError: the file cannot be read.
    """
    segment = planned_segment(log.view(0), split)
    if segment is None:
        return WalkedHeaders(0, (split,))
    read_at, unpack = segment.file.read_at, _FIELDS.unpack
    position, following, count, batches = split.position, split.next_offset, 0, 0
    left: list[Split] = []
    while position < split.end_position:
        data = read_at(position, HEADER.size)
        if len(data) < HEADER.size:
            return WalkedHeaders(count, (*left, _from(split, position, following)))
        base, length, magic, attributes, delta, records = unpack(data)
        end, last = position + LOG_OVERHEAD + length, base + delta
        is_possible = (
            magic == CURRENT_MAGIC
            and HEADER.size <= end - position <= budgets.batch_bytes
            and end <= split.end_position
            and following <= base <= last < split.part_stop
            and 0 <= records <= min(delta + 1, budgets.records_per_batch)
            and attributes & COMPRESSION_MASK <= _BEST_CODEC
        )
        batches += 1
        is_slow = batches == _FEW and position - split.position < _FEW * _SMALL_BATCH
        is_open = committed and attributes & TRANSACTIONAL_MASK
        if not is_possible or is_slow or is_open:
            return WalkedHeaders(count, (*left, _from(split, position, following)))
        if not attributes & CONTROL_MASK:
            if split.start <= base and last < split.stop:
                count += records
            elif split.start <= last and base < split.stop:
                left.append(_only(split, position, end, base))
        position, following = end, last + 1
    return WalkedHeaders(count, tuple(left))


def _from(split: Split, position: Position, following: Offset) -> Split:
    """Return the part of a split from a position on."""
    part_start = max(split.part_start, following)
    return replace(split, position=position, next_offset=following, part_start=part_start)


def _only(split: Split, position: Position, end: Position, base: Offset) -> Split:
    """Return one batch of a split, which reports all damage in it."""
    return replace(
        split,
        position=position,
        end_position=end,
        next_offset=base,
        part_start=base,
        is_first=True,
        is_last=True,
    )
