"""Write a batch anew without some of its records, as the log cleaner does.

Offsets, producer, epochs, codec and timestamp type stay, so that sequences, producer snapshots, transaction indexes and
leader epochs stay valid. A batch of which nothing is left stays as a header without records. See MemoryRecords.filterTo in
Kafka, with RETAIN_EMPTY.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.rebuild.assembly.cut import built
from engine.record.attributes import TimestampType
from engine.record.default_records import DefaultRecordBatch
from engine.record.encoding.batch_encoding import encode_empty_batch
from engine.record.encoding.batch_rewrite import rewrite_batch
from engine.record.record_batch import RecordBatch
from engine.units import Offset


def without(batch: RecordBatch, kept: Sequence[bool], budgets: Budgets = DEFAULT_BUDGETS) -> bytes:
    """Return what is left of a batch: one batch, of magic 0 and 1 with empty ones for the offsets at its ends.

    Args:
        batch: a batch without control records.
        kept: one bool per record, whether to keep it.
        budgets: limits of the decoded batch.

    Raises:
        ValueError: no batch can be made of the rest.
        The errors of `RecordBatch.records`.
    """
    if isinstance(batch, DefaultRecordBatch):
        if any(kept):
            return bytes(rewrite_batch(batch, kept, batch.delete_horizon_ms, budgets).data)
        return empty(batch, batch.base_offset, batch.last_offset)
    records = list(batch.records(budgets))
    rest = list(compress(records, kept))
    first, last = records[0].offset, records[-1].offset
    if not rest:
        return empty(batch, first, last)
    before = empty(batch, first, rest[0].offset - 1) if rest[0].offset > first else b""
    after = empty(batch, rest[-1].offset + 1, last) if rest[-1].offset < last else b""
    return before + built(batch, rest, rest[0].offset) + after


def empty(batch: RecordBatch, first: Offset, last: Offset) -> bytes:
    """Return a batch of magic 2 without records in place of some offsets of another batch."""
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME  # magic 0 has no type
    return bytes(
        encode_empty_batch(
            base_offset=first,
            last_offset=last,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            partition_leader_epoch=batch.leader_epoch,
            timestamp_type=(
                TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
            ),
            timestamp=batch.max_timestamp,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
        )
    )
