"""The coordinator of all groups of this server: members in memory, commits in memory and in a file."""

from __future__ import annotations

from collections.abc import Iterable

from kafkafs.serve.coordinator.classic import ClassicCoordinator
from kafkafs.serve.coordinator.classic_group import ClassicGroup, ClassicState
from kafkafs.serve.coordinator.commits import Commits, CommitsOfGroup, Place
from kafkafs.serve.coordinator.group_table import GroupTable
from kafkafs.serve.coordinator.limits import DEFAULT_GROUP_LIMITS, GroupLimits
from kafkafs.serve.error_codes import ErrorCode


class Coordinator:
    """Groups with members, and commits.

    Attributes:
        limits: limits on groups.
        table: the groups with members.
        classic: the classic protocol.
        commits: what was committed to this server.
    """

    def __init__(self, limits: GroupLimits = DEFAULT_GROUP_LIMITS) -> None:
        self.limits = limits
        self.table = GroupTable(limits)
        self.classic = ClassicCoordinator(self.table)
        self.commits = Commits(self.table.account)

    async def run(self) -> None:
        """Keep the deadlines of members, for ever."""
        await self.table.timers.run()

    async def commit(self, group_id: str, found: CommitsOfGroup) -> ErrorCode:
        """Keep commits; return why they cannot be kept, or NONE."""
        if not self.commits.has_room(group_id, found):
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        self.commits.put(group_id, found)
        return ErrorCode.NONE

    def why_no_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Return why a member may not ask for offsets; NONE if it may."""
        return ErrorCode.NONE

    def why_no_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        places: Iterable[Place],
    ) -> ErrorCode | None:
        """Return why a client may not commit; NONE if it may, and None for a group that is not in memory."""
        group = self.table.get(group_id)
        if isinstance(group, ClassicGroup):
            return self._why_no_classic_commit(group, member_id, instance_id, generation)
        return None

    def _why_no_classic_commit(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        if generation < 0 and group.is_empty:
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.why_not(member_id, instance_id)
        if error:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is ClassicState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.classic.keep_alive(group, member_id)
        return ErrorCode.NONE
