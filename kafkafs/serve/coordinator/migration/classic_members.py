"""Classic members of consumer groups: they join, sync, live and leave as in a classic group, and the server assigns."""

from __future__ import annotations

import trio

from engine.errors import CorruptMessageError
from kafkafs.serve.coordinator.classic_group import (
    CONSUMER_PROTOCOL,
    MEMBER_ID_REQUIRED_SINCE,
    not_joined,
    rebalance_ms,
)
from kafkafs.serve.coordinator.consumer_group import ConsumerGroup
from kafkafs.serve.coordinator.consumer_member import (
    ClassicSide,
    ConsumerMember,
    MemberState,
)
from kafkafs.serve.coordinator.consumer_sessions import ConsumerSessions
from kafkafs.serve.coordinator.limits import GroupLimits
from kafkafs.serve.coordinator.migration.embedded import (
    EmbeddedSubscription,
    assignment_bytes,
    read_subscription,
)
from kafkafs.serve.coordinator.replies import MemberRefused
from kafkafs.serve.coordinator.topics_now import TopicsNow
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request


class ClassicMembers:
    """Answers requests of the classic protocol to consumer groups with members.

    Args:
        limits: limits on groups.
        sessions: deadlines of members.
    """

    def __init__(self, limits: GroupLimits, sessions: ConsumerSessions) -> None:
        self._limits = limits
        self._sessions = sessions

    def join(self, request: Request, group: ConsumerGroup, now: TopicsNow) -> Fields:
        """Answer JoinGroup, at once: nobody waits for the others."""
        try:
            return self._join(request, group, now)
        except MemberRefused as refused:
            return not_joined("", refused.code)

    def _join(self, request: Request, group: ConsumerGroup, now: TopicsNow) -> Fields:
        fields = request.fields
        instance_id = fields["groupInstanceId"]
        member_id = fields["memberId"] or group.new_id()
        protocols = {each["name"]: each["metadata"] for each in fields["protocols"]}
        if len(group.members) >= self._limits.members and member_id not in group.members:
            raise _refused(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if len(protocols) > self._limits.protocols or not group.supports(
            fields["protocolType"], protocols
        ):
            raise _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        has_id = bool(fields["memberId"])
        if not has_id and instance_id is None and request.version >= MEMBER_ID_REQUIRED_SINCE:
            return not_joined(member_id, ErrorCode.MEMBER_ID_REQUIRED)
        known = _known(group, member_id, instance_id, may_replace=not has_id)
        try:
            subscription = read_subscription(next(iter(protocols.values())), now)
        except CorruptMessageError:
            raise _refused(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        may_resolve = group.subscriptions.may_resolve(trio.current_time())
        is_new = member_id not in group.members
        is_last = instance_id is not None and known is not None and group.is_last_consumer(known)
        if known is None:
            member = ConsumerMember(member_id=member_id, instance_id=instance_id)
            group.add(member)
        else:
            member = known
            if known.member_id != member_id:
                self._sessions.forget(group, known)
                group.replace(known, member_id)
        classic = ClassicSide(fields["sessionTimeoutMs"], protocols)
        has_changed = _update(group, member, request, subscription, classic)
        self._sessions.check_room(group, member)
        if is_last:
            self._downgrade(group, member, subscription, now, has_changed=has_changed)
        else:
            group.note_change(now, has_changed=has_changed)
            self._sessions.check_room(group, member)
            group.assign_if_stale(member, is_new=is_new)
            group.reconcile(member, subscription.owned, has_changed=has_changed)
            self._sessions.keep_alive(group, member)
            self._sessions.await_sync(group, member)
            if may_resolve:
                group.resolve(now, trio.current_time())
        return {
            "errorCode": ErrorCode.NONE,
            "memberId": member_id,
            "generationId": member.epoch,
            "protocolType": CONSUMER_PROTOCOL,
            "protocolName": classic.protocol,
        }

    def _downgrade(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        subscription: EmbeddedSubscription,
        now: TopicsNow,
        *,
        has_changed: bool,
    ) -> None:
        """The last member of the consumer protocol became a classic one: so does the group."""
        generation = group.epoch
        group.note_change(now, has_changed=has_changed)
        is_stale = group.assignment_epoch < group.epoch
        group.epoch = generation
        if not is_stale:
            group.reconcile(member, subscription.owned, has_changed=has_changed)
        self._sessions.downgrade(group, list(group.members.values()), is_stale=is_stale)

    def sync(self, request: Request, group: ConsumerGroup) -> Fields:
        """Answer SyncGroup: with what the server has assigned."""
        fields = request.fields
        try:
            member, classic = _classic(group, fields)
            if fields["protocolType"] not in (None, CONSUMER_PROTOCOL) or fields[
                "protocolName"
            ] not in (None, classic.protocol):
                raise _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED:
                self._sessions.await_join(group, member)
                raise _refused(ErrorCode.REBALANCE_IN_PROGRESS)
        except MemberRefused as refused:
            return {"errorCode": refused.code}
        self._sessions.synced(group, member)
        self._sessions.keep_alive(group, member)
        names = group.subscriptions.seen.names
        return {
            "errorCode": ErrorCode.NONE,
            "protocolType": fields["protocolType"],
            "protocolName": fields["protocolName"],
            "assignment": assignment_bytes(
                member.assigned, names, classic.protocols[classic.protocol]
            ),
        }

    def heartbeat(self, request: Request, group: ConsumerGroup) -> Fields:
        """Answer Heartbeat: a member that has to give up partitions, or can get more, joins again."""
        try:
            member, _ = _classic(group, request.fields)
        except MemberRefused as refused:
            return {"errorCode": refused.code}
        self._sessions.keep_alive(group, member)
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED
            or (member.state is MemberState.UNRELEASED and not group.waits_for_others(member))
        ):
            self._sessions.await_join(group, member)
            return {"errorCode": ErrorCode.REBALANCE_IN_PROGRESS}
        return {"errorCode": ErrorCode.NONE}

    def leave(self, members: list[Fields], group: ConsumerGroup) -> list[ErrorCode]:
        """Remove members, of either protocol, and return their errors."""
        errors: list[ErrorCode] = []
        gone: dict[str, ConsumerMember] = {}
        for each in members:
            try:
                member = _leaving(group, each["memberId"], each["groupInstanceId"])
                gone[member.member_id] = member
                errors.append(ErrorCode.NONE)
            except MemberRefused as refused:
                errors.append(refused.code)
        if gone:
            self._sessions.remove(group, gone.values())
        return errors


def _known(
    group: ConsumerGroup, member_id: str, instance_id: str | None, *, may_replace: bool
) -> ConsumerMember | None:
    """Return the member that joins again, or whose place the joining one takes; None for a new one."""
    if instance_id is None:
        return group.members.get(member_id)
    known = group.members.get(group.static.get(instance_id, ""))
    if may_replace:
        return known
    return _fenced(known, member_id)


def _fenced(known: ConsumerMember | None, member_id: str) -> ConsumerMember:
    if known is None:
        raise _refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if known.member_id != member_id:
        raise _refused(ErrorCode.FENCED_INSTANCE_ID)
    return known


def _classic(group: ConsumerGroup, fields: Fields) -> tuple[ConsumerMember, ClassicSide]:
    """Return the classic member that sent a request of its generation, and its classic side."""
    member_id, instance_id = fields["memberId"], fields["groupInstanceId"]
    by = member_id if instance_id is None else group.static.get(instance_id, "")
    member = _fenced(group.members.get(by), member_id)
    if member.classic is None:
        raise _refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if fields["generationId"] != member.epoch:
        raise _refused(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _leaving(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    by = member_id if instance_id is None else group.static.get(instance_id, "")
    known = group.members.get(by)
    return _fenced(known, member_id or ("" if known is None else known.member_id))


def _update(
    group: ConsumerGroup,
    member: ConsumerMember,
    request: Request,
    subscription: EmbeddedSubscription,
    classic: ClassicSide,
) -> bool:
    """Take over what a request states; return whether the subscription has changed."""
    has_changed = group.subscriptions.change(member, subscription.topics, "")
    member.client_id, member.client_host = request.client_id, request.client_host
    member.rack_id = subscription.rack_id or member.rack_id
    stated = rebalance_ms(request)
    if stated != -1:
        member.rebalance_ms = stated
    member.classic = classic
    group.measure(member)
    return has_changed


def _refused(code: ErrorCode) -> MemberRefused:
    return MemberRefused(code, code.name)
