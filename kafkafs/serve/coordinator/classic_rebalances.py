"""Rebalances of classic groups, and the sessions of their members, with the rules of Kafka's coordinator."""

from __future__ import annotations

from functools import partial

from kafkafs.serve.coordinator.classic_group import ClassicGroup, ClassicMember, ClassicState
from kafkafs.serve.coordinator.group_table import GroupTable
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields

EMPTY, PREPARING = ClassicState.EMPTY, ClassicState.PREPARING
COMPLETING, STABLE = ClassicState.COMPLETING, ClassicState.STABLE


class ClassicRebalances:
    """Moves groups from one generation to the next.

    Args:
        table: the groups.
    """

    def __init__(self, table: GroupTable) -> None:
        self._account = table.account
        self._first_seconds = table.limits.first_rebalance_seconds
        self._timers = table.timers

    def rebalance_or_complete(self, group: ClassicGroup) -> None:
        """Begin a rebalance; end the one that is under way if all members have joined."""
        if group.state is PREPARING:
            self.complete_if_all_joined(group)
        else:
            self.prepare(group)

    def prepare(self, group: ClassicGroup) -> None:
        """Begin a rebalance."""
        if group.state is COMPLETING:
            self._give(group, {}, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._timers.cancel(_sync_key(group))
        is_first = group.state is EMPTY
        group.move_to(PREPARING)
        if is_first:
            delay = self._first_seconds
            left = max(group.rebalance_seconds - delay, 0.0)
            self._end_first_later(group, delay, left)
        elif group.all_joined:
            self._complete(group)
        else:
            self._complete_later(group)

    def _end_first_later(self, group: ClassicGroup, delay: float, left: float) -> None:
        self._timers.schedule(_join_key(group), delay, partial(self._end_first, group, delay, left))

    def _end_first(self, group: ClassicGroup, delay: float, left: float) -> None:
        """End the first rebalance of a group, or wait once more if another member came."""
        if group.has_newcomer and left:
            group.has_newcomer = False
            following = min(self._first_seconds, left)
            self._end_first_later(group, following, max(left - delay, 0.0))
        else:
            self._complete(group)

    def _complete_later(self, group: ClassicGroup) -> None:
        self._timers.schedule(
            _join_key(group), group.rebalance_seconds, partial(self._complete, group)
        )

    def complete_if_all_joined(self, group: ClassicGroup) -> None:
        """End the joining if nobody is missing; the first one lasts as long as it may."""
        if group.state is PREPARING and group.before is not EMPTY and group.all_joined:
            self._complete(group)

    def _complete(self, group: ClassicGroup) -> None:
        """End the joining: drop dynamic members that did not come, and tell the others their generation."""
        self._timers.cancel(_join_key(group))
        for member in list(group.members.values()):
            if member.join is None and member.instance_id is None:
                self.remove(group, member)
        if group.members and not group.elect_waiting_leader():
            self._complete_later(group)  # only static members, none of which came
            return
        group.has_newcomer = False
        group.begin_generation()
        if group.state is EMPTY:
            return
        for member in group.members.values():
            group.answer_join(member, group.joined(member.member_id))
            self.keep_alive(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._timers.schedule(
            _sync_key(group), group.rebalance_seconds, partial(self._end_syncing, group)
        )

    def _end_syncing(self, group: ClassicGroup) -> None:
        """Drop the members that never asked for their assignment."""
        if group.state not in (COMPLETING, STABLE) or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            self.remove(group, group.members[member_id])
        self.prepare(group)

    def remove(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member, and answer what it waits for."""
        self.forget(group, member.member_id)
        # Its client asks again as a new member, if it is still there.
        group.answer_join(member, {"memberId": "", "errorCode": ErrorCode.UNKNOWN_MEMBER_ID})
        group.answer_sync(member, {"errorCode": ErrorCode.UNKNOWN_MEMBER_ID})
        group.remove(member.member_id)

    def after_leaving(self, group: ClassicGroup) -> None:
        """Let the others take over when members are gone."""
        if group.state in (STABLE, COMPLETING):
            self.prepare(group)
        else:
            self.complete_if_all_joined(group)

    def _give(self, group: ClassicGroup, assignments: dict[str, bytes], error: ErrorCode) -> None:
        """Set the assignments and tell them to all members that wait."""
        group.assign(assignments)
        for member in group.members.values():
            answer: Fields = {"errorCode": error} if error else group.synced(member)
            if group.answer_sync(member, answer):
                self.keep_alive(group, member)

    def asked_to_sync(self, group: ClassicGroup, member_id: str) -> None:
        """Note that a member asked for its assignment."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._timers.cancel(_sync_key(group))

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Give the members what the leader assigned."""
        mine = {name: data for name, data in assignments.items() if name in group.members}
        if self._account.has_room(sum(map(len, mine.values()))):
            self._give(group, mine, ErrorCode.NONE)
            group.move_to(STABLE)
        else:
            self._give(group, {}, ErrorCode.UNKNOWN_SERVER_ERROR)
            self.prepare(group)

    # Sessions

    def keep_alive(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Let the session of a member begin again."""
        self.expire_later(group, member.member_id, member.session_ms / 1000)

    def forget(self, group: ClassicGroup, member_id: str) -> None:
        """End the session of a member that is gone."""
        self._timers.cancel(_session_key(group, member_id))

    def forget_all(self, group: ClassicGroup) -> None:
        """Drop the deadlines of a group that becomes one of another protocol."""
        self._timers.cancel(_join_key(group))
        self._timers.cancel(_sync_key(group))
        for member_id in (*group.members, *group.pending):
            self.forget(group, member_id)

    def expire_later(self, group: ClassicGroup, member_id: str, seconds: float) -> None:
        """Drop a member, or an id that was given, in `seconds`."""
        self._timers.schedule(
            _session_key(group, member_id), seconds, partial(self._expire, group, member_id)
        )

    def _expire(self, group: ClassicGroup, member_id: str) -> None:
        """Drop a member without heartbeats, or an id with which nobody came back."""
        member = group.members.get(member_id)
        if member is None:
            group.drop_pending(member_id)
            self.complete_if_all_joined(group)
        elif member.may_expire():
            self.remove(group, member)
            self.after_leaving(group)


def _session_key(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return "session", group.group_id, member_id


def _join_key(group: ClassicGroup) -> tuple[str, str]:
    return "join", group.group_id


def _sync_key(group: ClassicGroup) -> tuple[str, str]:
    return "sync", group.group_id
