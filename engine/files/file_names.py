"""Build and parse the names of files and folders in a log dir.

Kafka's own parser also accepts names that only look right (``0.log``, ``+5.log``, digits of other
scripts); this module accepts only names that Kafka writes: exactly 20 ASCII digits, at most a
64-bit offset. Names are text as os.fsdecode returns it. See LogFileUtils, LocalLog, Topic and
Snapshots in Kafka.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from engine.errors import InvalidNameError
from engine.units import MAX_INT32, MAX_INT64, Offset, TopicPartition

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
SPARK_MANIFEST = "kafkafs-spark.json"
"""File in a log dir made by `kafkafs.spark.write`; it states the sources of the log dir."""
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
QUORUM_STATE = "quorum-state"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
REMOTE_INDEX_CACHE_FOLDER = "remote-log-index-cache"

SAME_NAMES: Mapping[str, str] = MappingProxyType({})
"""Names of files by their names in the log, when these are the same."""
MAX_TOPIC_LENGTH = 249
_MAX_FOLDER_LENGTH = 255


class FileKind(Enum):
    """Kind of a file in a log dir; the value is its name, or the part after its offset."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    KRAFT_CHECKPOINT = ".checkpoint"
    LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
    PARTITION_METADATA = "partition.metadata"
    META_PROPERTIES = "meta.properties"
    OFFSET_CHECKPOINT = "offset-checkpoint"
    CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
    LOCK = ".lock"
    QUORUM_STATE = "quorum-state"
    BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


SEGMENT_KINDS = (
    *(FileKind.LOG, FileKind.OFFSET_INDEX),
    *(FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX),
)
"""Kinds of a segment's files."""


class FileState(Enum):
    """State of a file: part of the log, or about to be added or removed; the value is the suffix."""

    LIVE = ""
    DELETED = ".deleted"
    CLEANED = ".cleaned"
    SWAP = ".swap"
    PARTIAL = ".part"
    TEMPORARY = ".tmp"


class FileName(NamedTuple):
    """A parsed file name.

    Attributes:
        kind, state: the file's kind, and whether it is part of the log.
        base_offset: offset in the name (for a snapshot or checkpoint the end offset), None for fixed names.
        epoch: leader epoch of a KRaft checkpoint, else None.
    """

    kind: FileKind
    base_offset: Offset | None = None
    state: FileState = FileState.LIVE
    epoch: int | None = None


class FolderState(Enum):
    """State of a partition folder: the log itself, or set aside; the value is the suffix."""

    LOG = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class FolderName(NamedTuple):
    """A parsed folder name; `unique_id` distinguishes folders that are not the log."""

    topic_partition: TopicPartition
    state: FolderState = FolderState.LOG
    unique_id: str | None = None


class TieredFileName(NamedTuple):
    """A parsed name of a tiered storage file; `suffix` begins with its dot."""

    base_offset: Offset
    segment_id: str
    suffix: str


_FIXED = {
    LEADER_EPOCH_CHECKPOINT: FileKind.LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA: FileKind.PARTITION_METADATA,
    META_PROPERTIES: FileKind.META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    CLEAN_SHUTDOWN: FileKind.CLEAN_SHUTDOWN,
    LOCK: FileKind.LOCK,
    QUORUM_STATE: FileKind.QUORUM_STATE,
    BOOTSTRAP_CHECKPOINT: FileKind.BOOTSTRAP_CHECKPOINT,
}
_NAMED: dict[str, FileName] = {
    **{name: FileName(kind) for name, kind in _FIXED.items()},
    **{
        f"{name}.tmp": FileName(kind, state=FileState.TEMPORARY)
        for name, kind in _FIXED.items()
        if kind is not FileKind.LOCK
    },
}
_SEGMENT_STATES = (FileState.LIVE, FileState.DELETED, FileState.CLEANED, FileState.SWAP)
_STATES = {
    FileKind.LOG: _SEGMENT_STATES,
    FileKind.OFFSET_INDEX: _SEGMENT_STATES,
    FileKind.TIME_INDEX: _SEGMENT_STATES,
    FileKind.TRANSACTION_INDEX: _SEGMENT_STATES,
    FileKind.PRODUCER_SNAPSHOT: (FileState.LIVE, FileState.DELETED),
}
_KINDS = {
    kind.value + state.value: (kind, state) for kind, states in _STATES.items() for state in states
}
_SEGMENT = re.compile(r"([0-9]{20})(\.[a-z.]+)")
_KRAFT = re.compile(
    r"([0-9]{20})-([0-9]{10})(?:\.checkpoint(\.deleted)?|-[^/]*\.checkpoint(\.part))"
)
_TIERED_FILE = re.compile(r"([0-9]{20})-([A-Za-z0-9_-]{22})(\.[a-z_-]+)")
_TIERED_FOLDER = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,9})-([A-Za-z0-9_-]{22})")
_TIERED_TOPIC = re.compile(r"([a-zA-Z0-9._-]+)-([A-Za-z0-9_-]{22})")
_FOLDER = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)
_MARKED_FOLDER = re.compile(
    r"(\S+)-(0|[1-9][0-9]{0,9})\.([^\s.]+)(-delete|-future|-stray)", re.ASCII
)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")


