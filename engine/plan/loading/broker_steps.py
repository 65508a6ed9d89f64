"""The steps of a broker's loading: see LogLoader in Kafka, and `broker_versions` for older brokers.

They differ from ours (`engine.writing.log.loading_steps`): names are parsed by Java's rules (`java_text`), offsets may
be negative; a segment without an offset index is recovered at once, before its predecessors are; a missing time
index stays missing; an empty last segment stays even if the segment before it lost its end; a contradiction in
the records empties the segment or ends the start.
"""

from __future__ import annotations

import os

from engine.errors import CorruptIndexError, InvalidOffsetError, OffsetOverflowError
from engine.files.file_names import FileKind, FileState, log_file_name
from engine.plan.loading.broker_epochs import NoCheckpoint
from engine.plan.loading.broker_failure import stops
from engine.plan.loading.broker_producers import BROKER_PRODUCER_RULES
from engine.plan.loading.broker_recovery import NotAllGood, recover_by_batch, recover_in_chunks
from engine.plan.loading.broker_segments import BROKER_SEGMENT_RULES
from engine.plan.loading.java_text import offset_in_name
from engine.units import MAX_INT64, Offset
from engine.writing.log.log_loader import (
    LoadingRules,
    LogLoader,
    SegmentOverflow,
    splitting_overflows,
)
from engine.writing.segment.segment_files import time_index_path
from engine.writing.segment.writable_segment import WritableSegment

DELETED = FileState.DELETED.value
CLEANED = FileState.CLEANED.value
SWAP = FileState.SWAP.value
LOG = FileKind.LOG.value
INDEXES = tuple(
    kind.value for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
)
_SNAPSHOT_DELETED = FileKind.KRAFT_CHECKPOINT.value + DELETED


# Leftovers


def clear_leftovers(loader: LogLoader) -> None:
    """Remove incomplete files, and finish complete replacements of segments."""
    first, end = MAX_INT64, -MAX_INT64 - 1
    for name in _remove_unfinished(loader):
        if not name.removesuffix(SWAP).endswith(LOG):
            continue
        segment = loader.open_segment(offset_of(loader, name), suffix=SWAP)
        first = min(first, segment.base_offset)
        end = max(end, segment.read_next_offset())
        segment.close_handlers()
    for name in file_names(loader):
        offset = None if name.endswith(SWAP) else offset_in_name(name)
        if offset is not None and first <= offset < end:
            loader.disk.remove(path_of(loader, name))
    for name in file_names(loader):
        if name.endswith(SWAP):
            path = path_of(loader, name)
            loader.disk.rename(path, path.removesuffix(SWAP))


def _remove_unfinished(loader: LogLoader) -> list[str]:
    """Remove incomplete files; return the names of the .swap files that stay."""
    cleaned: list[str] = []
    swaps: list[str] = []
    for name in file_names(loader):
        if name.endswith(DELETED) and not name.endswith(_SNAPSHOT_DELETED):
            loader.disk.remove(path_of(loader, name))
        elif name.endswith(CLEANED):
            offset_of(loader, name)
            cleaned.append(name)
        elif name.endswith(SWAP):
            swaps.append(name)
    first_cleaned = min((offset_of(loader, name) for name in cleaned), default=MAX_INT64)
    undone = [name for name in swaps if offset_of(loader, name) >= first_cleaned]
    for name in undone + cleaned:
        loader.disk.remove(path_of(loader, name))
    return [name for name in swaps if name not in undone]


def file_names(loader: LogLoader) -> list[str]:
    """Return the names of the files in the log's folder."""
    disk = loader.disk
    return [name for name in disk.list(loader.folder) if not disk.is_dir(path_of(loader, name))]


def path_of(loader: LogLoader, name: str) -> str:
    """Return the path of a name in the log's folder."""
    return os.path.join(loader.folder, name)


def offset_of(loader: LogLoader, name: str) -> Offset:
    """Return the offset in a file's name. Raises BrokerFailure."""
    offset = offset_in_name(name)
    if offset is None:
        java = "NumberFormatException" if "." in name else "StringIndexOutOfBoundsException"
        raise stops(java, f"{path_of(loader, name)} has no offset before its first dot")
    return offset


# Segments


def open_segments(loader: LogLoader) -> None:
    """Open all segments, and recover at once those whose indexes are missing or damaged."""
    loader.segments.close()
    loader.segments.clear()
    for name in file_names(loader):
        if name.endswith(INDEXES):
            log_name = log_file_name(offset_of(loader, name))
            if not loader.disk.exists(path_of(loader, log_name)):
                loader.disk.remove(path_of(loader, name))
        elif name.endswith(LOG):
            _open(loader, offset_of(loader, name))


def _open(loader: LogLoader, base_offset: Offset) -> None:
    has_time_index = loader.disk.exists(time_index_path(loader.folder, base_offset))
    segment = loader.open_segment(base_offset)
    try:
        segment.sanity_check(not has_time_index)
    except (FileNotFoundError, CorruptIndexError):
        recover(loader, segment)
    loader.segments.add(segment)


# Recovery


def recover(loader: LogLoader, segment: WritableSegment) -> int:
    """Rebuild a segment's indexes, and truncate it after the last good batch; return the number of bytes truncated."""
    leader_epochs = loader.leader_epochs
    producers = loader.producers_before(segment)
    # Rebuilt once: that writes snapshots, and a second rebuild from them would lack expired producers.
    before = producers.copied()
    begun = leader_epochs.with_checkpoint(NoCheckpoint())
    try:
        try:
            truncated = recover_in_chunks(segment, producers, begun, loader.disk)
            # These epochs are newer than those before; without any, no file is written.
            latest = leader_epochs.latest_epoch
            leader_epochs.assign_all(
                each for each in begun.epoch_entries if latest is None or each.epoch > latest
            )
        except NotAllGood:
            producers = before
            truncated = recover_by_batch(segment, producers, leader_epochs)
    except OffsetOverflowError as error:
        raise SegmentOverflow(segment) from error
    loader.note_recovered(segment, producers)
    return truncated


def recover_unflushed(loader: LogLoader) -> None:
    """Recover the segments from the recovery point on, and delete those after the first damaged one."""
    if not loader.needs_recovery:
        return
    unflushed = list(loader.segments.values(loader.recovery_point, MAX_INT64))
    for at, segment in enumerate(unflushed):
        try:
            truncated = recover(loader, segment)
        except InvalidOffsetError:
            truncated = segment.truncate_to(segment.base_offset)
        if truncated > 0:
            loader.remove_and_delete_later(unflushed[at + 1 :])
            return


BROKER_RULES = LoadingRules(
    (
        clear_leftovers,
        splitting_overflows(open_segments),
        splitting_overflows(recover_unflushed),
    ),
    BROKER_SEGMENT_RULES,
    BROKER_PRODUCER_RULES,
)
