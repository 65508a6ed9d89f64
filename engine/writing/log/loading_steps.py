"""The steps in which we load a log.

Two of them are kinder to a log than Kafka's: an I/O error while a segment is recovered does not empty the
segment, it ends the loading; and segments after a damaged one go before the damaged one is cut, since after a
crash between the two nobody could tell that records are missing.
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

log = logging.getLogger(__name__)


def finish_operations(loader: LogLoader) -> None:
    """Bring what was interrupted to an end."""
    clear_leftovers(loader.folder, loader.config, loader.clock, loader.disk)


def open_segments(loader: LogLoader) -> None:
    """Open all segments in order of their offsets, since transactions may reach over segments.

    Segments that will be recovered are not checked before: those that they follow may be damaged.
    """
    loader.segments.close()
    loader.segments.clear()
    remove_orphaned_indexes(loader.folder, loader.disk)
    bases = [
        file.base_offset
        for file in log_files(loader.folder, loader.disk)
        if file.kind is FileKind.LOG and file.state is FileState.LIVE
    ]
    unflushed = MAX_INT64 + 1
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
    """Make the indexes of a segment again that lacks one, or whose transaction index is damaged.

    An empty time index would do for Kafka, and hide the segment's records from looks by time.
    """
    try:
        segment.sanity_check(not had_time_index)
        if had_time_index or not segment.size:
            return
        log.error("%r has no time index; its indexes are made again", segment)
    except FileNotFoundError:
        log.error("%r has no offset index; its indexes are made again", segment)
    except CorruptIndexError as error:
        log.warning("the indexes of %r are made again: %s", segment, error)
    _recover(loader, segment)
    segment.flush()  # it may lie below the recovery point
    loader.disk.sync_folder(loader.folder)


def _recover(
    loader: LogLoader,
    segment: WritableSegment,
    before_truncation: Callable[[], None] | None = None,
) -> int:
    """Make a segment's indexes again and cut off what is no batch; return the number of bytes cut.

    Where no producer ever expires, those of the segment before go on: what would be loaded from their snapshot
    is what they know.
    """
    nobody_expires = loader.producers.config.producer_id_expiration_ms == MAX_INT64
    producers = loader.producers_before(segment, may_follow=nobody_expires)
    try:
        truncated = recover(segment, producers, loader.leader_epochs, before_truncation)
    except OffsetOverflowError as error:
        raise SegmentOverflow(segment) from error
    loader.note_recovered(segment, producers)
    return truncated


def recover_unflushed(loader: LogLoader) -> None:
    """Recover the segments from the recovery point on, up to the first that is damaged."""
    if not loader.needs_recovery:
        return
    unflushed = list(loader.segments.values(loader.recovery_point, MAX_INT64))
    for at, segment in enumerate(unflushed):
        log.info("recovering %r, %d of %d", segment, at + 1, len(unflushed))
        if _recover_or_empty(loader, segment, unflushed[at + 1 :]):
            log.warning("%r was damaged and ends at %d now", segment, segment.read_next_offset())
            return
    _drop_begun_too_early(loader)


def _recover_or_empty(
    loader: LogLoader, segment: WritableSegment, later: list[WritableSegment]
) -> bool:
    """Return whether anything had to be cut; then the later segments are gone."""

    def drop_later() -> None:
        loader.remove_and_delete_later(later)
        if later:
            loader.disk.sync_folder(loader.folder)

    try:
        return _recover(loader, segment, drop_later) > 0
    except InvalidOffsetError as error:
        log.warning("%r is emptied, its offsets are not in order: %s", segment, error)
        drop_later()
        return segment.truncate_to(segment.base_offset) > 0


def _drop_begun_too_early(loader: LogLoader) -> None:
    """Let an empty active segment go when the end of the one before it was never on the disk.

    Else the log would end where that segment was to begin, and nobody would know that records are
    missing. In a compacted log they may well have been compacted away.
    """
    active = loader.segments.last
    if active is None or active.size or loader.config.compact:
        return
    if active.base_offset <= loader.recovery_point:  # all before it was on the disk
        return
    before = loader.segments.lower(active.base_offset)
    if before is None or before.read_next_offset() >= active.base_offset:
        return
    log.warning("%r goes, since %r ends before it", active, before)
    loader.remove_and_delete_later([active])


OUR_LOADING_RULES = LoadingRules(
    (finish_operations, splitting_overflows(open_segments), splitting_overflows(recover_unflushed)),
    OUR_SEGMENT_RULES,
    OUR_PRODUCER_RULES,
)