@lru_cache(1024)  # the partitions of a log dir have many names in common
def parse_file_name(name: str) -> FileName | None:
    """Return the parsed name; None for a name that Kafka does not write."""
    match = _SEGMENT.fullmatch(name)
    if match is None:
        return _NAMED.get(name) or _parse_kraft_name(name)
    found = _KINDS.get(match[2])
    if found is None:
        return None
    offset = int(match[1])
    return FileName(found[0], offset, found[1]) if offset <= MAX_INT64 else None


def _parse_kraft_name(name: str) -> FileName | None:
    match = _KRAFT.fullmatch(name)
    if match is None:
        return None
    offset, epoch = int(match[1]), int(match[2])
    if offset > MAX_INT64 or epoch > MAX_INT32:
        return None
    state = FileState(match[3] or match[4] or "")
    return FileName(FileKind.KRAFT_CHECKPOINT, offset, state, epoch)


def parse_tiered_file_name(name: str) -> TieredFileName | None:
    """Return the parsed name of a segment's file, as LocalTieredStorage and Aiven's plugin write it; else None."""
    match = _TIERED_FILE.fullmatch(name)
    if match is None or int(match[1]) > MAX_INT64:
        return None
    return TieredFileName(int(match[1]), match[2], match[3])


def parse_tiered_folder_name(name: str) -> tuple[TopicPartition, str] | None:
    """Return the partition and topic id in the name of a LocalTieredStorage folder; None for other names.

    >>> parse_tiered_folder_name("orders-0-sgf5MsZgRTuEMv68ZXKJbQ")
    (TopicPartition(topic='orders', partition=0), 'sgf5MsZgRTuEMv68ZXKJbQ')
    """
    match = _TIERED_FOLDER.fullmatch(name)
    if match is None or int(match[2]) > MAX_INT32:
        return None
    return TopicPartition(match[1], int(match[2])), match[3]


def parse_tiered_topic_name(name: str) -> tuple[str, str] | None:
    """Return the topic and its id in the name of a topic folder of Aiven's plugin; None for other names.

    >>> parse_tiered_topic_name("orders-sgf5MsZgRTuEMv68ZXKJbQ")
    ('orders', 'sgf5MsZgRTuEMv68ZXKJbQ')
    """
    match = _TIERED_TOPIC.fullmatch(name)
    return None if match is None else (match[1], match[2])


def log_file_name(base_offset: Offset, state: FileState = FileState.LIVE) -> str:
    """Return the name of a segment's records file.

    Kafka names a segment also after a negative offset, which only damage gives to a batch.

    >>> log_file_name(35), log_file_name(-35)
    ('00000000000000000035.log', '-00000000000000000035.log')
    """
    return _offset_name(base_offset, FileKind.LOG, state)


def offset_index_name(base_offset: Offset, state: FileState = FileState.LIVE) -> str:
    """Return the name of a segment's offset index."""
    return _offset_name(base_offset, FileKind.OFFSET_INDEX, state)


def time_index_name(base_offset: Offset, state: FileState = FileState.LIVE) -> str:
    """Return the name of a segment's time index."""
    return _offset_name(base_offset, FileKind.TIME_INDEX, state)


