"""Replay all groups of a source from the partitions of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from engine.log.log_directory import LogSource
from engine.replay.bounded_cache import BoundedCache
from engine.replay.groups.group import Group, build_group
from engine.replay.internal_logs import InternalLogs
from engine.replay.keyed_state import KeyedState, Owned, carried_forward, owner_of
from engine.replay.partition_records import Progress, Unreadable, no_progress
from engine.replay.topic_replay import TopicReplay
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CONSUMER_OFFSETS
from engine.units import Timestamp

MOST_GROUPS = 4096
_NOTHING: Owned = {}


class GroupsImage:
    """The groups at one moment. Thread-safe."""

    def __init__(self, states: Sequence[KeyedState]) -> None:
        self._states = states
        self._built = BoundedCache(MOST_GROUPS, self._build)

    def __len__(self) -> int:
        return len(self._places)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the groups, sorted; lone surrogates represent bytes that are not UTF-8."""
        return tuple(sorted(text_of(owner) for owner in self._places))

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Bytes without readable records."""
        return tuple(each for state in self._states for each in state.unreadable)

    @cached_property
    def doubled(self) -> tuple[str, ...]:
        """Groups with records in several partitions; the partition with the newest record is used."""
        seen: set[bytes] = set()
        twice: set[bytes] = set()
        for state, waiting in zip(self._states, self._waiting, strict=True):
            here = state.owners.keys() | waiting.keys()
            twice |= seen & here
            seen |= here
        return tuple(sorted(text_of(owner) for owner in twice))

    def group(self, name: str) -> Group | None:
        """Return the group of a name, or None."""
        owner = name.encode("utf-8", "surrogateescape")
        return self._built.get(owner) if owner in self._places else None

    def _build(self, owner: bytes) -> Group:
        decoder = decoder_for(CONSUMER_OFFSETS)
        assert decoder is not None
        place = self._places[owner]
        state = self._states[place]
        return build_group(
            text_of(owner),
            state.owners.get(owner, _NOTHING),
            self._waiting[place].get(owner, _NOTHING),
            state.partition.partition,
            decoder,
        )

    @cached_property
    def _places(self) -> Mapping[bytes, int]:
        """Index of each group's state."""
        places: dict[bytes, int] = {}
        for place, (state, waiting) in enumerate(zip(self._states, self._waiting, strict=True)):
            for owner in state.owners.keys() | waiting.keys():
                known = places.get(owner)
                if known is None or self._newest(place, owner) > self._newest(known, owner):
                    places[owner] = place
        return places

    @cached_property
    def _waiting(self) -> Sequence[Mapping[bytes, Owned]]:
        """Newest entries of open transactions by group and key, for each state."""
        found = []
        for state in self._states:
            waiting: dict[bytes, Owned] = {}
            for entries in state.pending.values():
                for key, entry in entries.items():
                    mine = waiting.setdefault(owner_of(key) or b"", {})
                    if key not in mine or mine[key].offset < entry.offset:
                        mine[key] = entry
            found.append(waiting)
        return found

    def _newest(self, place: int, owner: bytes) -> Timestamp:
        entries = (
            *self._states[place].owners.get(owner, _NOTHING).values(),
            *self._waiting[place].get(owner, _NOTHING).values(),
        )
        return max((entry.timestamp for entry in entries), default=-1)


def replay_groups(
    source: LogSource | InternalLogs, progress: Progress = no_progress
) -> TopicReplay[KeyedState, GroupsImage]:
    """Return a replay of the groups of a source."""
    logs = InternalLogs.of_source(source)
    return TopicReplay(logs, CONSUMER_OFFSETS, carried_forward, GroupsImage, progress)


def text_of(name: bytes) -> str:
    """Return the name of a group or transactional id as text; bytes that are not UTF-8 become lone surrogates."""
    return name.decode("utf-8", "surrogateescape")
