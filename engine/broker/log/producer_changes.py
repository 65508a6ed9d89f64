"""Check the batches of an append against the producer state, and find what they change."""

from __future__ import annotations

from typing import NamedTuple

from engine.broker.append.append_analysis import AppendTerms
from engine.record.memory_records import MemoryRecords
from engine.state.producer_state_entry import BatchMetadata
from engine.units import NO_PRODUCER_ID, LogOffsetMetadata
from engine.writing.log.producer_rebuild import update_producers
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import ProducerAppendInfo
from engine.writing.state.producer_map import ProducerUpdates
from engine.writing.state.producer_state_manager import ProducerStateManager


class ProducerChanges(NamedTuple):
    """Changes of the producer state by an append.

    Attributes:
        updated: new state of each producer.
        completed: transactions that the append ends.
        duplicate: batch in the log that the append repeats; then nothing is written.
    """

    updated: ProducerUpdates[ProducerAppendInfo]
    completed: list[CompletedTxn]
    duplicate: BatchMetadata | None = None

    def apply(self, producers: ProducerStateManager, segment: WritableSegment) -> None:
        """Change the producer state, and add aborted transactions to the index of the segment with the batches."""
        for update in self.updated.values():
            producers.update(update)
        for completed in self.completed:
            segment.update_txn_index(completed, producers.last_stable_offset(completed))
            producers.complete_txn(completed)


def find_changes(
    producers: ProducerStateManager,
    records: MemoryRecords,
    segment: WritableSegment,
    terms: AppendTerms,
) -> ProducerChanges:
    """Return the changes by batches to append to a segment.

    Raises:
        ProducerStateError: a batch contradicts the producer's state, which is not changed.
    """
    changes = ProducerChanges(ProducerUpdates(), [])
    for batch in records.batches():
        if batch.producer_id <= NO_PRODUCER_ID:
            continue
        if terms.origin is AppendOrigin.CLIENT:
            entry = producers.last_entry(batch.producer_id)
            duplicate = None if entry is None else entry.find_duplicate_batch(batch)
            if duplicate is not None:
                return changes._replace(duplicate=duplicate)
        first_offset = None
        if batch.is_transactional:
            first_offset = LogOffsetMetadata(
                batch.base_offset,
                segment.base_offset,
                segment.size + batch.file_position - records.start,
            )
        completed = update_producers(
            producers,
            batch,
            changes.updated,
            first_offset,
            terms.origin,
            terms.transaction_version,
        )
        if completed is not None:
            changes.completed.append(completed)
    return changes
