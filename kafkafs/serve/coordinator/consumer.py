"""The consumer protocol (KIP-848): ConsumerGroupHeartbeat, with the rules of Kafka's coordinator."""

from __future__ import annotations

import trio

from engine.replay.groups.group import FIRST_ASSIGNMENT_EPOCH
from kafkafs.serve.coordinator.assignors.choice import ASSIGNORS
from kafkafs.serve.coordinator.assignors.subscriber import Place
from kafkafs.serve.coordinator.classic_group import ClassicGroup
from kafkafs.serve.coordinator.classic_rebalances import ClassicRebalances
from kafkafs.serve.coordinator.consumer_group import ConsumerGroup
from kafkafs.serve.coordinator.consumer_member import LEAVE, LEAVE_FOR_NOW, ConsumerMember
from kafkafs.serve.coordinator.consumer_sessions import ConsumerSessions
from kafkafs.serve.coordinator.group_table import GroupTable
from kafkafs.serve.coordinator.migration.conversions import upgraded
from kafkafs.serve.coordinator.replies import MemberRefused
from kafkafs.serve.coordinator.topics_now import TopicsNow
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.patterns import BadPattern, compiled
from kafkafs.serve.request import Fields, Request

_OWN_IDS_SINCE = 1
"""Version from which members choose their ids."""


