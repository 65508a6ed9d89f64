"""A group of the classic protocol: its members choose one of their strategies, and its leader assigns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from uuid import uuid4

from kafkafs.serve.coordinator.assignors.hash_order import in_hash_order
from kafkafs.serve.coordinator.limits import ByteAccount
from kafkafs.serve.coordinator.replies import Reply
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request

CONSUMER_PROTOCOL = "consumer"
MEMBER_ID_REQUIRED_SINCE = 4
"""Version of JoinGroup from which a new member gets its id first, and joins with it."""
_REBALANCE_TIMES_SINCE = 1
_OVERHEAD = 1024
"""Bytes that a member costs besides what it sent."""


class ClassicState(Enum):
    """The states by Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicMember:
    """A member of a group.

    Attributes:
        protocols: metadata by the name of the strategy, in the member's order of preference.
        is_new: whether its first rebalance is not complete; it has its id only after that.
        join, sync: the requests that wait for an answer.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_ms: int
    session_ms: int
    protocols: Mapping[str, bytes]
    assignment: bytes = b""
    is_new: bool = True
    join: Reply | None = None
    sync: Reply | None = None

    @property
    def size(self) -> int:
        """Bytes that the member costs."""
        names = len(self.member_id) + len(self.client_id) + len(self.instance_id or "")
        return protocols_size(self.protocols) + len(self.assignment) + names + _OVERHEAD

    def vote(self, candidates: set[str]) -> str:
        """Return the strategy that the member likes best."""
        return next(name for name in self.protocols if name in candidates)

    def may_expire(self) -> bool:
        """Return whether a missed heartbeat counts: not while a known member waits for an answer."""
        return self.is_new or (self.join is None and self.sync is None)


def not_joined(member_id: str, error: ErrorCode) -> Fields:
    """Return the answer to a JoinGroup that is refused."""
    return {"memberId": member_id, "errorCode": error}


def rebalance_ms(request: Request) -> int:
    """Return the time of a JoinGroup for a rebalance; version 0 has the session's for it."""
    name = "rebalanceTimeoutMs" if request.version >= _REBALANCE_TIMES_SINCE else "sessionTimeoutMs"
    return int(request.fields[name])


