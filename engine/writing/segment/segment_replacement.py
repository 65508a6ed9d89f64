"""Exchanging segments so that a crash at any point leaves the old ones or the new ones, never less.

New segments are written under .cleaned and flushed. Then they are renamed to .swap, the one of the largest
base offset first: while there is a .cleaned file, what was renamed does not count. Once all are .swap the
new ones count; the old ones are renamed to .deleted and the new ones get their names. Whoever loads the log
after a crash finishes that or undoes it. The folder is synced after each of the three steps, and in the first
and the last after each new segment, so that none can be on the device without the one before: loading would
throw away a segment that is not renamed between some that are, or that is between some that are not.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from engine.clock import SYSTEM_CLOCK, Clock
from engine.errors import StateError
from engine.files.file_names import FileState
from engine.log.log_segments import LogSegments
from engine.units import Offset, TopicPartition
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.scheduler import Scheduler
from engine.writing.segment.segment_files import FAILURES, delete_files_if_exist
from engine.writing.segment.writable_segment import WritableSegment

log = logging.getLogger(__name__)

CLEANED = FileState.CLEANED.value
SWAP = FileState.SWAP.value
DELETED = FileState.DELETED.value

_by_offset = attrgetter("base_offset")


class SplitSegmentResult(NamedTuple):
    """What a split has changed.

    Attributes:
        deleted_segments: those whose base offset none of the new ones has.
        new_segments: in order.
    """

    deleted_segments: list[WritableSegment]
    new_segments: list[WritableSegment]


def delete_segment_files(
    segments: Iterable[WritableSegment],
    async_delete: bool,
    folder: StrPath,
    topic_partition: TopicPartition,
    config: LogConfig,
    scheduler: Scheduler,
    channel: LogDirFailureChannel,
    *,
    disk: Disk = DISK,
) -> None:
    """Rename the files of segments to .deleted, and remove them now or after file.delete.delay.ms.

    Raises:
        OSError: a file cannot be renamed.
        LogDirFailureError: a file cannot be removed now.
    """
    doomed = list(segments)
    for segment in doomed:
        if not segment.has_suffix(DELETED):
            segment.change_file_suffixes("", DELETED)

    def delete() -> None:
        log_dir = os.path.dirname(folder)
        log.info("Deleting the files of %s in %s", doomed, log_dir)
        with channel.reporting(log_dir, f"cannot delete segments of {topic_partition}"):
            for segment in doomed:
                segment.delete_if_exists()

    if async_delete:
        scheduler.schedule("delete-file", delete, config.file_delete_delay_ms)
    else:
        delete()


def create_new_cleaned_segment(
    folder: StrPath,
    config: LogConfig,
    base_offset: Offset,
    *,
    clock: Clock = SYSTEM_CLOCK,
    disk: Disk = DISK,
) -> WritableSegment:
    """An empty segment under .cleaned; what a crash left of that name is removed."""
    delete_files_if_exist(folder, base_offset, CLEANED, disk=disk)
    return WritableSegment.open(
        folder,
        base_offset,
        config,
        clock,
        init_file_size=config.initial_file_size,
        preallocate=config.preallocate,
        suffix=CLEANED,
        disk=disk,
    )


def split_overflowed_segment(
    segment: WritableSegment,
    existing: LogSegments[WritableSegment],
    folder: StrPath,
    topic_partition: TopicPartition,
    config: LogConfig,
    scheduler: Scheduler,
    channel: LogDirFailureChannel,
    *,
    disk: Disk = DISK,
) -> SplitSegmentResult:
    """Put several segments in the place of one whose offsets lie too far apart.

    Raises:
        ValueError: the segment is not live, or all its offsets fit; nothing changes.
        OSError: when a new segment cannot be written, nothing has changed.
    """
    if not segment.log.path.endswith(".log"):
        raise ValueError(f"cannot split {segment.log.path}: it is not part of the log")
    if not segment.has_overflow():
        raise ValueError(f"cannot split {segment.log.path}: its offsets are not too far apart")
    log.info("Splitting %r, whose offsets lie too far apart", segment)
    parts: list[WritableSegment] = []
    try:
        _copy_parts(segment, parts, folder, config, disk)
    except BaseException:
        for part in parts:
            _drop(part)
        raise
    log.info("Replacing %r with %r", segment, parts)
    deleted = replace_segments(
        existing,
        parts,
        [segment],
        folder,
        topic_partition,
        config,
        scheduler,
        channel,
        disk=disk,
    )
    return SplitSegmentResult(deleted, parts)


def _copy_parts(
    segment: WritableSegment,
    parts: list[WritableSegment],
    folder: StrPath,
    config: LogConfig,
    disk: Disk,
) -> None:
    """Write a segment's batches into new ones, which are added to `parts`."""
    source, position = segment.log, 0
    while position < source.size:
        first = next(source.batches_from(position))
        part = create_new_cleaned_segment(folder, config, first.base_offset, disk=disk)
        parts.append(part)
        appended = part.append_from_file(source, position)
        if not appended:
            raise StateError(f"nothing could be copied from byte {position} of {segment!r}")
        position += appended
    for part in parts:
        part.on_become_inactive_segment()
        part.flush()
        part.set_last_modified(segment.last_modified)
    total = sum(part.size for part in parts)
    if total != source.size:
        raise StateError(f"{segment!r} was split into {total} bytes")


def _drop(part: WritableSegment) -> None:
    """Close and delete a segment that will not be used, whatever fails."""
    for step in (part.close, part.delete_if_exists):
        try:
            step()
        except FAILURES as error:
            log.warning("%s is left behind: %s", part.log.path, error)


def replace_segments(
    existing: LogSegments[WritableSegment],
    new: Sequence[WritableSegment],
    old: Sequence[WritableSegment],
    folder: StrPath,
    topic_partition: TopicPartition,
    config: LogConfig,
    scheduler: Scheduler,
    channel: LogDirFailureChannel,
    *,
    is_recovered_swap_file: bool = False,
    disk: Disk = DISK,
) -> list[WritableSegment]:
    """Put flushed segments in the place of others, whose files are removed later.

    Args:
        existing: the log's segments, which are changed.
        new: under .cleaned, or under .swap with `is_recovered_swap_file`.
        old: those that are not in `existing` any more are passed over.
        folder, topic_partition, config, scheduler, channel: of the log.
        is_recovered_swap_file: whether a crash interrupted a replacement and this finishes it.
        disk: where the files lie.

    Returns:
        the old segments whose base offset no new one has.

    Raises:
        OSError: some files may be renamed and others not: loading the log again sorts that out.
    """
    coming = sorted(new, key=_by_offset)
    going = sorted((each for each in old if each.base_offset in existing), key=_by_offset)
    if not is_recovered_swap_file:
        disk.sync_folder(folder)
        for segment in reversed(coming):
            segment.change_file_suffixes(CLEANED, SWAP)
            disk.sync_folder(folder)
    else:
        disk.sync_folder(folder)
    for segment in reversed(coming):
        existing.add(segment)
    bases = {segment.base_offset for segment in coming}
    for segment in going:
        if segment.base_offset not in bases:
            existing.remove(segment.base_offset)
        delete_segment_files(
            [segment], True, folder, topic_partition, config, scheduler, channel, disk=disk
        )
    disk.sync_folder(folder)
    for segment in coming:
        segment.change_file_suffixes(SWAP, "")
        disk.sync_folder(folder)
    return [segment for segment in going if segment.base_offset not in bases]