def transaction_index_name(base_offset: Offset, state: FileState = FileState.LIVE) -> str:
    """Return the name of a segment's transaction index."""
    return _offset_name(base_offset, FileKind.TRANSACTION_INDEX, state)


def producer_snapshot_name(offset: Offset, state: FileState = FileState.LIVE) -> str:
    """Return the name of the producer snapshot of the state just before `offset`."""
    return _offset_name(offset, FileKind.PRODUCER_SNAPSHOT, state)


def kraft_checkpoint_name(end_offset: Offset, epoch: int, state: FileState = FileState.LIVE) -> str:
    """Return the name of the KRaft snapshot of all records before `end_offset`."""
    if not 0 <= epoch <= MAX_INT32:
        raise ValueError(f"no epoch: {epoch}")
    digits = _offset_digits(end_offset)
    return f"{digits}-{epoch:010d}{FileKind.KRAFT_CHECKPOINT.value}{state.value}"


def _offset_name(offset: Offset, kind: FileKind, state: FileState) -> str:
    # As `value`, which Python computes by two calls: names are made for each file of each segment.
    return f"{_offset_digits(offset)}{kind._value_}{state._value_}"


def _offset_digits(offset: Offset) -> str:
    if not -MAX_INT64 - 1 <= offset <= MAX_INT64:
        raise ValueError(f"no offset: {offset}")
    return f"{offset:020d}" if offset >= 0 else f"-{-offset:020d}"


@lru_cache(256)  # each check of a partition asks for it again
def parse_folder_name(name: str) -> FolderName:
    """Return the partition of a folder. Raises InvalidNameError for a name that Kafka does not write.

    The topic is the text before the last dash, even if no client may create such a topic: its
    folder can still be read.
    """
    marked = bool(name) and name.endswith(("-delete", "-future", "-stray"))
    match = (_MARKED_FOLDER if marked else _FOLDER).fullmatch(name or "")
    if match is None or int(match[2]) > MAX_INT32:
        raise InvalidNameError(
            f"{name!a} is not the name of a partition's folder:"
            " topic-partition, or topic-partition.id-delete, -future, -stray"
        )
    # Partitions of a topic share its name.
    partition = TopicPartition(sys.intern(match[1]), int(match[2]))
    if not marked:
        return FolderName(partition)
    return FolderName(partition, FolderState(match[4]), match[3])


def folder_name(
    topic_partition: TopicPartition,
    state: FolderState = FolderState.LOG,
    unique_id: str | None = None,
) -> str:
    """Return the folder name of a partition; the topic is cut if -delete or -stray would make it longer than 255."""
    topic, partition = topic_partition
    if state is FolderState.LOG:
        return f"{topic}-{partition}"
    if not unique_id:
        raise ValueError("a folder that is not the log needs an id")
    suffix = f"-{partition}.{unique_id}{state.value}"
    if state is not FolderState.FUTURE:
        topic = topic[: max(_MAX_FOLDER_LENGTH - len(suffix), 0)]
    return topic + suffix


def has_only_topic_characters(topic: str) -> bool:
    """Return whether all characters are ASCII letters, digits, '.', '_' and '-'."""
    return not topic or _TOPIC.fullmatch(topic) is not None


def validate_topic(name: str) -> None:
    """Raise InvalidNameError for a topic name that Kafka does not allow."""
    if not name:
        reason = "it is empty"
    elif name in (".", ".."):
        reason = f"{name!r} is not allowed"
    elif len(name) > MAX_TOPIC_LENGTH:
        reason = f"it has {len(name)} characters, {MAX_TOPIC_LENGTH} are allowed"
    elif not has_only_topic_characters(name):
        reason = f"{name!a} holds other characters than ASCII letters, digits, '.', '_' and '-'"
    else:
        return
    raise InvalidNameError(f"no topic name: {reason}")


def has_collision_characters(topic: str) -> bool:
    """Return whether the topic has '.' or '_', which are the same in names of metrics."""
    return "." in topic or "_" in topic


def unify_collision_characters(topic: str) -> str:
    """Return the topic as metrics name it, with '_' for '.'."""
    return topic.replace(".", "_")


def has_collision(first: str, second: str) -> bool:
    """Return whether two topics have the same metric names."""
    return unify_collision_characters(first) == unify_collision_characters(second)