class ConsumerCoordinator:
    """Answers the heartbeats of members of consumer groups.

    Args:
        table: the groups.
        rebalances: of classic groups, which become consumer groups.
        sessions: deadlines of members.
    """

    def __init__(
        self, table: GroupTable, rebalances: ClassicRebalances, sessions: ConsumerSessions
    ) -> None:
        self._table = table
        self._limits = table.limits
        self._rebalances = rebalances
        self._sessions = sessions

    def heartbeat(self, request: Request, now: TopicsNow, known_epoch: int | None) -> Fields:
        """Answer ConsumerGroupHeartbeat.

        Args:
            request: the request.
            now: the topics.
            known_epoch: epoch of the group on disk, from which a new group in memory goes on; None if no consumer group
                is on disk, or if it has been joined.
        """
        fields = request.fields
        try:
            _check(fields, request.version)
            if fields["memberEpoch"] in (LEAVE, LEAVE_FOR_NOW):
                return self._leave(fields, is_on_disk=known_epoch is not None)
            return self._beat(request, now, known_epoch)
        except MemberRefused as refused:
            is_told = refused.code != ErrorCode.UNKNOWN_SERVER_ERROR
            return {
                "errorCode": refused.code,
                "errorMessage": str(refused) if is_told else None,
            }

    def _beat(self, request: Request, now: TopicsNow, known_epoch: int | None) -> Fields:
        fields = request.fields
        owned = _owned(fields)
        group = self._group(fields, now, known_epoch)
        member_id = fields["memberId"] or group.new_id()
        try:
            known = self._known(group, fields, member_id, owned)
            _check_pattern(group, fields["subscribedTopicRegex"])
        except MemberRefused:
            if group is not self._table.get(group.group_id):
                group.release()
            raise
        may_resolve = group.subscriptions.may_resolve(trio.current_time())
        is_new = member_id not in group.members
        # A broker looks for the target of a member by the instance id, which it did not have.
        has_target = fields["instanceId"] is None or fields["instanceId"] in group.static
        self._keep(group)
        member = self._member(group, known, fields, member_id)
        before = set(member.assigned)
        has_subscribed, is_waiting = _update(group, member, request)
        group.note_change(now, has_changed=has_subscribed and not is_waiting)
        self._sessions.check_room(group, member)
        has_target |= group.assign_if_stale(member, is_new=is_new)
        group.reconcile(member, owned, has_changed=has_subscribed, has_target=has_target)
        self._sessions.keep_alive(group, member)
        self._sessions.await_revocation(group, member)
        answer: Fields = {
            "errorCode": ErrorCode.NONE,
            "memberId": member.member_id,
            "memberEpoch": member.epoch,
            "heartbeatIntervalMs": self._limits.heartbeat_ms,
            "assignment": None,
        }
        if _is_full(fields) or before != member.assigned.keys():
            answer["assignment"] = {"topicPartitions": _by_topic(member.assigned)}
        if may_resolve:
            group.resolve(now, trio.current_time())
        return answer

    def _group(self, fields: Fields, now: TopicsNow, known_epoch: int | None) -> ConsumerGroup:
        """Return the group of a request; a new one, and one that was classic, is not in the table yet."""
        name, member_id = fields["groupId"], fields["memberId"]
        group = self._table.get(name)
        if isinstance(group, ConsumerGroup):
            if fields["memberEpoch"]:
                self._table.hear(group)
            return group
        if fields["memberEpoch"]:
            if group is not None:
                raise MemberRefused(
                    ErrorCode.GROUP_ID_NOT_FOUND, f"group {name} is no consumer group"
                )
            raise _unknown(
                name, member_id
            )  # so a member joins again when the server was started again
        if isinstance(group, ClassicGroup) and not group.is_empty:
            return upgraded(group, now)
        if group is None and not self._table.has_room():
            raise MemberRefused(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "the server has as many groups as it may"
            )
        epoch = max(known_epoch or 0, FIRST_ASSIGNMENT_EPOCH)
        return ConsumerGroup(
            group_id=name, account=self._table.account, epoch=epoch, assignment_epoch=epoch
        )

    def _keep(self, group: ConsumerGroup) -> None:
        """Put a group into the table, in place of the classic one that it was."""
        before = self._table.get(group.group_id)
        if before is group:
            return
        if isinstance(before, ClassicGroup):
            self._rebalances.forget_all(before)
            before.release()
        self._table.put(group)
        for member in group.members.values():
            self._sessions.keep_alive(group, member)

    def _known(
        self,
        group: ConsumerGroup,
        fields: Fields,
        member_id: str,
        owned: list[Place] | None,
    ) -> ConsumerMember | None:
        """Return the member that sent a request, or the one whose place it takes; None for a new one."""
        epoch, instance_id = fields["memberEpoch"], fields["instanceId"]
        if len(group.members) >= self._limits.members and member_id not in group.members:
            raise MemberRefused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {group.group_id} has {self._limits.members} members, its most",
            )
        known = group.members.get(member_id)
        if instance_id is not None:
            known = group.members.get(group.static.get(instance_id, ""))
            if known is not None and not epoch:
                if known.epoch != LEAVE_FOR_NOW and known.classic is None:
                    raise MemberRefused(
                        ErrorCode.UNRELEASED_INSTANCE_ID,
                        f"the instance id {instance_id} belongs to member {known.member_id}",
                    )
                return known
            if known is None and not epoch:
                return group.members.get(member_id)
            if known is not None and known.member_id != member_id:
                raise _fenced_instance(instance_id)
        if known is None:
            if epoch:
                raise _unknown(group.group_id, instance_id or member_id)
            return None
        error = known.why_not(epoch, owned)
        if error:
            raise MemberRefused(
                error,
                f"member {member_id} has epoch {known.epoch}, not {epoch}: it has to give up its"
                " partitions and join again",
            )
        return known

    def _member(
        self, group: ConsumerGroup, known: ConsumerMember | None, fields: Fields, member_id: str
    ) -> ConsumerMember:
        """Return the member of a request, which is now in the group."""
        instance_id = fields["instanceId"]
        if known is None:
            known = ConsumerMember(member_id=member_id, instance_id=instance_id)
            group.add(known)
        elif instance_id in group.static and not fields["memberEpoch"]:
            self._sessions.forget(group, known)
            group.replace(known, member_id)
        return known

    def _leave(self, fields: Fields, *, is_on_disk: bool) -> Fields:
        name, epoch, instance_id = fields["groupId"], fields["memberEpoch"], fields["instanceId"]
        member_id = fields["memberId"]
        group = self._table.get(name)
        if group is None and is_on_disk:
            raise _unknown(name, member_id)
        if not isinstance(group, ConsumerGroup):
            raise MemberRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {name}")
        if instance_id is not None:
            known = group.members.get(group.static.get(instance_id, ""))
            if known is not None and known.member_id != member_id:
                raise _fenced_instance(instance_id)
        else:
            known = group.members.get(member_id)
        if known is None:
            raise _unknown(name, member_id)
        if instance_id is not None and epoch == LEAVE_FOR_NOW:
            group.rest(known)
        else:
            self._sessions.remove(group, [known])
        return {"errorCode": ErrorCode.NONE, "memberId": member_id, "memberEpoch": epoch}


