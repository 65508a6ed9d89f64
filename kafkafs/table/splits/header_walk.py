"""Number of records in a split from the headers of its batches alone, without their checksums.

Between two headers nothing is read. What a header does not tell for sure is left to a scan: batches across a bound of
the wanted offsets, transactions for read_committed, old formats, and all from the first header on that is impossible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from engine import kernel
from engine.budgets import Budgets
from engine.columns.batch_table import HeaderStop
from engine.log.partition_log import PartitionLog
from engine.record.attributes import TRANSACTIONAL_MASK
from engine.record.batch_frame import HEADER, LOG_OVERHEAD
from engine.units import MAX_INT64, Offset, Position
from kafkafs.table.splits.split import Split
from kafkafs.table.splits.split_scan import planned_segment

_FRAME = HEADER.subset("base_offset", "length", "last_offset_delta")
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
    if segment is None or segment.file.unreadable is not None:
        return WalkedHeaders(0, (split,))
    position, following, count, batches = split.position, split.next_offset, 0, 0
    left: list[Split] = []
    while position < split.end_position:
        walked, records, position, following, stop = kernel.count_headers(
            *(segment.file.fd, position, split.end_position, following, split.part_stop),
            *((split.start, split.stop), TRANSACTIONAL_MASK if committed else 0),
            _FEW - batches if batches < _FEW else MAX_INT64,
            budgets=budgets,
        )
        count += records
        batches += walked
        is_slow = batches == _FEW and position - split.position < _FEW * _SMALL_BATCH
        header = b""
        if stop == HeaderStop.CROSSES:
            header = segment.file.read_at(position, HEADER.size)
        if len(header) == HEADER.size:  # less where the file became shorter meanwhile
            base, length, delta = _FRAME.unpack_from(header)
            end = position + LOG_OVERHEAD + length
            left.append(_only(split, position, end, base))
            position, following, batches = end, base + delta + 1, batches + 1
        elif position < split.end_position and (is_slow or stop != HeaderStop.DONE):
            return WalkedHeaders(count, (*left, _from(split, position, following)))
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
