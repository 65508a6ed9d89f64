"""A group of the consumer protocol (KIP-848): the server assigns, and each member moves to its assignment by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from engine.checkpoint.base64_uuid import random_uuid
from kafkafs.serve.coordinator.assignors import (
    ASSIGNORS,
    DEFAULT_ASSIGNOR,
    Assignment,
    Place,
    Subscriber,
)
from kafkafs.serve.coordinator.limits import ByteAccount
from kafkafs.serve.coordinator.topics_now import TopicsNow
from kafkafs.serve.error_codes import ErrorCode

LEAVE, LEAVE_FOR_NOW = -1, -2
"""Member epochs of a member that leaves, and of a static one that will come back."""
_OVERHEAD = 2048
"""Bytes that a member costs besides what it sent."""
_PLACE_BYTES = 400
"""Bytes that a partition costs that is to be assigned."""


class MemberState(Enum):
    """How far a member is on its way to its target assignment."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"
    UNRELEASED = "unreleased"


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerMember:
    """A member of a group.

    Attributes:
        rack_id, client_id, client_host: for descriptions.
        names, pattern: its subscription: names of topics, and a pattern of RE2.
        assignor: the assignor that it asks for.
        epoch, previous_epoch: its epoch, and the one before.
        assigned: its partitions, with the epochs in which it got them.
        revoking: partitions that it has to give up first.
        size: bytes that it costs.
    """

    member_id: str
    instance_id: str | None
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    rebalance_ms: int = -1
    names: frozenset[str] = frozenset()
    pattern: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: dict[Place, int] = field(default_factory=dict)
    revoking: set[Place] = field(default_factory=set)
    size: int = 0

    def topics(self, now: TopicsNow) -> frozenset[str]:
        """Return the ids of its topics."""
        return now.ids(self.names) | now.matched(self.pattern)

    def why_not(self, epoch: int, owned: Collection[Place] | None) -> ErrorCode:
        """Return why a request of an epoch does not come from the member as it is; NONE if it does.

        One of the epoch before counts if it has no more than what is assigned: the answer may have been lost.
        """
        if epoch in (0, self.epoch):
            return ErrorCode.NONE
        is_repeated = (
            self.epoch > epoch == self.previous_epoch
            and owned is not None
            and all(place in self.assigned for place in owned)
        )
        return ErrorCode.NONE if is_repeated else ErrorCode.FENCED_MEMBER_EPOCH


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerGroup:
    """A group with its members.

    Attributes:
        epoch: grows with each change of members, subscriptions or topics.
        assignment_epoch: the epoch of `target`.
        target: what each member is to have.
        owners: who has a partition, or has still to give it up.
        sizes: numbers of partitions of the subscribed topics.
        seen: the topics of which `sizes` is told.
    """

    group_id: str
    account: ByteAccount
    epoch: int = 0
    assignment_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    target: Assignment = field(default_factory=dict)
    owners: dict[Place, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    seen: TopicsNow | None = None

    @property
    def kind(self) -> str:
        """The protocol."""
        return "consumer"

    @property
    def protocol_type(self) -> str | None:
        """What its members are."""
        return "consumer"

    @property
    def is_empty(self) -> bool:
        """Whether the group has no member."""
        return not self.members

    @property
    def is_idle(self) -> bool:
        """Whether no client uses the group."""
        return not self.members

    @property
    def state_name(self) -> str:
        """The state as clients are told."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(self.is_reconciled(member) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def is_reconciled(self, member: ConsumerMember) -> bool:
        """Return whether a member has what it is to have."""
        return member.state is MemberState.STABLE and member.epoch == self.assignment_epoch

    # Members

    def add(self, member: ConsumerMember) -> None:
        """Add a member."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.measure(member)

    def measure(self, member: ConsumerMember) -> None:
        """Count the bytes of a member anew."""
        names = (
            member.member_id,
            member.instance_id,
            member.client_id,
            member.rack_id,
            *member.names,
        )
        size = _OVERHEAD + sum(len(name or "") + 64 for name in names) + len(member.pattern)
        self.account.held += size - member.size
        member.size = size

    @staticmethod
    def new_id() -> str:
        """Return an id for a member that has none."""
        return random_uuid()

    def rest(self, member: ConsumerMember) -> None:
        """Let a static member keep its partitions until it comes back, or its session ends."""
        member.epoch = LEAVE_FOR_NOW
        self._set_owned(member, member.assigned, set())

    def remove(self, member: ConsumerMember) -> None:
        """Remove a member; the others get its partitions in the next epoch."""
        del self.members[member.member_id]
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        self._set_owned(member, {}, set())
        self.target.pop(member.member_id, None)
        self.account.held -= member.size
        self.epoch += 1
        if self.seen is not None:
            self.refresh(self.seen)

    def replace(self, member: ConsumerMember, new_id: str) -> None:
        """Give a static member that came again a new id; it keeps its assignment."""
        del self.members[member.member_id]
        self.target[new_id] = self.target.pop(member.member_id, set())
        for place in (*member.assigned, *member.revoking):
            self.owners[place] = new_id
        member.member_id = new_id
        member.epoch = member.previous_epoch = 0
        self.add(member)

    # Assignment

    def refresh(self, now: TopicsNow) -> bool:
        """Look at the topics of all members; return whether they are others than before."""
        wanted = {topic for member in self.members.values() for topic in member.topics(now)}
        sizes = {topic: now.sizes[topic] for topic in wanted}
        has_changed = sizes != self.sizes
        self.account.held += _PLACE_BYTES * (sum(sizes.values()) - sum(self.sizes.values()))
        self.sizes, self.seen = sizes, now
        return has_changed

    def assign(self, now: TopicsNow) -> None:
        """Compute the target assignment of the present epoch."""
        subscribers = [
            Subscriber(
                member.member_id,
                (member.instance_id is None, member.instance_id or member.member_id),
                member.topics(now),
                frozenset(self.target.get(member.member_id, ())),
            )
            for member in self.members.values()
        ]
        self.target = ASSIGNORS[self.assignor](subscribers, now.sizes)
        self.assignment_epoch = self.epoch

    @property
    def assignor(self) -> str:
        """The assignor that most members ask for."""
        asked = Counter(
            each.assignor for each in self.members.values() if each.assignor is not None
        )
        return asked.most_common(1)[0][0] if asked else DEFAULT_ASSIGNOR

    def reconcile(self, member: ConsumerMember, owned: Collection[Place] | None) -> None:
        """Bring a member closer to its target.

        It gives up partitions first; then it gets those that are free; others come when their owners give them up.

        Args:
            member: the member.
            owned: the partitions that it says to have; None if it does not say.
        """
        epoch = member.epoch
        if self.is_reconciled(member):
            return
        if member.state is MemberState.UNREVOKED:
            if _has_any(owned, member.revoking):
                return
            epoch += 1
            self._set_owned(member, member.assigned, set())
        target = self.target.get(member.member_id, set())
        kept = {place: since for place, since in member.assigned.items() if place in target}
        lost = member.assigned.keys() - kept.keys()
        if lost and _has_any(owned, lost):
            self._move(member, epoch, MemberState.UNREVOKED)
            self._set_owned(member, kept, lost)
            return
        free = {place for place in target - kept.keys() if place not in self.owners}
        is_whole = len(kept) + len(free) == len(target)
        self._move(
            member,
            self.assignment_epoch,
            MemberState.STABLE if is_whole else MemberState.UNRELEASED,
        )
        self._set_owned(member, kept | dict.fromkeys(free, self.assignment_epoch), set())

    @staticmethod
    def _move(member: ConsumerMember, epoch: int, state: MemberState) -> None:
        if epoch != member.epoch:
            member.previous_epoch, member.epoch = member.epoch, epoch
        member.state = state

    def _set_owned(
        self, member: ConsumerMember, assigned: dict[Place, int], revoking: set[Place]
    ) -> None:
        for place in (*member.assigned, *member.revoking):
            self.owners.pop(place, None)
        member.assigned, member.revoking = assigned, revoking
        for place in (*assigned, *revoking):
            self.owners[place] = member.member_id


def _has_any(owned: Collection[Place] | None, places: Collection[Place]) -> bool:
    """Return whether a member that says what it has has any of some partitions; one that does not say may have."""
    return owned is None or any(place in places for place in owned)