def protocols_size(protocols: Mapping[str, bytes]) -> int:
    """Return the bytes of strategies with their metadata."""
    return sum(len(name) + len(data) for name, data in protocols.items())


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicGroup:
    """A group with its members.

    Attributes:
        group_id: its name.
        account: of the bytes of all groups.
        generation: number of the newest completed rebalance.
        protocol_type: what its members are, such as "consumer"; None for one that only commits.
        protocol: the chosen strategy.
        leader: id of the member that assigns.
        before: the state before the present one.
        members: by id, in the order of their coming.
        pending: ids that were given to clients that have not come back with them.
        pending_sync: members that have not asked for their assignment.
        has_newcomer: whether a member came during the first rebalance.
        heard: time of the last heartbeat or commit of a member; 0 before the first one.
    """

    group_id: str
    account: ByteAccount
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state: ClassicState = ClassicState.EMPTY
    before: ClassicState | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    pending_sync: set[str] = field(default_factory=set)
    has_newcomer: bool = False
    heard: float = 0.0
    _supported: Counter[str] = field(default_factory=Counter)

    @property
    def kind(self) -> str:
        """The protocol."""
        return "classic"

    @property
    def is_empty(self) -> bool:
        """Whether the group has no member."""
        return self.state is ClassicState.EMPTY

    @property
    def is_idle(self) -> bool:
        """Whether no client uses the group."""
        return self.is_empty and not self.members and not self.pending

    @property
    def state_name(self) -> str:
        """The state as clients are told."""
        return self.state.value

    def move_to(self, state: ClassicState) -> None:
        """Change the state."""
        self.before, self.state = self.state, state

    # Members

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one leads."""
        if not self.members:
            self._supported.clear()
        self.members[member.member_id] = member
        self._support(member.protocols, 1)
        self.account.held += member.size
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.drop_pending(member.member_id)

    def add_pending(self, member_id: str) -> None:
        """Note an id that a client was given."""
        self.pending.add(member_id)
        self.account.held += _OVERHEAD + len(member_id)

    def drop_pending(self, member_id: str) -> None:
        """Forget an id that a client was given."""
        if member_id in self.pending:
            self.pending.remove(member_id)
            self.account.held -= _OVERHEAD + len(member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, or an id that was given; another member leads if it led."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._support(member.protocols, -1)
            self.account.held -= member.size
            if member.instance_id is not None:
                self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.drop_pending(member_id)
        self.pending_sync.discard(member_id)

    def update(self, member: ClassicMember, protocols: Mapping[str, bytes]) -> None:
        """Replace the strategies of a member."""
        self._support(member.protocols, -1)
        self.account.held -= member.size
        member.protocols = protocols
        self._support(protocols, 1)
        self.account.held += member.size

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Set the assignments of all members, none for those that are not named."""
        for member in self.members.values():
            self.account.held -= len(member.assignment)
            member.assignment = assignments.get(member.member_id, b"")
            self.account.held += len(member.assignment)

    def replace_static(self, instance_id: str, new_id: str) -> ClassicMember:
        """Give a static member that came again a new id; whoever waits with the old one is fenced."""
        old_id = self.static[instance_id]
        member = self.members.pop(old_id)
        self.answer_join(member, {"memberId": old_id, "errorCode": ErrorCode.FENCED_INSTANCE_ID})
        self.answer_sync(member, {"errorCode": ErrorCode.FENCED_INSTANCE_ID})
        self.pending_sync.discard(old_id)
        self.account.held += len(new_id) - len(old_id)
        member.member_id = new_id
        member.is_new = False
        self.members[new_id] = member
        self.static[instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def release(self) -> None:
        """Give back the bytes of a group that another one takes the place of."""
        for member_id in (*self.members, *self.pending):
            self.remove(member_id)

    def new_id(self, client_id: str, instance_id: str | None) -> str:
        """Return an id for a new member."""
        return f"{client_id if instance_id is None else instance_id}-{uuid4()}"

    def why_not(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return why a request does not come from a member; NONE if it does."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Strategies

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a member of that type has a strategy that all members have."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supported[name] == count for name in protocols
        )

    def choose_protocol(self) -> str:
        """Return the strategy with the most votes among those that all members have."""
        count = len(self.members)
        candidates = {name for name, number in self._supported.items() if number == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(in_hash_order(votes), key=votes.__getitem__)  # of equals a broker's first

    def _support(self, protocols: Iterable[str], change: int) -> None:
        for name in protocols:
            self._supported[name] += change
            if not self._supported[name]:
                del self._supported[name]

    # Rebalances

    @property
    def rebalance_seconds(self) -> float:
        """Time for members to come back, the longest of all members."""
        return max((each.rebalance_ms for each in self.members.values()), default=0) / 1000

    @property
    def waiting(self) -> int:
        """Number of members that wait for the end of the rebalance."""
        return sum(member.join is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        """Whether every known member waits for the end of the rebalance."""
        return not self.pending and all(each.join is not None for each in self.members.values())

    def elect_waiting_leader(self) -> bool:
        """Let a waiting member lead if the leader does not wait; return whether a leader waits."""
        if self.leader is None:
            return False
        if self.members[self.leader].join is None:
            waiting = (each.member_id for each in self.members.values() if each.join is not None)
            found = next(waiting, None)
            if found is None:
                return False
            self.leader = found
        return True

    def begin_generation(self) -> None:
        """Begin the next generation: without members the group is empty."""
        self.generation += 1
        self.protocol = self.choose_protocol() if self.members else None
        self.move_to(ClassicState.COMPLETING if self.members else ClassicState.EMPTY)
        self.pending_sync.clear()

    # Answers

    def joined(self, member_id: str, *, skip_assignment: bool = False) -> Fields:
        """Return the answer to JoinGroup of a member in the present generation; the leader is told all members."""
        told = self.members.values() if self.leader == member_id else ()
        protocol = self.protocol or ""
        return {
            "errorCode": ErrorCode.NONE,
            "generationId": self.generation,
            "protocolType": self.protocol_type,
            "protocolName": protocol,
            "leader": self.leader or "",
            "skipAssignment": skip_assignment,
            "memberId": member_id,
            "members": [
                {
                    "memberId": each.member_id,
                    "groupInstanceId": each.instance_id,
                    "metadata": each.protocols.get(protocol, b""),
                }
                for each in told
            ],
        }

    def synced(self, member: ClassicMember) -> Fields:
        """Return the answer to SyncGroup of a member."""
        return {
            "errorCode": ErrorCode.NONE,
            "protocolType": self.protocol_type,
            "protocolName": self.protocol,
            "assignment": member.assignment,
        }

    @staticmethod
    def answer_join(member: ClassicMember, fields: Fields) -> None:
        """Answer the JoinGroup of a member that waits."""
        reply, member.join = member.join, None
        if reply is not None:
            reply.send(fields)

    @staticmethod
    def answer_sync(member: ClassicMember, fields: Fields) -> bool:
        """Answer the SyncGroup of a member that waits; return whether it did."""
        reply, member.sync = member.sync, None
        if reply is not None:
            reply.send(fields)
        return reply is not None
