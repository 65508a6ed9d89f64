"""The clients of one group, and what they know: their ids, generations and partitions."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from tests.kafka.wire.members.ids import Each

TOPICS = ("orders", "codec-zstd", "compacted")
LIFE_SECONDS = 4.0
"""Time for which a group is used, so that no deadline of a broker's matters."""


class Next(Enum):
    """What a well-behaved client does next."""

    JOIN = "join"
    SYNC = "sync"
    BEAT = "beat"


@dataclass(slots=True, kw_only=True, eq=False)
class Client:
    """A member of a group, or one that wants to be.

    Attributes:
        own_id: the id that it chooses for itself.
        instance: its instance id, or None.
        member_id: the id that it has.
        epoch: its generation or epoch.
        protocol: the strategy that it was told.
        owned: its partitions by topic.
        is_consumer: whether it speaks the protocol of KIP-848.
        waits_as: the member id of its request that has no answer yet, or None.
    """

    own_id: str
    instance: str | None = None
    member_id: Each | str = ""
    epoch: int = 0
    protocol: str = "range"
    owned: dict[str, list[int]] = field(default_factory=dict)
    is_consumer: bool = False
    next: Next = Next.JOIN
    topics: list[str] = field(default_factory=lambda: ["orders"])
    waits_as: Each | str | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Crowd:
    """A group.

    Attributes:
        name: its id.
        protocol_type: what its classic members are.
        is_mixed: whether members of both protocols come.
        assignor: the one that its consumers ask for.
        lost: ids that nobody uses any more.
        leader: the leader that was told last, or "".
        has_unknown_leader: whether that one's own answer has not come yet, so that both leaders look alike.
        has_patterns, has_made_ids: whether a member had a pattern, or an id that the servers made up.
        told: its requests with their answers, for the report of a difference.
        was_consumer: whether it was a consumer group at some time.
    """

    name: str
    protocol_type: str = "consumer"
    is_consumer: bool = False
    is_mixed: bool = False
    assignor: str | None = None
    clients: list[Client] = field(default_factory=list)
    lost: list[Each | str] = field(default_factory=list)
    leader: str = ""
    has_unknown_leader: bool = False
    was_consumer: bool = False
    has_patterns: bool = False
    has_made_ids: bool = False
    told: list[str] = field(default_factory=list)
    born: float = field(default_factory=time.monotonic)

    @property
    def waiting(self) -> set[Each | str]:
        """The member ids of requests without an answer; a broker would forget one for another of the same member."""
        return {each.waits_as for each in self.clients if each.waits_as}

    @property
    def idle(self) -> list[Client]:
        """The clients that can send a request that may wait."""
        waiting = self.waiting
        return [
            each for each in self.clients if each.waits_as is None and each.member_id not in waiting
        ]

    @property
    def is_old(self) -> bool:
        """Whether another group should take its place."""
        return time.monotonic() - self.born > LIFE_SECONDS


def new_crowd(name: str, random: Random) -> Crowd:
    """A group of random kind, with clients that have not joined."""
    kind = random.choice(
        ("classic", "classic", "consumer", "consumer", "mixed", "mixed", "connect")
    )
    crowd = Crowd(
        name=name,
        protocol_type="connect" if kind == "connect" else "consumer",
        is_consumer=kind == "consumer",
        is_mixed=kind == "mixed",
        assignor="range" if kind == "mixed" else random.choice((None, "uniform", "range")),
    )
    for number in range(random.randint(1, 4)):
        is_static = random.random() < (0.5 if kind == "mixed" else 0.25)
        crowd.clients.append(
            Client(
                own_id=f"{random.choice('abcdefgh')}{number}",
                instance=f"instance-{number}" if is_static else None,
                is_consumer=crowd.is_consumer or (crowd.is_mixed and random.random() < 0.5),
                topics=list(TOPICS[: random.choice((1, 1, 2))]),
            )
        )
    return crowd
