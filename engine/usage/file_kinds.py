"""Kinds of files by what they are for: what a count of bytes is split into."""

from __future__ import annotations

from enum import Enum

from engine.files.file_names import (
    REMOTE_INDEX_CACHE_FOLDER,
    SEGMENT_KINDS,
    FileKind,
    FileState,
    parse_file_name,
    parse_tiered_file_name,
)


class UsageKind(Enum):
    """What a file is for; the value is its name in JSON."""

    LOG = "log"
    INDEXES = "indexes"
    SIDE_FILES = "sideFiles"
    METADATA_SNAPSHOTS = "metadataSnapshots"
    DELETED = "deleted"
    CLEANED = "cleaned"
    SWAP = "swap"
    LOG_DIR_FILES = "logDirFiles"
    TIERED_CACHE = "tieredCache"
    OTHER = "other"
    FOLDERS = "folders"


_STATES = {
    FileState.DELETED: UsageKind.DELETED,
    FileState.CLEANED: UsageKind.CLEANED,
    FileState.SWAP: UsageKind.SWAP,
    FileState.PARTIAL: UsageKind.OTHER,
    FileState.TEMPORARY: UsageKind.OTHER,
}
_SIDE_FILES = (
    *(FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCH_CHECKPOINT),
    FileKind.PARTITION_METADATA,
)


def usage_kind(folders: str, name: str) -> UsageKind:
    """Return what a file is for.

    Args:
        folders: path of its folder in the log dir, "" for the log dir itself.
        name: name of the file.
    """
    if folders.partition("/")[0] == REMOTE_INDEX_CACHE_FOLDER:
        return UsageKind.TIERED_CACHE
    parsed = parse_file_name(name)
    if parsed is None:
        return _tiered_kind(name)
    if parsed.state is not FileState.LIVE:
        return _STATES[parsed.state]
    if parsed.kind in SEGMENT_KINDS:
        return UsageKind.LOG if parsed.kind is FileKind.LOG else UsageKind.INDEXES
    if parsed.kind is FileKind.KRAFT_CHECKPOINT:
        return UsageKind.METADATA_SNAPSHOTS
    return UsageKind.SIDE_FILES if parsed.kind in _SIDE_FILES else UsageKind.LOG_DIR_FILES


def _tiered_kind(name: str) -> UsageKind:
    """Return what an object of tiered storage is for."""
    parsed = parse_tiered_file_name(name)
    if parsed is None:
        return UsageKind.OTHER
    if parsed.suffix == FileKind.LOG.value:
        return UsageKind.LOG
    is_index = "ind" in parsed.suffix  # .index, .indexes, .timeindex, .time_index, .txnindex
    return UsageKind.INDEXES if is_index else UsageKind.SIDE_FILES
