"""The coordinator of all groups of this server: members in memory, commits in memory and in a file."""

from __future__ import annotations

from collections.abc import Iterable

from kafkafs.serve.coordinator.classic import ClassicCoordinator
from kafkafs.serve.coordinator.classic_group import ClassicGroup, ClassicState
from kafkafs.serve.coordinator.classic_rebalances import ClassicRebalances
from kafkafs.serve.coordinator.commits.commit_file import CommitFile
from kafkafs.serve.coordinator.commits.commit_store import CommitStore
from kafkafs.serve.coordinator.commits.newest import Commits, Place
from kafkafs.serve.coordinator.consumer import ConsumerCoordinator
from kafkafs.serve.coordinator.consumer_group import ConsumerGroup
from kafkafs.serve.coordinator.consumer_member import ConsumerMember
from kafkafs.serve.coordinator.consumer_sessions import ConsumerSessions
from kafkafs.serve.coordinator.group_table import GroupTable, LiveGroup
from kafkafs.serve.coordinator.limits import DEFAULT_GROUP_LIMITS, GroupLimits
from kafkafs.serve.coordinator.migration.classic_members import ClassicMembers
from kafkafs.serve.error_codes import ErrorCode

_CONSUMERS_SINCE = 9
"""Version of OffsetCommit from which members of consumer groups commit."""


class Coordinator:
    """Groups with members, and commits.

    Args:
        limits: limits on groups.
        commit_file: file that keeps the commits; None to keep them in memory alone.

    Attributes:
        limits: limits on groups.
        table: the groups with members.
        classic: the classic protocol.
        consumer: the consumer protocol.
        commits: what was committed to this server.
        store: takes new commits.
    """

    def __init__(
        self, limits: GroupLimits = DEFAULT_GROUP_LIMITS, commit_file: CommitFile | None = None
    ) -> None:
        self.limits = limits
        self.table = GroupTable(limits)
        rebalances = ClassicRebalances(self.table)
        sessions = ConsumerSessions(self.table, rebalances)
        in_consumer_groups = ClassicMembers(limits, sessions)
        self._rebalances, self._sessions = rebalances, sessions
        self.table.release = self._release
        self.classic = ClassicCoordinator(self.table, rebalances, in_consumer_groups)
        self.consumer = ConsumerCoordinator(self.table, rebalances, sessions)
        self.commits = Commits(self.table.account)
        self.store = CommitStore(self.commits, commit_file)

    async def run(self) -> None:
        """Keep the deadlines of members, for ever."""
        await self.table.timers.run()

    def _release(self, group: LiveGroup) -> None:
        """Answer those who wait in a group that makes room for others, and give back what it holds."""
        if isinstance(group, ClassicGroup):
            for classic in list(group.members.values()):
                self._rebalances.remove(group, classic)
            self._rebalances.forget_all(group)
            group.release()
        elif isinstance(group, ConsumerGroup):
            for member in group.members.values():
                self._sessions.forget(group, member)
            group.release()

    def why_no_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Return why a member may not ask for offsets; NONE if it may."""
        group = self.table.get(group_id)
        if not isinstance(group, ConsumerGroup) or (member_id is None and epoch < 0):
            return ErrorCode.NONE
        member = group.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else _stale(member)

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
        if isinstance(group, ConsumerGroup):
            return _why_no_consumer_commit(group, member_id, generation, version, places)
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


def _why_no_consumer_commit(
    group: ConsumerGroup, member_id: str, epoch: int, version: int, places: Iterable[Place]
) -> ErrorCode:
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if version < _CONSUMERS_SINCE and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    ids = group.subscriptions.seen.ids_by_name
    # A member that has not yet heard of its new epoch still commits what it had before.
    since = [member.since((ids.get(topic, ""), number)) for topic, number in places]
    has_all = all(each is not None and each <= epoch for each in since)
    return ErrorCode.NONE if epoch < member.epoch and has_all else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    """Return the error of an epoch that is not the member's."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
