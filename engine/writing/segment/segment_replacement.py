"""Replace segments so that a crash leaves the old ones or the new ones, never less.

New segments are written with the suffix .cleaned and flushed. Then they are renamed to .swap, the
largest base offset first: while a .cleaned file exists, the .swap files do not count. Once all new
segments are .swap, they count; the old ones are renamed to .deleted, and the new ones get their
names. Loading the log after a crash finishes the replacement or undoes it.

The folder is synced after each of the three steps, and in the first and the last after each new
segment, so that the names reach the device in order. Otherwise loading would delete a segment that
is not renamed between two that are, or the reverse.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from engine.errors import CorruptRecordError, StateError
from engine.files.file_names import FileState
from engine.log.log_segments import LogSegments
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.units import Offset, Position
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.segment_files import FAILURES, delete_files_if_exist
from engine.writing.segment.segment_rules import OUR_SEGMENT_RULES, SegmentRules
from engine.writing.segment.writable_segment import WritableSegment

logger = logging.getLogger(__name__)

CLEANED = FileState.CLEANED.value
SWAP = FileState.SWAP.value
DELETED = FileState.DELETED.value

_COPY_CHUNK = 1024 * 1024

_by_offset = attrgetter("base_offset")


class SplitSegmentResult(NamedTuple):
    """Segments before and after a split.

    Attributes:
        deleted_segments: old segments, without those with the base offset of a new one.
        new_segments: in order.
    """

    deleted_segments: list[WritableSegment]
    new_segments: list[WritableSegment]


def delete_segment_files(
    folder: WritableLogFolder, segments: Iterable[WritableSegment], *, async_delete: bool
) -> None:
    """Rename the files of segments to .deleted, and remove them now or after file.delete.delay.ms.

    Raises:
        OSError: a file cannot be renamed.
        LogDirFailureError: a file cannot be removed now.
    """
    doomed = list(segments)
    for segment in doomed:
        if not segment.files.has_suffix(DELETED):
            segment.files.change_suffixes("", DELETED)

    def delete() -> None:
        logger.info("deleting the files of %s in %s", doomed, folder.log_dir)
        with folder.reporting("cannot delete segments of"):
            for segment in doomed:
                segment.files.delete_if_exists()

    if async_delete:
        folder.scheduler.schedule("delete-file", delete, folder.config.file_delete_delay_ms)
    else:
        delete()


def create_new_cleaned_segment(
    folder: WritableLogFolder, base_offset: Offset, rules: SegmentRules = OUR_SEGMENT_RULES
) -> WritableSegment:
    """Create an empty segment with the suffix .cleaned; remaining files of that name are removed."""
    delete_files_if_exist(folder.path, base_offset, CLEANED, disk=folder.disk)
    return WritableSegment.create(folder, base_offset, suffix=CLEANED, rules=rules)


def split_overflowed_segment(
    folder: WritableLogFolder, existing: LogSegments[WritableSegment], segment: WritableSegment
) -> SplitSegmentResult:
    """Replace a segment with offsets too far from its base offset by several segments.

    Raises:
        ValueError: the segment is not part of the log, or all its offsets fit; nothing has changed.
        OSError: a new segment cannot be written, and nothing has changed; or see `replace_segments`.
    """
    if not segment.log.path.endswith(".log"):
        raise ValueError(f"cannot split {segment.log.path}: it is not part of the log")
    if not segment.has_overflow():
        raise ValueError(f"cannot split {segment.log.path}: its offsets are not too far apart")
    logger.info("splitting %r: its offsets are too far apart", segment)
    parts: list[WritableSegment] = []
    try:
        _copy_parts(folder, segment, parts)
    except BaseException:
        for part in parts:
            _drop(part)
        raise
    logger.info("replacing %r with %r", segment, parts)
    return SplitSegmentResult(replace_segments(folder, existing, parts, [segment]), parts)


def _copy_parts(
    folder: WritableLogFolder, segment: WritableSegment, parts: list[WritableSegment]
) -> None:
    """Copy the batches of a segment to new ones, which are added to `parts`."""
    source, position = segment.log, 0
    while position < source.size:
        first = next(source.batches_from(position))
        part = create_new_cleaned_segment(folder, first.base_offset, segment.rules)
        parts.append(part)
        appended = append_from_file(part, source, position)
        if not appended:
            raise StateError(f"no batch could be copied from byte {position} of {segment!r}")
        position += appended
    for part in parts:
        part.on_become_inactive_segment()
        part.flush()
        part.files.set_last_modified(segment.files.last_modified)
    total = sum(part.size for part in parts)
    if total != source.size:
        raise StateError(f"the parts of {segment!r} have {total} bytes")


def append_from_file(segment: WritableSegment, records: FileRecords, start: Position) -> int:
    """Append the batches of a file from a position on, up to the first with an offset too large for the segment.

    Returns:
        The number of appended bytes.
    """
    position = start
    while position < records.end:
        appended = _append_chunk(segment, records, position)
        if not appended:
            break
        position += appended
    return position - start


def _append_chunk(segment: WritableSegment, records: FileRecords, position: Position) -> int:
    """Append batches of less than a chunk, or one larger batch; return the number of bytes."""
    size, last_offset = 0, -1
    for batch in records.batches_from(position):
        if not segment.can_hold(batch.last_offset):
            break
        if size and size + batch.size >= _COPY_CHUNK:
            break
        last_offset = batch.last_offset
        size += batch.size
    if size:
        buffer = bytearray(size)
        if records.read_into(buffer, position) != size:
            raise CorruptRecordError(
                "the file ends inside a batch", path=records.path, position=position
            )
        segment.append(last_offset, MemoryRecords(buffer))
    return size


def _drop(part: WritableSegment) -> None:
    """Close and delete an unused segment; errors are only logged."""
    for step in (part.close, part.files.delete_if_exists):
        try:
            step()
        except FAILURES as error:
            logger.warning("cannot delete %s: %s", part.log.path, error)


def replace_segments(
    folder: WritableLogFolder,
    existing: LogSegments[WritableSegment],
    new: Sequence[WritableSegment],
    old: Sequence[WritableSegment],
    *,
    is_recovered_swap_file: bool = False,
) -> list[WritableSegment]:
    """Replace segments by flushed ones; the files of the old ones are removed later.

    Args:
        folder: folder of the log.
        existing: segments of the log, which are changed.
        new: segments with the suffix .cleaned, or .swap with `is_recovered_swap_file`.
        old: segments to replace; those no longer in `existing` are ignored.
        is_recovered_swap_file: whether this finishes a replacement that a crash interrupted.

    Returns:
        The old segments, without those with the base offset of a new one.

    Raises:
        OSError: some files may be renamed and others not; loading the log again repairs that.
    """
    coming = sorted(new, key=_by_offset)
    going = sorted((each for each in old if each.base_offset in existing), key=_by_offset)
    folder.sync()
    if not is_recovered_swap_file:
        for segment in reversed(coming):
            segment.files.change_suffixes(CLEANED, SWAP)
            folder.sync()
    for segment in reversed(coming):
        existing.add(segment)
    bases = {segment.base_offset for segment in coming}
    for segment in going:
        if segment.base_offset not in bases:
            existing.remove(segment.base_offset)
        delete_segment_files(folder, [segment], async_delete=True)
    folder.sync()
    for segment in coming:
        segment.files.change_suffixes(SWAP, "")
        folder.sync()
    return [segment for segment in going if segment.base_offset not in bases]
