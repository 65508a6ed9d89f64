"""Deadlines of members of consumer groups, and what a group does without a member."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from kafkafs.serve.coordinator.classic_rebalances import ClassicRebalances
from kafkafs.serve.coordinator.consumer_group import ConsumerGroup
from kafkafs.serve.coordinator.consumer_member import ConsumerMember, MemberState
from kafkafs.serve.coordinator.group_table import GroupTable
from kafkafs.serve.coordinator.migration.conversions import downgraded
from kafkafs.serve.coordinator.replies import MemberRefused
from kafkafs.serve.error_codes import ErrorCode

_KINDS = ("session", "revoking", "joining", "syncing")


class ConsumerSessions:
    """Drops members that do not send what they have to in time.

    Args:
        table: the groups.
        rebalances: of classic groups, which a consumer group becomes when only classic members stay.
    """

    def __init__(self, table: GroupTable, rebalances: ClassicRebalances) -> None:
        self._table = table
        self._timers = table.timers
        self._rebalances = rebalances

    def keep_alive(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Let the session of a member begin again."""
        classic = member.classic
        session_ms = self._table.limits.session_ms if classic is None else classic.session_ms
        self._expire_later(group, member, "session", session_ms)

    def await_revocation(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Give a member of the consumer protocol time to give up partitions, if it has to."""
        key = _key(group, member, "revoking")
        if member.state is not MemberState.UNREVOKED or member.classic is not None:
            self._timers.cancel(key)
        elif key not in self._timers:
            self._expire_later(group, member, "revoking", member.rebalance_ms)

    def await_join(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Give a classic member time to join again."""
        if _key(group, member, "joining") not in self._timers:
            self._expire_later(group, member, "joining", member.rebalance_ms)

    def await_sync(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Give a classic member that has joined time to ask for its assignment."""
        self._timers.cancel(_key(group, member, "joining"))
        self._expire_later(group, member, "syncing", member.rebalance_ms)

    def synced(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Note that a classic member asked for its assignment."""
        self._timers.cancel(_key(group, member, "syncing"))

    def forget(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Drop the deadlines of a member."""
        for kind in _KINDS:
            self._timers.cancel(_key(group, member, kind))

    def remove(self, group: ConsumerGroup, gone: Collection[ConsumerMember]) -> None:
        """Remove members; if only classic ones stay, the group becomes a classic one, which rebalances."""
        staying = [each for each in group.members.values() if each not in gone]
        if staying and all(each.classic is not None for each in staying):
            self.downgrade(group, staying, is_stale=True)
            return
        for member in gone:
            self.forget(group, member)
        group.remove(gone)

    def check_room(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Remove a member with which all groups hold more than they may.

        Raises:
            MemberRefused: it is removed.
        """
        if not self._table.account.has_room(0):
            self.remove(group, [member])
            raise MemberRefused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "the groups of this server hold as much as they may",
            )

    def downgrade(
        self, group: ConsumerGroup, staying: Collection[ConsumerMember], *, is_stale: bool
    ) -> None:
        """Make a consumer group a classic one; with a stale assignment it begins a rebalance."""
        classic = downgraded(group, staying)
        for member in group.members.values():
            self.forget(group, member)
        group.release()
        self._table.put(classic)
        for each in classic.members.values():
            self._rebalances.keep_alive(classic, each)
        if is_stale:
            self._rebalances.prepare(classic)

    def _expire_later(
        self, group: ConsumerGroup, member: ConsumerMember, kind: str, milliseconds: int
    ) -> None:
        self._timers.schedule(
            _key(group, member, kind),
            max(milliseconds, 0) / 1000,
            partial(self._expire, group, member),
        )

    def _expire(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        if group.members.get(member.member_id) is member:
            self.remove(group, [member])


def _key(group: ConsumerGroup, member: ConsumerMember, kind: str) -> tuple[str, str, str]:
    return kind, group.group_id, member.member_id
