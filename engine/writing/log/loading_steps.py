"""Our steps to load a log.

Three steps are safer than Kafka's. An I/O error during the recovery of a segment ends the loading instead of
emptying the segment. The segments after a damaged one are removed before that one is truncated, since after a
crash between the two nobody could tell that records are missing. And a segment that is split while it is opened
goes, also if its first batch begins above its base offset: in Kafka it stays beside its parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.errors import CorruptIndexError, InvalidOffsetError, OffsetOverflowError
from engine.files.file_names import FileKind, FileState
from engine.units import MAX_INT64, Offset
from engine.writing.log.leftovers import clear_leftovers, log_files, remove_orphaned_indexes
from engine.writing.log.log_loader import (
    LoadingRules,
    LogLoader,
    SegmentOverflow,
    splitting_overflows,
)
from engine.writing.segment.segment_files import time_index_path
from engine.writing.segment.segment_recovery import recover
from engine.writing.segment.segment_rules import OUR_SEGMENT_RULES
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.producer_rules import OUR_PRODUCER_RULES

logger = logging.getLogger(__name__)


def finish_operations(loader: LogLoader) -> None:
    """Finish or undo interrupted operations."""
    clear_leftovers(loader.log_folder)


def open_segments(loader: LogLoader) -> None:
    """Open all segments in the order of their offsets, since transactions may span segments.

    Segments that will be recovered are not checked now: earlier segments may be damaged.
    """
    loader.segments.close()
    loader.segments.clear()
    remove_orphaned_indexes(loader.folder, loader.disk)
    bases = [
        file.base_offset
        for file in log_files(loader.folder, loader.disk)
        if file.kind is FileKind.LOG and file.state is FileState.LIVE
    ]
    unflushed = MAX_INT64
    if loader.needs_recovery:
        unflushed = max((base for base in bases if base <= loader.recovery_point), default=0)
    for base in bases:
        _open(loader, base, is_recovered_later=base >= unflushed)


def _open(loader: LogLoader, base_offset: Offset, *, is_recovered_later: bool) -> None:
    had_time_index = loader.disk.exists(time_index_path(loader.folder, base_offset))
    segment = loader.open_segment(base_offset)
    if not is_recovered_later:
        _check_indexes(loader, segment, had_time_index=had_time_index)
    loader.segments.add(segment)


def _check_indexes(loader: LogLoader, segment: WritableSegment, *, had_time_index: bool) -> None:
    """Rebuild the indexes of a segment if one is missing or the transaction index is damaged.

    Kafka accepts an empty time index, which hides the records of the segment from look-ups by time.
    """
    try:
        segment.sanity_check(not had_time_index)
        if had_time_index or not segment.size:
            return
        logger.error("%r has no time index; its indexes are rebuilt", segment)
    except FileNotFoundError:
        logger.error("%r has no offset index; its indexes are rebuilt", segment)
    except CorruptIndexError as error:
        logger.warning("the indexes of %r are rebuilt: %s", segment, error)
    _recover(loader, segment)
    segment.flush()  # the segment may be below the recovery point
    loader.disk.sync_folder(loader.folder)


def _recover(
    loader: LogLoader,
    segment: WritableSegment,
    before_truncation: Callable[[], None] | None = None,
) -> int:
    """Rebuild the indexes of a segment and cut off invalid bytes; return the number of these bytes.

    If producers never expire, the producer state after the previous segment is used: its snapshot would give
    the same state.
    """
    nobody_expires = loader.producers.config.producer_id_expiration_ms == MAX_INT64
    producers = loader.producers_before(segment, may_follow=nobody_expires)
    try:
        truncated = recover(segment, producers, loader.leader_epochs, before_truncation)
    except OffsetOverflowError as error:
        # A segment that is being opened is not in the log yet, and its files would stay beside its parts.
        loader.segments.add(segment)
        raise SegmentOverflow(segment) from error
    loader.note_recovered(segment, producers)
    return truncated


def recover_unflushed(loader: LogLoader) -> None:
    """Recover the segments from the recovery point on, up to the first damaged one."""
    if not loader.needs_recovery:
        return
    unflushed = list(loader.segments.values(loader.recovery_point, MAX_INT64))
    for at, segment in enumerate(unflushed):
        logger.info("recovering %r, %d of %d", segment, at + 1, len(unflushed))
        if _recover_or_empty(loader, segment, unflushed[at + 1 :]):
            logger.warning("%r was damaged and now ends at %d", segment, segment.read_next_offset())
            return
    _drop_begun_too_early(loader)


def _recover_or_empty(
    loader: LogLoader, segment: WritableSegment, later: list[WritableSegment]
) -> bool:
    """Recover a segment; return whether bytes were cut off, and the later segments removed."""

    def drop_later() -> None:
        loader.remove_and_delete_later(later)
        if later:
            loader.disk.sync_folder(loader.folder)

    try:
        return _recover(loader, segment, drop_later) > 0
    except InvalidOffsetError as error:
        logger.warning("%r is emptied: its offsets are not in order: %s", segment, error)
        drop_later()
        segment.truncate_to(segment.base_offset)
        return True


def _drop_begun_too_early(loader: LogLoader) -> None:
    """Remove an empty active segment if the end of the previous one never reached the device.

    Otherwise the log would end at the base offset of the empty segment, and nobody would know that records
    are missing. In a compacted log, compaction may have removed these records.
    """
    active = loader.segments.last
    if active is None or active.size or loader.log_folder.config.compact:
        return
    if active.base_offset <= loader.recovery_point:  # all earlier batches were on the device
        return
    before = loader.segments.lower(active.base_offset)
    if before is None or before.read_next_offset() >= active.base_offset:
        return
    logger.warning("removing %r, since %r ends below it", active, before)
    loader.remove_and_delete_later([active])


OUR_LOADING_RULES = LoadingRules(
    (finish_operations, splitting_overflows(open_segments), splitting_overflows(recover_unflushed)),
    OUR_SEGMENT_RULES,
    OUR_PRODUCER_RULES,
)
