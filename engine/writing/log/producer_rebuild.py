"""Making the state of a log's producers fit the log: from its snapshots, and from the batches after them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from engine.clock import Clock
from engine.log.log_segments import LogSegments
from engine.record.record_batch import RecordBatch
from engine.units import MAX_INT32, NO_PRODUCER_ID, LogOffsetMetadata, Offset
from engine.writing.records.append_origin import AppendOrigin
from engine.writing.scheduler import Scheduler
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import ProducerAppendInfo
from engine.writing.state.producer_map import ProducerUpdates
from engine.writing.state.producer_state_manager import ProducerStateManager

log = logging.getLogger(__name__)

UNKNOWN_TRANSACTION_VERSION = -1


class Records(Protocol):
    """Batches in a file or in memory."""

    def batches(self) -> Iterable[RecordBatch]:
        """The batches."""


def update_producers(
    manager: ProducerStateManager,
    batch: RecordBatch,
    producers: ProducerUpdates[ProducerAppendInfo],
    first_offset: LogOffsetMetadata | None,
    origin: AppendOrigin,
    transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
) -> CompletedTxn | None:
    """Note what a producer's batch does to the producer.

    Args:
        manager: what is known of the producers; it is not changed.
        batch: one with a producer id.
        producers: what earlier batches of the same append did, by producer; grows.
        first_offset: where the batch lies, if it may begin a transaction.
        origin: of the append; decides what is checked.
        transaction_version: of an end marker that a coordinator writes.

    Returns:
        The transaction that the batch ends, if it ends one.

    Raises:
        ProducerStateError: the batch contradicts what is known of the producer.
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
    """Load the newest snapshot up to an offset, and what batches between it and the offset do.

    Snapshots are written for the beginnings of the last two segments and for `last_offset`, so that a truncation
    need not scan the whole log. After a clean shutdown a log without any snapshot is taken for one that has no
    producers: a broker too old to write snapshots left it behind.

    Args:
        manager: what to bring up to `last_offset`, or back to it.
        segments: the log's.
        log_start_offset: where the log begins.
        last_offset: up to where its batches count.
        clock: tells which producers have expired.
        reload_from_clean_shutdown: whether the log was closed properly before.
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
        log.info("loading producers of offsets %d to %d", manager.map_end_offset, last_offset)
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
            load_producers_from(manager, fetched.records)


def load_producers_from(manager: ProducerStateManager, records: Records) -> None:
    """Note what batches that are already in the log did to their producers."""
    producers: ProducerUpdates[ProducerAppendInfo] = ProducerUpdates()
    completed = []
    for batch in records.batches():
        if batch.producer_id > NO_PRODUCER_ID:
            ended = update_producers(
                manager, batch, producers, None, AppendOrigin.REPLICATION, transaction_version=0
            )
            if ended is not None:
                completed.append(ended)
    for info in producers.values():
        manager.update(info)
    for ended in completed:
        manager.complete_txn(ended)


def delete_producer_snapshots(
    manager: ProducerStateManager,
    offsets: Iterable[Offset],
    reporting: Callable[[], AbstractContextManager[None]],
    scheduler: Scheduler | None = None,
    delay_ms: int = 0,
) -> None:
    """Delete the snapshots of segments that are deleted.

    Args:
        manager: forgets them at once, and marks their files as deleted.
        offsets: the segments' base offsets; one without a snapshot is passed over.
        reporting: wraps the removal of the files.
        scheduler: removes the files `delay_ms` later; None to remove them now.
        delay_ms: how much later, in milliseconds.
    """
    marked = [manager.remove_and_mark_snapshot_for_deletion(offset) for offset in offsets]

    def remove() -> None:
        with reporting():
            for snapshot in marked:
                if snapshot is not None:
                    snapshot.delete_if_exists()

    if scheduler is None:
        remove()
    else:
        scheduler.schedule("delete-producer-snapshot", remove, delay_ms)
