"""Replay the share partitions of all share groups of a source, from the partitions of `__share_group_state`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from engine.log.log_directory import LogSource
from engine.replay.bounded_cache import BoundedCache
from engine.replay.groups.groups import text_of
from engine.replay.groups.share_state import (
    KeptShare,
    ShareOffset,
    ShareState,
    place_of,
    share_offset,
    share_state,
    states_of,
)
from engine.replay.internal_logs import InternalLogs
from engine.replay.partition_records import Progress, Unreadable, no_progress
from engine.replay.topic_replay import TopicReplay
from engine.topics.topic_names import SHARE_GROUP_STATE
from engine.units import Timestamp

MOST_GROUPS = 256


class SharesImage:
    """The share partitions at one moment. Thread-safe."""

    def __init__(self, states: Sequence[ShareState]) -> None:
        self._states = states
        self._found = BoundedCache(MOST_GROUPS, self._find)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the groups; lone surrogates represent bytes that are not UTF-8."""
        return frozenset(text_of(group) for state in self._states for group in state.groups)

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Bytes without readable records."""
        return tuple(each for state in self._states for each in state.unreadable)

    def partitions(self, group: str) -> Sequence[tuple[str, int]]:
        """Return the topic ids and numbers of a group's known partitions, sorted."""
        return sorted(self._of(group))

    def offset(self, group: str, topic_id: str, partition: int) -> ShareOffset | None:
        """Return a share partition's state, or None."""
        found = self._of(group).get((topic_id, partition))
        return None if found is None else share_offset(found[1])

    def coordinator(self, group: str, topic_id: str, partition: int) -> int | None:
        """Return the number of the topic's partition with a share partition, or None."""
        found = self._of(group).get((topic_id, partition))
        return None if found is None else found[0]

    def timestamp(self, group: str) -> Timestamp:
        """Return the timestamp of the newest record about a group; -1 without one."""
        return max((kept.timestamp for _, kept in self._of(group).values()), default=-1)

    def _of(self, group: str) -> Mapping[tuple[str, int], tuple[int, KeptShare]]:
        return self._found.get(group) if group in self.names else {}

    def _find(self, group: str) -> Mapping[tuple[str, int], tuple[int, KeptShare]]:
        """Return the number of the topic's partition and the state of each share partition of a group."""
        places = states_of(self._states, group.encode("utf-8", "surrogateescape"))
        return {place_of(place): known for place, known in places.items()}


def replay_shares(
    source: LogSource | InternalLogs, progress: Progress = no_progress
) -> TopicReplay[ShareState, SharesImage]:
    """Return a replay of the share partitions of a source."""
    logs = InternalLogs.of_source(source)
    return TopicReplay(logs, SHARE_GROUP_STATE, share_state, SharesImage, progress)