def _update(group: ConsumerGroup, member: ConsumerMember, request: Request) -> tuple[bool, bool]:
    """Take over what a request states.

    Returns:
        Whether the subscription has changed, and whether that waits for the topics of a new pattern.
    """
    fields = request.fields
    names, pattern = member.names, member.pattern
    if fields["subscribedTopicNames"] is not None:
        names = frozenset(fields["subscribedTopicNames"])
    if fields["subscribedTopicRegex"] is not None:
        pattern = fields["subscribedTopicRegex"]
    is_waiting = (
        names == member.names and bool(pattern) and pattern not in group.subscriptions.resolved
    )
    has_changed = group.subscriptions.change(member, names, pattern)
    if fields["instanceId"] is not None:
        member.instance_id = fields["instanceId"]
        group.static[member.instance_id] = member.member_id
    member.classic = None
    member.client_id, member.client_host = request.client_id, request.client_host
    if fields["rackId"] is not None:
        member.rack_id = fields["rackId"]
    if fields["rebalanceTimeoutMs"] != -1:
        member.rebalance_ms = fields["rebalanceTimeoutMs"]
    if fields["serverAssignor"] is not None:
        member.assignor = fields["serverAssignor"]
    group.measure(member)
    return has_changed, is_waiting


def _check(fields: Fields, version: int) -> None:
    """Refuse a request that no client sends."""
    epoch = fields["memberEpoch"]
    needs_id = version >= _OWN_IDS_SINCE or epoch > 0 or epoch == LEAVE
    if not fields["groupId"]:
        raise _invalid("the group id is empty")
    if needs_id and not fields["memberId"]:
        raise _invalid("the member id is empty")
    if fields["instanceId"] == "" or fields["rackId"] == "":
        raise _invalid("the instance id or the rack id is empty")
    if epoch < LEAVE_FOR_NOW:
        raise _invalid(f"no member has epoch {epoch}")
    if epoch == LEAVE_FOR_NOW and fields["instanceId"] is None:
        raise _invalid("a member without an instance id cannot leave for now")
    if epoch == 0:
        if fields["rebalanceTimeoutMs"] == -1:
            raise _invalid("the first request has no rebalance timeout")
        if fields["topicPartitions"] is None or fields["topicPartitions"]:
            raise _invalid("a member that joins has no partitions")
        if fields["subscribedTopicNames"] is None and fields["subscribedTopicRegex"] is None:
            raise _invalid("a member that joins has to subscribe")
    assignor = fields["serverAssignor"]
    if assignor is not None and assignor not in ASSIGNORS:
        raise MemberRefused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {assignor}: choose {' or '.join(ASSIGNORS)}",
        )


def _check_pattern(group: ConsumerGroup, pattern: str | None) -> None:
    """Refuse a new pattern that RE2 does not take."""
    if pattern and pattern not in {each.pattern for each in group.members.values()}:
        try:
            compiled(pattern)
        except BadPattern as error:
            raise MemberRefused(
                ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r} is no pattern of RE2: {error}"
            ) from None


def _is_full(fields: Fields) -> bool:
    """Return whether a request states all that a member has and wants: its client may have lost an answer."""
    subscribes = (
        fields["subscribedTopicNames"] is not None or fields["subscribedTopicRegex"] is not None
    )
    has_all = fields["rebalanceTimeoutMs"] != -1 and fields["topicPartitions"] is not None
    return fields["memberEpoch"] == 0 or (subscribes and has_all)


def _owned(fields: Fields) -> list[Place] | None:
    if fields["topicPartitions"] is None:
        return None
    return [
        (each["topicId"], number)
        for each in fields["topicPartitions"]
        for number in each["partitions"]
    ]


def _by_topic(places: dict[Place, int]) -> list[Fields]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return [{"topicId": topic, "partitions": numbers} for topic, numbers in found.items()]


def _invalid(reason: str) -> MemberRefused:
    return MemberRefused(ErrorCode.INVALID_REQUEST, reason)


def _unknown(group_id: str, member_id: str) -> MemberRefused:
    return MemberRefused(
        ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of group {group_id}"
    )


def _fenced_instance(instance_id: str) -> MemberRefused:
    return MemberRefused(
        ErrorCode.FENCED_INSTANCE_ID, f"the instance id {instance_id} belongs to another member"
    )
