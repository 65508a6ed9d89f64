"""The partitions of a share group, as kafka-share-groups describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from engine.json_facts import facts_of
from engine.replay.groups.group import Group, Member
from engine.replay.groups.share_state import ShareOffset
from engine.replay.groups.shares import SharesImage
from engine.replay.log_ends import LogEnds
from engine.topics.topic_names import SHARE_GROUP_STATE
from engine.units import Offset

NOTHING = ShareOffset()


class SharePlace(NamedTuple):
    """A partition of a share group. `topic` is the topic id if the name is unknown."""

    topic: str
    partition: int
    topic_id: str

    @property
    def name(self) -> str:
        """Topic and partition."""
        return f"{self.topic}-{self.partition}"


class ShareRow(NamedTuple):
    """A partition of a share group.

    Attributes:
        place: the partition.
        state: None without a record in `__share_group_state`.
        coordinator: its partition of `__share_group_state`.
        log_end: None if the source does not have the partition.
        is_initialized: whether the group lists it as initialized; kafka-share-groups shows only these.
        members: ids of the members with this partition.
    """

    place: SharePlace
    state: ShareOffset | None
    coordinator: int | None
    log_end: Offset | None
    is_initialized: bool
    members: tuple[str, ...]

    @property
    def lag(self) -> int | None:
        """Number of unfinished offsets, gaps included; None if unknown.

        Computed like a broker: from the start offset to the log end, without those completed in between. Kafka's clients
        do not show negative results either.
        """
        state = self.state or NOTHING
        start, complete = state.start_offset, state.delivery_complete_count
        if start is None or complete is None or self.log_end is None:
            return None
        lag = self.log_end - start - complete
        return None if lag < 0 else lag

    @property
    def most_deliveries(self) -> int | None:
        """Largest delivery count of a record in flight; None without one."""
        batches = self.state.batches if self.state is not None else ()
        return max((batch.delivery_count for batch in batches), default=None)

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        facts = (self.state or NOTHING).facts()
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "startOffset": facts.pop("startOffset"),
            "logEndOffset": self.log_end,
            "lag": self.lag,
            "leaderEpoch": facts.pop("leaderEpoch"),
            "stateEpoch": facts.pop("stateEpoch"),
            "deliveryCompleteCount": facts.pop("deliveryCompleteCount"),
            **facts_of(self, "most_deliveries topicId=place.topic_id is_initialized"),
            "memberIds": list(self.members),
            "coordinatorPartition": self.coordinator,
            **facts,
        }


class ShareRows:
    """Rows of a share group at one moment.

    Args:
        group: the group.
        shares: states of share partitions.
        topic_name: returns the topic of an id.
        ends: log ends.
    """

    def __init__(
        self,
        group: Group,
        shares: SharesImage,
        topic_name: Callable[[str], str | None],
        ends: LogEnds,
    ) -> None:
        self._group = group
        self._shares = shares
        self._topic_name = topic_name
        self._ends = ends

    def __iter__(self) -> Iterator[ShareRow]:
        """Yield the rows by topic and partition. Raises OSError, UnsupportedCodecError."""
        return map(self.row, self.places)

    @cached_property
    def places(self) -> list[SharePlace]:
        """Partitions of the group, by topic and number.

        If two topics of the group have the same name (one was deleted and recreated), one of them is shown by its id.
        """
        found = {*self._shares.partitions(self._group.group_id), *self._initialized, *self._members}
        first = {topic_id for topic_id, _ in self._initialized}
        topic_ids = sorted({topic_id for topic_id, _ in found}, key=lambda each: each not in first)
        names = self._names(topic_ids, _recorded_names(self._group))
        return sorted(SharePlace(names[each], number, each) for each, number in found)

    def row(self, place: SharePlace) -> ShareRow:
        """Return the row of a partition. Raises OSError, UnsupportedCodecError."""
        key = place.topic_id, place.partition
        return ShareRow(
            place,
            self._shares.offset(self._group.group_id, *key),
            self._shares.coordinator(self._group.group_id, *key),
            self._ends.end_of(place.topic, place.partition),
            key in self._initialized,
            tuple(self._members.get(key, ())),
        )

    def notes(self) -> Iterator[str]:
        """Yield notes about records that are unreadable or missing."""
        name = self._group.group_id
        for place in self.places:
            key = place.topic_id, place.partition
            state = self._shares.offset(name, *key)
            for note in () if state is None else state.notes:
                coordinator = self._shares.coordinator(name, *key)
                yield f"{place.name}: {SHARE_GROUP_STATE}-{coordinator}, {note}"

    @cached_property
    def _initialized(self) -> frozenset[tuple[str, int]]:
        """Partitions that the group lists as initialized."""
        topics = (self._group.details.get("sharePartitions") or {}).get("initializedTopics", ())
        return frozenset(
            (each["topicId"], number) for each in topics for number in each["partitions"]
        )

    @cached_property
    def _members(self) -> dict[tuple[str, int], list[str]]:
        """Ids of the members, by partition."""
        found: dict[tuple[str, int], list[str]] = {}
        for member in self._group.members:
            for place in _assigned(member):
                found.setdefault(place, []).append(member.member_id)
        return found

    def _names(self, topic_ids: Sequence[str], recorded: Mapping[str, str]) -> dict[str, str]:
        """Return the topics' names by id; names in the group's records are used only if no others are known."""
        names: dict[str, str] = {}
        known = [(topic_id, self._topic_name(topic_id)) for topic_id in topic_ids]
        known += [(topic_id, recorded.get(topic_id)) for topic_id in topic_ids]
        known += [(topic_id, topic_id) for topic_id in topic_ids]
        taken: set[str] = set()
        for topic_id, name in known:
            if topic_id not in names and name is not None and name not in taken:
                names[topic_id] = name
                taken.add(name)
        return names


def _recorded_names(group: Group) -> dict[str, str]:
    """Return the topic names by id in the group's records."""
    recorded = group.details.get("sharePartitions") or {}
    kinds = ("deletingTopics", "initializingTopics", "initializedTopics")
    return {each["topicId"]: each["topicName"] for kind in kinds for each in recorded.get(kind, ())}


def _assigned(member: Member) -> Iterator[tuple[str, int]]:
    for each in member.assignment:
        if each.topic_id is not None:
            for number in each.partitions:
                yield each.topic_id, number
