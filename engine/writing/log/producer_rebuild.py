"""Rebuild the producer state of a log from its snapshots and the batches after them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from engine.clock import Clock
from engine.log.log_segments import LogSegments
from engine.record.frame_walk import walk_frames
from engine.record.record_batch import RecordBatch
from engine.units import MAX_INT32, NO_PRODUCER_ID, LogOffsetMetadata, Offset
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import (
    UNKNOWN_TRANSACTION_VERSION,
    ProducerAppendInfo,
)
from engine.writing.state.producer_map import ProducerUpdates
from engine.writing.state.producer_state_manager import ProducerStateManager

logger = logging.getLogger(__name__)


def update_producers(
    manager: ProducerStateManager,
    batch: RecordBatch,
    producers: ProducerUpdates[ProducerAppendInfo],
    first_offset: LogOffsetMetadata | None,
    origin: AppendOrigin,
    transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
) -> CompletedTxn | None:
    """Apply a batch to the update of its producer.

    Args:
        manager: producer state, which is not changed.
        batch: batch with a producer id.
        producers: updates by the same append, by producer; a missing one is added.
        first_offset: first offset of the batch with its position, if the batch may begin a transaction.
        origin: origin of the append, on which the checks depend.
        transaction_version: transaction version of a coordinator's end marker.

    Returns:
        The transaction that the batch ends, or None.

    Raises:
        ProducerStateError: the batch contradicts the producer's state.
    """
    producer = batch.producer_id
    info = producers.of(producer, lambda: manager.prepare_update(producer, origin))
    return info.append(batch, first_offset, transaction_version)


def rebuild_producer_state(
    manager: ProducerStateManager,
    segments: LogSegments[WritableSegment],
    log_start_offset: Offset,
    last_offset: Offset,
    clock: Clock,
    *,
    reload_from_clean_shutdown: bool,
) -> None:
    """Load the newest snapshot up to an offset, and apply the batches between the two.

    Snapshots are written at the base offsets of the last two segments and at `last_offset`, so that a
    truncation need not scan the whole log. After a clean shutdown, a log without snapshots counts as one
    without producers: an old broker that wrote no snapshots left it.

    Args:
        manager: producer state, which is moved forward or back to `last_offset`.
        segments: segments of the log.
        log_start_offset: start of the log.
        last_offset: offset of the first batch that is not applied.
        clock: source of the time for expirations.
        reload_from_clean_shutdown: whether the log was closed cleanly.
    """
    wanted = _offsets_to_snapshot(segments, last_offset)
    if manager.latest_snapshot_offset is None and reload_from_clean_shutdown:
        for offset in wanted:
            manager.update_map_end_offset(offset)
            manager.take_snapshot()
        return
    nobody_to_load = manager.is_empty and manager.map_end_offset >= last_offset
    manager.truncate_and_reload(log_start_offset, last_offset, clock.now_ms())
    if last_offset > manager.map_end_offset and not nobody_to_load:
        logger.info("loading producers of offsets %d to %d", manager.map_end_offset, last_offset)
        _load_segments(manager, segments, log_start_offset, last_offset, wanted)
    manager.update_map_end_offset(last_offset)
    manager.take_snapshot()


def _offsets_to_snapshot(
    segments: LogSegments[WritableSegment], last_offset: Offset
) -> list[Offset]:
    wanted = []
    last = segments.last
    if last is not None:
        before = segments.lower(last.base_offset)
        if before is not None:
            wanted.append(before.base_offset)
        wanted.append(last.base_offset)
    wanted.append(last_offset)
    return wanted


def _load_segments(
    manager: ProducerStateManager,
    segments: LogSegments[WritableSegment],
    log_start_offset: Offset,
    last_offset: Offset,
    wanted: list[Offset],
) -> None:
    final = segments.floor(last_offset)
    for segment in segments.values(manager.map_end_offset, last_offset):
        start = max(segment.base_offset, manager.map_end_offset, log_start_offset)
        manager.update_map_end_offset(start)
        if segment.base_offset in wanted:
            manager.take_snapshot()
        end = segment.size
        if segment is final:
            found = segment.translate_offset(last_offset)
            end = segment.size if found is None else found.position
        fetched = segment.read(start, MAX_INT32, max_position=end)
        if fetched is not None:
            first = fetched.fetch_offset_metadata.position
            _load_producers_from(manager, walk_frames(segment.log.file, first, end))


def _load_producers_from(manager: ProducerStateManager, batches: Iterable[RecordBatch]) -> None:
    """Apply batches of the log to their producers."""
    producers: ProducerUpdates[ProducerAppendInfo] = ProducerUpdates()
    completed = []
    for batch in batches:
        if batch.producer_id > NO_PRODUCER_ID:
            ended = update_producers(manager, batch, producers, None, AppendOrigin.REPLICATION)
            if ended is not None:
                completed.append(ended)
    for info in producers.values():
        manager.update(info)
    for ended in completed:
        manager.complete_txn(ended)


def delete_producer_snapshots(
    manager: ProducerStateManager,
    offsets: Iterable[Offset],
    folder: WritableLogFolder,
) -> None:
    """Delete the snapshots of deleted segments after file.delete.delay.ms.

    Args:
        manager: removes the snapshots from its list now, and renames their files.
        offsets: base offsets of the segments; those without a snapshot are ignored.
        folder: folder of the log.
    """
    marked = [manager.snapshots.mark_for_deletion(offset) for offset in offsets]

    def remove() -> None:
        with folder.reporting("cannot delete producer snapshots of"):
            for snapshot in marked:
                if snapshot is not None:
                    snapshot.delete_if_exists()

    delay_ms = folder.config.file_delete_delay_ms
    folder.scheduler.schedule("delete-producer-snapshot", remove, delay_ms)
