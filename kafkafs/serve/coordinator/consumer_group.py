"""A group of the consumer protocol (KIP-848): the server assigns, and each member moves to its assignment by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from engine.checkpoint.base64_uuid import random_uuid
from kafkafs.serve.coordinator.assignors.choice import ASSIGNORS, elected
from kafkafs.serve.coordinator.assignors.hash_order import in_table_order
from kafkafs.serve.coordinator.assignors.subscriber import Assignment, Place, Subscriber
from kafkafs.serve.coordinator.consumer_member import (
    LEAVE_FOR_NOW,
    ConsumerMember,
    MemberState,
)
from kafkafs.serve.coordinator.limits import ByteAccount
from kafkafs.serve.coordinator.subscriptions import Subscriptions
from kafkafs.serve.coordinator.topics_now import TopicsNow

_OVERHEAD = 2048
"""Bytes that a member costs besides what it sent."""


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerGroup:
    """A group with its members.

    Attributes:
        epoch: grows with each change of members, subscriptions or topics.
        assignment_epoch: the epoch of `target`.
        target: what each member is to have.
        owners: who has a partition, or has still to give it up.
        heard: time of the last heartbeat of a member; 0 before the second one.
        subscriptions: the topics of its members.
    """

    group_id: str
    account: ByteAccount
    epoch: int = 0
    assignment_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    target: Assignment = field(default_factory=dict)
    owners: dict[Place, str] = field(default_factory=dict)
    heard: float = 0.0
    subscriptions: Subscriptions = field(init=False)
    _most: int = 0

    def __post_init__(self) -> None:
        self.subscriptions = Subscriptions(self.members, self.account)

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
        protocols = {} if member.classic is None else member.classic.protocols
        names = (
            member.member_id,
            member.instance_id,
            member.client_id,
            member.rack_id,
            *member.names,
            *protocols,
        )
        size = _OVERHEAD + sum(len(name or "") + 64 for name in names) + len(member.pattern)
        size += sum(map(len, protocols.values()))
        self.account.held += size - member.size
        member.size = size

    def release(self) -> None:
        """Give back the bytes of a group that another one takes the place of."""
        self.account.held -= sum(member.size for member in self.members.values())
        self.subscriptions.release()

    @staticmethod
    def new_id() -> str:
        """Return an id for a member that has none."""
        return random_uuid()

    def rest(self, member: ConsumerMember) -> None:
        """Let a static member keep its partitions until it comes back, or its session ends."""
        member.epoch = LEAVE_FOR_NOW
        self._set_owned(member, dict.fromkeys(member.assigned, 0), {})

    def remove(self, gone: Collection[ConsumerMember]) -> None:
        """Remove members; the others get their partitions in the next epoch."""
        for member in gone:
            del self.members[member.member_id]
            if member.instance_id is not None:
                self.static.pop(member.instance_id, None)
            self._set_owned(member, {}, {})
            self.target.pop(member.member_id, None)
            self.account.held -= member.size
        self.subscriptions.forget(gone)
        self.epoch += 1

    def replace(self, member: ConsumerMember, new_id: str) -> None:
        """Give a static member that came again a new id; it keeps its assignment, and takes the place of another."""
        del self.members[member.member_id]
        other = self.members.get(new_id)
        if other is not None:
            self._set_owned(other, {}, {})
            self.account.held -= other.size
        self.target[new_id] = self.target.pop(member.member_id, set())
        for place in (*member.assigned, *member.revoking):
            self.owners[place] = new_id
        member.member_id = new_id
        member.epoch = member.previous_epoch = 0
        self.add(member)

    # Classic members

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a classic member has a strategy that all classic members have."""
        sides = [each.classic for each in self.members.values() if each.classic is not None]
        return protocol_type == self.protocol_type and any(
            all(name in side.protocols for side in sides) for name in protocols
        )

    def is_last_consumer(self, member: ConsumerMember) -> bool:
        """Return whether a member is the only one that is no classic member."""
        others = [each for each in self.members.values() if each.classic is None]
        return others == [member]

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether partitions that a member is to get have an owner yet."""
        target = self.target.get(member.member_id, set())
        return any(place in self.owners for place in target if place not in member.assigned)

    # Assignment

    def note_change(self, now: TopicsNow, *, has_changed: bool) -> None:
        """Begin the next epoch if a subscription has changed, or the topics that are subscribed to."""
        if self.subscriptions.update(now, has_changed=has_changed):
            self.epoch += 1

    def resolve(self, now: TopicsNow, now_seconds: float) -> None:
        """Look up the topics of patterns; if they are others, the group has a new epoch."""
        if self.subscriptions.resolve(now, now_seconds):
            self.epoch += 1

    def assign_if_stale(self, latest: ConsumerMember, *, is_new: bool) -> bool:
        """Compute the target assignment of the present epoch, if it is older; return whether it was.

        As in brokers, a member that waits for the topics of a new pattern is not compared with the others before.

        Args:
            latest: the member that is asking: the order in which a broker sees members and their wishes depends on it.
            is_new: whether its id is new in the group.
        """
        is_stale = self.epoch > self.assignment_epoch
        if is_stale:
            self._assign(latest, is_new=is_new)
        self.subscriptions.compare()
        return is_stale

    def _assign(self, latest: ConsumerMember, *, is_new: bool) -> None:
        newcomers = [latest.member_id] if is_new else []
        known = [name for name in self.members if name not in newcomers]
        ordered = in_table_order(known, self._most) + newcomers
        subscribers = [
            Subscriber(
                member.member_id,
                (member.instance_id is None, member.instance_id or member.member_id),
                self.subscriptions.in_order(member),
                frozenset(self.target.get(member.member_id, ())),
            )
            for member in map(self.members.__getitem__, ordered)
        ]
        self._most = max(self._most, len(self.members))
        assign = ASSIGNORS[elected(self._wishes(), latest.assignor)]
        sizes, are_alike = self.subscriptions.seen.sizes, self.subscriptions.are_alike
        self.target = assign(subscribers, sizes, are_alike)
        self.assignment_epoch = self.epoch

    @property
    def assignor(self) -> str:
        """The assignor that most members ask for."""
        return elected(self._wishes())

    def _wishes(self) -> list[str | None]:
        return [each.assignor for each in self.members.values()]

    def give(self, member: ConsumerMember, places: Iterable[Place]) -> None:
        """Let a member have partitions, as its target too."""
        self._set_owned(member, dict.fromkeys(places, member.epoch), {})
        self.target[member.member_id] = set(member.assigned)

    def reconcile(
        self,
        member: ConsumerMember,
        owned: Collection[Place] | None,
        *,
        has_changed: bool = False,
        has_target: bool = True,
    ) -> None:
        """Bring a member closer to its target.

        It gives up partitions first; then it gets those that are free; others come when their owners give them up.

        Args:
            member: the member.
            owned: the partitions that it says to have; None if it does not say.
            has_changed: whether its subscription has.
            has_target: whether its target counts.
        """
        topics = self.subscriptions.topics(member)
        if self.is_reconciled(member) or (
            member.state is MemberState.UNREVOKED and _has_any(owned, member.revoking)
        ):
            if has_changed:
                self._shed(member, owned, topics)
            return
        aim = self.target.get(member.member_id, ()) if has_target else ()
        target = {place for place in aim if place[0] in topics}
        kept = {place: since for place, since in member.assigned.items() if place in target}
        lost = {place: since for place, since in member.assigned.items() if place not in target}
        if lost and _has_any(owned, lost):
            self._move(member, member.epoch, MemberState.UNREVOKED)
            self._set_owned(member, kept, lost)
            return
        wanted = target - kept.keys()
        free = {each for each in wanted if each not in self.owners or each in member.revoking}
        is_whole = len(free) == len(wanted)
        self._move(
            member,
            self.assignment_epoch,
            MemberState.STABLE if is_whole else MemberState.UNRELEASED,
        )
        self._set_owned(member, kept | dict.fromkeys(free, self.assignment_epoch), {})

    def _shed(
        self, member: ConsumerMember, owned: Collection[Place] | None, topics: frozenset[str]
    ) -> None:
        """Take the partitions of topics from a member that it does not subscribe to any more."""
        kept = {place: since for place, since in member.assigned.items() if place[0] in topics}
        if len(kept) == len(member.assigned):
            return
        revoking = member.revoking | {
            place: since for place, since in member.assigned.items() if place not in kept
        }
        if _has_any(owned, revoking):
            self._move(member, member.epoch, MemberState.UNREVOKED)
            self._set_owned(member, kept, revoking)
        else:
            self._move(member, member.epoch, member.state)
            self._set_owned(member, kept, member.revoking)

    @staticmethod
    def _move(member: ConsumerMember, epoch: int, state: MemberState) -> None:
        member.previous_epoch, member.epoch = member.epoch, epoch
        member.state = state

    def _set_owned(
        self, member: ConsumerMember, assigned: dict[Place, int], revoking: dict[Place, int]
    ) -> None:
        for place in (*member.assigned, *member.revoking):
            self.owners.pop(place, None)
        member.assigned, member.revoking = assigned, revoking
        for place in (*assigned, *revoking):
            self.owners[place] = member.member_id


def _has_any(owned: Collection[Place] | None, places: Collection[Place]) -> bool:
    """Return whether a member that says what it has has any of some partitions; one that does not say may have."""
    return owned is None or any(place in places for place in owned)
