"""Answers to the members of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

import trio

from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import CLASSIC, DiskGroups, is_joinable


class Membership:
    """Checks requests of members, and passes them to the coordinator of their protocol.

    Args:
        coordinator: the groups of this server.
        disk: the groups on disk.
        limiter: limits the threads that read.
    """

    def __init__(
        self, coordinator: Coordinator, disk: DiskGroups, limiter: trio.CapacityLimiter
    ) -> None:
        self._table = coordinator.table
        self._limits = coordinator.limits
        self._classic = coordinator.classic
        self._disk = disk
        self._limiter = limiter

    async def join_group(self, asked: Asked) -> Fields:
        """Answer JoinGroup."""
        fields = asked.fields
        name, member_id = fields["groupId"], fields["memberId"]
        if not name:
            return {"memberId": member_id, "errorCode": ErrorCode.INVALID_GROUP_ID}
        least, most = self._limits.least_session_ms, self._limits.most_session_ms
        if not least <= fields["sessionTimeoutMs"] <= most:
            return {"memberId": member_id, "errorCode": ErrorCode.INVALID_SESSION_TIMEOUT}
        generation = 0
        if self._table.get(name) is None:
            known = await trio.to_thread.run_sync(self._disk.find, name, limiter=self._limiter)
            if known is not None and not is_joinable(known):
                return {"memberId": "", "errorCode": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
            if known is not None and known.kind == CLASSIC:
                generation = known.epoch or 0
        return await self._classic.join(asked, generation)

    async def sync_group(self, asked: Asked) -> Fields:
        """Answer SyncGroup."""
        if not asked.fields["groupId"]:
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
