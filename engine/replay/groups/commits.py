"""All commits of groups that are still on disk, in the order in which they took effect.

`__consumer_offsets` keeps each commit until it is compacted; after that only the newest of each partition is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from engine.errors import LimitExceededError
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.record.control_records import ControlRecordType
from engine.replay.keyed_state import owner_of
from engine.replay.partition_records import (
    NO_PRODUCER,
    Progress,
    ReplayedControl,
    ReplayedRecord,
    Unreadable,
    no_progress,
    replayed_records,
)
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CONSUMER_OFFSETS
from engine.units import Offset, Timestamp

_OFFSET_KEYS = (b"\x00\x00", b"\x00\x01")
"""Versions of keys of committed offsets."""


class StoredCommit(NamedTuple):
    """A commit of a group for a partition.

    Attributes:
        group, topic, partition: whose it is.
        offset: offset of the next record to consume; None for a deleted offset.
        timestamp: time of the commit; of the record for a deleted offset.
        record_offset: offset of its record in `__consumer_offsets`.
    """

    group: str
    topic: str
    partition: int
    offset: Offset | None
    timestamp: Timestamp
    record_offset: Offset

    @property
    def place(self) -> tuple[str, str, int]:
        """Group, topic and partition."""
        return self.group, self.topic, self.partition


def commits(
    logs: Iterable[PartitionLog],
    takes: Callable[[str], bool],
    progress: Progress = no_progress,
) -> Iterator[StoredCommit]:
    """Yield the commits of chosen groups; those of a transaction once it is committed.

    Damage is passed over: `SourceState.known_groups` reports it.

    Args:
        logs: partitions of `__consumer_offsets`.
        takes: returns whether a group is chosen.
        progress: called with the number of bytes read.

    Raises:
        LimitExceededError: open transactions have more commits than the budget for replayed bytes.
        OSError: a log cannot be read.
    """
    for log in logs:
        view = log.view_or_none()
        if view is not None:
            yield from _commits(view, takes, progress)


def _commits(
    view: LogView, takes: Callable[[str], bool], progress: Progress
) -> Iterator[StoredCommit]:
    waiting: dict[int, list[StoredCommit]] = {}
    left = view.log.budgets.replayed_bytes
    records = replayed_records(view, view.log_start_offset, view.log_end_offset, progress)
    for each in records:
        if isinstance(each, Unreadable):
            continue
        if isinstance(each, ReplayedControl):
            ended = waiting.pop(each.producer_id, [])
            if each.type is ControlRecordType.COMMIT:
                yield from ended
            continue
        commit = _commit_of(each, takes)
        if commit is None:
            continue
        if each.producer_id == NO_PRODUCER:
            yield commit
            continue
        left -= len(each.key or b"") + len(each.value or b"")
        if left < 0:
            raise LimitExceededError(
                f"the commits of open transactions in {view.name} take too much memory",
                limit="replayed_bytes",
            )
        waiting.setdefault(each.producer_id, []).append(commit)


def _commit_of(record: ReplayedRecord, takes: Callable[[str], bool]) -> StoredCommit | None:
    key = record.key
    owner = None if key is None or key[:2] not in _OFFSET_KEYS else owner_of(key)
    if key is None or owner is None:
        return None
    group = owner.decode("utf-8", "surrogateescape")
    if not takes(group):
        return None
    decoder = decoder_for(CONSUMER_OFFSETS)
    assert decoder is not None
    decoded = decoder.decode(key, record.value)
    if not isinstance(decoded.key, dict) or decoded.key_note or decoded.value_note:
        return None
    place, value = decoded.key["data"], decoded.value
    offset, at = None, record.timestamp
    if isinstance(value, dict):
        offset, at = value["data"]["offset"], value["data"]["commitTimestamp"]
    return StoredCommit(group, place["topic"], place["partition"], offset, at, record.offset)


class StandingStill:
    """Since when each group has committed the same offset of a partition, as far as commits are on disk."""

    def __init__(self, found: Iterable[StoredCommit]) -> None:
        self._runs: dict[tuple[str, str, int], tuple[Offset, Timestamp]] = {}
        for commit in found:
            if commit.offset is None:
                self._runs.pop(commit.place, None)
                continue
            known = self._runs.get(commit.place)
            if known is None or known[0] != commit.offset:
                self._runs[commit.place] = commit.offset, commit.timestamp

    def since(self, group: str, topic: str, partition: int) -> Timestamp | None:
        """Return the time of the first commit of the newest run of one offset; None without a commit."""
        known = self._runs.get((group, topic, partition))
        return None if known is None else known[1]
