"""Groups whose members do what a test says, on a clock that jumps to the next deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio.testing

from kafkafs.serve.coordinator.classic_group import ClassicGroup
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.coordinator.limits import GroupLimits
from kafkafs.serve.coordinator.topics_now import KnownTopic, TopicsNow
from kafkafs.serve.request import Request

LIMITS = GroupLimits(first_rebalance_seconds=3.0, members=4, bytes=100_000)
GROUP = "billing"
T, U = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
TOPICS = TopicsNow({"orders": KnownTopic(T, 4), "audit": KnownTopic(U, 2)})
Answer = dict[str, Any]


class Waiting:
    """A request that waits for its answer."""

    def __init__(self) -> None:
        self.answer: Answer = {}
        self.answered = trio.Event()

    @property
    def is_answered(self) -> bool:
        return self.answered.is_set()


class Script:
    """A coordinator, and its clients."""

    def __init__(self, nursery: trio.Nursery, limits: GroupLimits) -> None:
        self.coordinator = Coordinator(limits)
        self._nursery = nursery
        nursery.start_soon(self.coordinator.run)

    async def begin(
        self, request: Callable[..., Awaitable[Answer]], *args: Any, **fields: Any
    ) -> Waiting:
        """Send a request, and let the server do what it can at once."""
        waiting = Waiting()

        async def ask() -> None:
            waiting.answer = await request(*args, **fields)
            waiting.answered.set()

        self._nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        return waiting

    @property
    def group(self) -> ClassicGroup:
        """The group of the test."""
        found = self.coordinator.table.get(GROUP)
        assert isinstance(found, ClassicGroup)
        return found

    @property
    def protocol(self) -> str:
        """The strategy that the group has chosen."""
        found = self.coordinator.table.get(GROUP)
        return (found.protocol if isinstance(found, ClassicGroup) else None) or "range"

    async def join(
        self, member_id: str = "", *, version: int = 9, known: int = 0, **fields: Any
    ) -> Answer:
        """JoinGroup, with one strategy if the test does not say more."""
        protocols = fields.pop("protocols", {"range": b"topics"})
        size = fields.pop("size", 100)
        given = {
            "groupId": GROUP, "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 60_000, "memberId": member_id,
            "groupInstanceId": None, "protocolType": "consumer",
            "protocols": [{"name": name, "metadata": data} for name, data in protocols.items()],
        }  # fmt: skip
        return await self.coordinator.classic.join(
            asked(version, given | fields, size), TOPICS, known
        )

    async def enter(self, **fields: Any) -> Waiting:
        """Both JoinGroups of a new dynamic member; the second waits."""
        first = await self.join(**fields)
        assert first["errorCode"] == 79
        return await self.begin(self.join, first["memberId"], **fields)

    async def sync(self, member_id: str, generation: int, **fields: Any) -> Answer:
        """SyncGroup; `assign` is what a leader assigns."""
        assignments = [
            {"memberId": name, "assignment": data}
            for name, data in fields.pop("assign", {}).items()
        ]
        given = {
            "groupId": GROUP, "generationId": generation, "memberId": member_id, "groupInstanceId": None,
            "protocolType": "consumer", "protocolName": self.protocol, "assignments": assignments,
        }  # fmt: skip
        return await self.coordinator.classic.sync(asked(5, given | fields))

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> int:
        """Heartbeat; returns the error."""
        given = {
            "groupId": GROUP, "generationId": generation, "memberId": member_id, "groupInstanceId": instance,
        }  # fmt: skip
        return int(self.coordinator.classic.heartbeat(asked(4, given))["errorCode"])

    def leave(self, *members: tuple[str, str | None]) -> list[int]:
        """LeaveGroup; returns the errors."""
        named = [{"memberId": name, "groupInstanceId": instance} for name, instance in members]
        answer = self.coordinator.classic.leave(asked(5, {"groupId": GROUP, "members": named}))
        assert answer["errorCode"] == 0
        return [each["errorCode"] for each in answer["members"]]

    async def stable(self, count: int = 2, **fields: Any) -> list[str]:
        """A stable group of dynamic members; returns their ids, the leader's first."""
        waiting = [await self.enter(**fields) for _ in range(count)]
        for each in waiting:
            await each.answered.wait()
        answers = [each.answer for each in waiting]
        ids = [each["memberId"] for each in answers]
        leader, generation = answers[0]["leader"], answers[0]["generationId"]
        ids.sort(key=lambda name: name != leader)
        followers = [await self.begin(self.sync, name, generation) for name in ids[1:]]
        await self.sync(leader, generation, assign={name: name.encode() for name in ids})
        assert self.group.state_name == "Stable"
        await trio.testing.wait_all_tasks_blocked()
        assert all(each.is_answered for each in followers)
        return ids


def asked(version: int, fields: Answer, size: int = 100) -> Request:
    """A request as a handler gets it."""
    return Request(
        version, fields, "localhost", 9092, client_id="client", client_host="/127.0.0.1", size=size
    )


def scripted(
    test: Callable[[Script], Awaitable[None]], limits: GroupLimits = LIMITS
) -> Callable[[], None]:
    """Run a test on a clock that jumps to the next deadline when nothing else can happen."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await test(Script(nursery, limits))
            nursery.cancel_scope.cancel()

    def run() -> None:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

    run.__name__ = test.__name__
    return run
