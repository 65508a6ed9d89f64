"""Answers to the members of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat."""

from __future__ import annotations

import trio

from engine.replay.groups.group import FIRST_ASSIGNMENT_EPOCH, Group
from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import CLASSIC, CONSUMER, DiskGroups, is_joinable
from kafkafs.serve.handlers.groups.served_topics import ServedTopics

_NULL_PROTOCOL_SINCE = 7
_PROTOCOLS_SINCE = 5
"""First version in which SyncGroup states the protocol."""


class Membership:
    """Checks requests of members, and passes them to the coordinator of their protocol.

    Args:
        coordinator: the groups of this server.
        disk: the groups on disk.
        topics: the topics.
        limiter: limits the threads that read.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        disk: DiskGroups,
        topics: ServedTopics,
        limiter: trio.CapacityLimiter,
    ) -> None:
        self._table = coordinator.table
        self._limits = coordinator.limits
        self._classic = coordinator.classic
        self._consumer = coordinator.consumer
        self._topics = topics
        self._disk = disk
        self._limiter = limiter

    async def join_group(self, asked: Asked) -> Fields:
        """Answer JoinGroup. An error names no strategy; only from version 7 on that is null."""
        answer = await self._join(asked)
        if answer["errorCode"] and asked.version >= _NULL_PROTOCOL_SINCE:
            answer["protocolName"] = None
        return answer

    async def _join(self, asked: Asked) -> Fields:
        fields = asked.fields
        name, member_id = fields["groupId"], fields["memberId"]
        if not name:
            return {"memberId": member_id, "errorCode": ErrorCode.INVALID_GROUP_ID}
        least, most = self._limits.least_session_ms, self._limits.most_session_ms
        if not least <= fields["sessionTimeoutMs"] <= most:
            return {"memberId": member_id, "errorCode": ErrorCode.INVALID_SESSION_TIMEOUT}
        known = await self._on_disk(name)
        if known is not None and not is_joinable(known):
            return {"memberId": "", "errorCode": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
        now = await self._topics.now()
        return await self._classic.join(asked, now, _epoch(known, CLASSIC))

    async def consumer_heartbeat(self, asked: Asked) -> Fields:
        """Answer ConsumerGroupHeartbeat."""
        name = asked.fields["groupId"]
        known = await self._on_disk(name)
        if known is not None and not is_joinable(known):
            reason = f"group {name} is a {known.kind} group"
            return {"errorCode": ErrorCode.GROUP_ID_NOT_FOUND, "errorMessage": reason}
        now = await self._topics.now()
        epoch = max(_epoch(known, CONSUMER), FIRST_ASSIGNMENT_EPOCH)
        is_on_disk = known is not None and known.kind == CONSUMER
        return self._consumer.heartbeat(asked, now, epoch, is_on_disk=is_on_disk)

    async def _on_disk(self, name: str) -> Group | None:
        """Return the group on disk that nobody has joined yet, or None."""
        if self._table.get(name) is not None:
            return None
        return await trio.to_thread.run_sync(self._disk.find, name, limiter=self._limiter)

    async def sync_group(self, asked: Asked) -> Fields:
        """Answer SyncGroup."""
        fields = asked.fields
        if asked.version >= _PROTOCOLS_SINCE and None in (
            fields["protocolType"],
            fields["protocolName"],
        ):
            return {"errorCode": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
        if not fields["groupId"]:
            return {"errorCode": ErrorCode.INVALID_GROUP_ID}
        return await self._classic.sync(asked)

    async def heartbeat(self, asked: Asked) -> Fields:
        """Answer Heartbeat."""
        if not asked.fields["groupId"]:
            return {"errorCode": ErrorCode.INVALID_GROUP_ID}
        return self._classic.heartbeat(asked)

    async def leave_group(self, asked: Asked) -> Fields:
        """Answer LeaveGroup."""
        if not asked.fields["groupId"]:
            return {"errorCode": ErrorCode.INVALID_GROUP_ID}
        return self._classic.leave(asked)


def _epoch(known: Group | None, kind: str) -> int:
    """Return the generation or epoch of a group on disk that has the protocol of its first member here."""
    return (known.epoch or 0) if known is not None and known.kind == kind else 0
