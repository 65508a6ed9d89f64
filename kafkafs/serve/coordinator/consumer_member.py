"""A member of a consumer group, of either protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kafkafs.serve.coordinator.assignors.subscriber import Place
from kafkafs.serve.error_codes import ErrorCode

LEAVE, LEAVE_FOR_NOW = -1, -2
"""Member epochs of a member that leaves, and of a static one that will come back."""


class MemberState(Enum):
    """How far a member is on its way to its target assignment."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"
    UNRELEASED = "unreleased"


class ClassicSide(NamedTuple):
    """What a member of the classic protocol is in a consumer group.

    Attributes:
        session_ms: its session.
        protocols: its subscription by the name of the strategy, in its order of preference.
    """

    session_ms: int
    protocols: Mapping[str, bytes]

    @property
    def protocol(self) -> str:
        """The strategy that it is told."""
        return next(iter(self.protocols))


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerMember:
    """A member of a group.

    Attributes:
        rack_id, client_id, client_host: for descriptions.
        names, pattern: its subscription: names of topics, and a pattern of RE2.
        assignor: the assignor that it asks for.
        epoch, previous_epoch: its epoch, and the one before.
        assigned: its partitions, with the epochs in which it got them.
        revoking: partitions that it has to give up first, with these epochs.
        classic: None for a member of the consumer protocol.
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
    revoking: dict[Place, int] = field(default_factory=dict)
    classic: ClassicSide | None = None
    size: int = 0

    def since(self, place: Place) -> int | None:
        """Return the epoch in which it got a partition that it has or has to give up; None for others."""
        found = self.assigned.get(place)
        return self.revoking.get(place) if found is None else found

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
