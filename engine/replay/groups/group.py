"""A group of any kind as in the group coordinator: its state, its members, its committed offsets.

Built from the newest records of its keys in `__consumer_offsets`. A coordinator that loads these records gets the same: a
classic group with members is Stable, since the states of a rebalance are not written; the state of a group of the newer
protocols follows from its epochs and its members' epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.json_facts import facts_of
from engine.replay.groups.applications import Application, GroupMarks, application_of
from engine.replay.keyed_state import KeyedEntry, Owned
from engine.topics.decoded_record import TopicDecoder
from engine.units import Offset, Timestamp

NO_PRODUCER = -1
NONE = -1
FIRST_ASSIGNMENT_EPOCH = 1
"""Assignment epoch of a group without a target assignment, as in Kafka 4.4.0."""
MEMBER_STATES = {
    "consumer": {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"},
    "share": {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"},
    "streams": {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"},
}
"""States of members by their numbers in records."""


class Part(NamedTuple):
    """A decoded record; `type` is the number of its record type."""

    type: int
    key: dict[str, Any]
    value: dict[str, Any]
    entry: KeyedEntry


_OFFSETS = frozenset({0, 1})
_CLASSIC = 2
_TYPES = {
    "consumer": frozenset({3, 4, 5, 6, 7, 8, 16}),
    "share": frozenset({9, 10, 11, 12, 13, 14, 15}),
    "streams": frozenset({17, 18, 19, 20, 21, 22, 23}),
}
_GROUP = {"consumer": 3, "share": 11, "streams": 17}
_MEMBER = {"consumer": 5, "share": 10, "streams": 19}
_TARGET = {"consumer": 6, "share": 12, "streams": 20}
_TARGET_OF_MEMBER = {"consumer": 7, "share": 13, "streams": 21}
_CURRENT = {"consumer": 8, "share": 14, "streams": 22}
_EXPRESSION, _SHARE_PARTITIONS, _TOPOLOGY = 16, 15, 23


class CommittedOffset(NamedTuple):
    """An offset committed by a group for a partition.

    Attributes:
        offset: offset of the next record to consume.
        leader_epoch: leader epoch of the last consumed record, or None.
        metadata: metadata of the commit.
        commit_timestamp: time of the commit.
        expire_timestamp: None if the broker's retention applies.
        topic_id: topic id, or None.
        producer_id: producer id of its transaction, or None.
        record_offset, record_timestamp: of its record in `__consumer_offsets`.
    """

    topic: str
    partition: int
    offset: Offset
    leader_epoch: int | None
    metadata: str
    commit_timestamp: Timestamp
    expire_timestamp: Timestamp | None
    topic_id: str | None
    producer_id: int | None
    record_offset: Offset
    record_timestamp: Timestamp

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return facts_of(
            self,
            "topic partition offset leader_epoch metadata commit_timestamp "
            "expire_timestamp topic_id producer_id record_offset record_timestamp",
        )


class Assigned(NamedTuple):
    """A member's partitions of a topic. Newer protocols have the topic's id, classic ones its name."""

    topic: str | None
    topic_id: str | None
    partitions: tuple[int, ...]

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        topic = {"topic": self.topic} if self.topic_id is None else {"topicId": self.topic_id}
        return {**topic, "partitions": list(self.partitions)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group.

    Attributes:
        epoch: only in the newer protocols.
        state: only in the newer protocols.
        assignment: current assignment.
        details: other fields of its records, for JSON.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    epoch: int | None = None
    state: str | None = None
    assignment: tuple[Assigned, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        facts: dict[str, Any] = facts_of(
            self, "member_id groupInstanceId=instance_id client_id client_host"
        )
        if self.epoch is not None:
            facts |= {"epoch": self.epoch, "state": self.state}
        facts["assignment"] = [each.facts() for each in self.assignment]
        return facts | dict(self.details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group.

    Attributes:
        group_id: lone surrogates represent bytes that are not UTF-8.
        kind: classic, consumer, share or streams.
        state: Empty, Stable, Assigning, Reconciling or NotReady.
        protocol_type: "consumer" for consumers; "" for a group that only commits offsets.
        epoch: the group epoch, or a classic group's generation; None for one that only commits.
        offsets: committed offsets, by topic and partition.
        pending: offsets in open transactions.
        details: other fields of its records, for JSON.
        timestamp: timestamp of its newest record.
        coordinator: its partition of `__consumer_offsets`.
        notes: records that cannot be read.
    """

    group_id: str
    kind: str
    state: str
    protocol_type: str
    epoch: int | None = None
    members: tuple[Member, ...] = ()
    offsets: Mapping[tuple[str, int], CommittedOffset] = field(default_factory=dict)
    pending: tuple[CommittedOffset, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    timestamp: Timestamp = -1
    coordinator: int = -1
    notes: tuple[str, ...] = ()

    @property
    def application(self) -> Application | None:
        """The application that it belongs to; None if nothing tells one."""
        return application_of(
            GroupMarks(
                self.group_id,
                self.kind,
                self.protocol_type,
                self.details.get("protocol"),
                (member.client_id or "" for member in self.members),
                (topic for topic, _ in self.offsets),
                (each.metadata for each in self.offsets.values()),
            )
        )

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON, without the committed offsets."""
        epoch = "generation" if self.kind == "classic" else "epoch"
        application = self.application
        return {
            **facts_of(self, "group=group_id type=kind protocol_type"),
            "application": None if application is None else application.name,
            "applicationBy": None if application is None else application.evidence,
            "state": self.state,
            epoch: self.epoch,
            **self.details,
            "members": [member.facts() for member in self.members],
            "committedPartitions": len(self.offsets),
            "pendingOffsets": [offset.facts() for offset in self.pending],
            "timestamp": self.timestamp,
            "coordinatorPartition": self.coordinator,
            "notes": list(self.notes),
        }


def build_group(
    name: str, entries: Owned, pending: Owned, coordinator: int, decoder: TopicDecoder
) -> Group:
    """Build a group from the newest records of its keys and those of open transactions."""
    notes: list[str] = []
    parts = list(_parts(entries, decoder, notes))
    offsets = [_offset(part) for part in parts if part.type in _OFFSETS]
    waiting = [_offset(part) for part in _parts(pending, decoder, notes) if part.type in _OFFSETS]
    timestamps = [entry.timestamp for entry in (*entries.values(), *pending.values())]
    kind = _kind_of(parts)
    made = _classic(parts) if kind == "classic" else _modern(kind, parts)
    return Group(
        group_id=name,
        kind=kind,
        offsets={(each.topic, each.partition): each for each in sorted(offsets)},
        pending=tuple(sorted(waiting)),
        timestamp=max(timestamps, default=-1),
        coordinator=coordinator,
        notes=tuple(notes),
        **made,
    )


def _parts(entries: Owned, decoder: TopicDecoder, notes: list[str]) -> Iterator[Part]:
    """Yield the decoded records; note those that cannot be decoded."""
    for key, entry in entries.items():
        decoded = decoder.decode(key, entry.value)
        note = decoded.key_note or decoded.value_note
        if note or not isinstance(decoded.key, dict) or not isinstance(decoded.value, dict):
            notes.append(f"offset {entry.offset}: {note or 'not readable'}")
            continue
        key_data, value_data = decoded.key["data"], decoded.value["data"]
        yield Part(int(decoded.key["type"]), key_data, value_data, entry)


def _kind_of(parts: Iterable[Part]) -> str:
    """Return the kind in the newest record with one: a group changes its protocol with new records."""
    newest, found = -1, "classic"
    for part in parts:
        kind = next((kind for kind, types in _TYPES.items() if part.type in types), None)
        if part.type == _CLASSIC:
            kind = "classic"
        if kind is not None and part.entry.offset > newest:
            newest, found = part.entry.offset, kind
    return found


def _offset(part: Part) -> CommittedOffset:
    key, value, entry = part.key, part.value, part.entry
    epoch, expires = value.get("leaderEpoch", NONE), value.get("expireTimestamp", NONE)
    producer = entry.producer_id
    return CommittedOffset(
        key["topic"],
        key["partition"],
        value["offset"],
        None if epoch == NONE else epoch,
        value["metadata"],
        value["commitTimestamp"],
        None if expires == NONE else expires,
        value.get("topicId"),
        None if producer == NO_PRODUCER else producer,
        entry.offset,
        entry.timestamp,
    )


# Classic groups


def _classic(parts: Iterable[Part]) -> dict[str, Any]:
    metadata = next((part for part in parts if part.type == _CLASSIC), None)
    if metadata is None:
        return {"state": "Empty", "protocol_type": ""}
    value = metadata.value
    members = tuple(_classic_member(member) for member in value["members"])
    return {
        "state": "Stable" if members else "Empty",
        "protocol_type": value["protocolType"],
        "epoch": value["generation"],
        "members": members,
        "details": {
            "protocol": value["protocol"],
            "leader": value["leader"],
            "stateTimestamp": _or_none(value.get("currentStateTimestamp", NONE)),
        },
    }


def _classic_member(value: dict[str, Any]) -> Member:
    session = value["sessionTimeout"]
    rebalance = value.get("rebalanceTimeout", NONE)
    return Member(
        member_id=value["memberId"],
        instance_id=value.get("groupInstanceId"),
        client_id=value["clientId"],
        client_host=value["clientHost"],
        assignment=tuple(_classic_assignment(value["assignment"])),
        details={
            "sessionTimeout": session,
            "rebalanceTimeout": session if rebalance == NONE else rebalance,
            "subscription": value["subscription"],
            "rawAssignment": None if isinstance(value["assignment"], dict) else value["assignment"],
        },
    )


def _classic_assignment(assignment: object) -> Iterator[Assigned]:
    """Yield the partitions of a consumer's assignment; other protocols have their own formats."""
    if not isinstance(assignment, dict):
        return
    for each in assignment.get("assignedPartitions", ()):
        yield Assigned(each["topic"], None, tuple(each["partitions"]))


# Groups of the newer protocols


def _modern(kind: str, parts: list[Part]) -> dict[str, Any]:
    by_type: dict[int, list[Part]] = {}
    for part in parts:
        by_type.setdefault(part.type, []).append(part)
    group = _only(by_type, _GROUP[kind])
    target = _only(by_type, _TARGET[kind])
    epoch = group.get("epoch", 0)
    assignment_epoch = target.get("assignmentEpoch", FIRST_ASSIGNMENT_EPOCH)
    members = tuple(_modern_members(kind, by_type))
    topology = _only(by_type, _TOPOLOGY)
    is_ready = kind != "streams" or (
        bool(topology) and topology["epoch"] == group.get("validatedTopologyEpoch", NONE)
    )
    return {
        "state": _state(kind, epoch, assignment_epoch, members, is_ready=is_ready),
        "protocol_type": "consumer" if kind == "consumer" else kind,
        "epoch": epoch,
        "members": members,
        "details": {
            "assignmentEpoch": assignment_epoch,
            "assignmentTimestamp": target.get("assignmentTimestamp"),
            "metadataHash": group.get("metadataHash"),
            **_details(kind, by_type, topology),
        },
    }


def _details(kind: str, by_type: dict[int, list[Part]], topology: dict[str, Any]) -> dict[str, Any]:
    if kind == "consumer":
        expressions = [
            {"regularExpression": part.key["regularExpression"], **part.value}
            for part in by_type.get(_EXPRESSION, ())
        ]
        return {"regularExpressions": expressions}
    if kind == "share":
        return {"sharePartitions": _only(by_type, _SHARE_PARTITIONS) or None}
    return {"topology": topology or None}


def _state(
    kind: str, epoch: int, assignment_epoch: int, members: Iterable[Member], *, is_ready: bool
) -> str:
    members = tuple(members)
    if not members:
        return "Empty"
    if kind == "share":
        return "Stable"
    if not is_ready:
        return "NotReady"
    if epoch > assignment_epoch:
        return "Assigning"
    reconciled = all(
        member.state == "STABLE" and member.epoch == assignment_epoch for member in members
    )
    return "Stable" if reconciled else "Reconciling"


def _modern_members(kind: str, by_type: dict[int, list[Part]]) -> Iterator[Member]:
    about = _by_member(by_type, _MEMBER[kind])
    current = _by_member(by_type, _CURRENT[kind])
    target = _by_member(by_type, _TARGET_OF_MEMBER[kind])
    for member_id in sorted({*about, *current}):
        value, now = about.get(member_id, {}), current.get(member_id, {})
        first_state = 1 if kind == "streams" else 0
        state = now.get("state", first_state)
        known = ("instanceId", "clientId", "clientHost")
        details = {name: fact for name, fact in value.items() if name not in known}
        moving = {
            name: fact
            for name, fact in now.items()
            if name not in ("memberEpoch", "state", "assignedPartitions")
        }
        wanted = target.get(member_id)
        yield Member(
            member_id=member_id,
            instance_id=value.get("instanceId"),
            client_id=value.get("clientId"),
            client_host=value.get("clientHost"),
            epoch=now.get("memberEpoch", 0),
            state=MEMBER_STATES[kind].get(state, "UNKNOWN"),
            assignment=tuple(_assigned(now.get("assignedPartitions", ()))),
            details={**details, **moving, "targetAssignment": wanted},
        )


def _assigned(topics: Iterable[dict[str, Any]]) -> Iterator[Assigned]:
    for topic in topics:
        yield Assigned(None, topic["topicId"], tuple(topic["partitions"]))


def _only(by_type: dict[int, list[Part]], type_id: int) -> dict[str, Any]:
    """Return the value of the only record of a type; empty without one."""
    found = by_type.get(type_id)
    return found[0].value if found else {}


def _by_member(by_type: dict[int, list[Part]], type_id: int) -> dict[str, dict[str, Any]]:
    return {part.key["memberId"]: part.value for part in by_type.get(type_id, ())}


def _or_none(number: int) -> int | None:
    return None if number == NONE else number
