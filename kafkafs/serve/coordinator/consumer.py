"""The consumer protocol (KIP-848): ConsumerGroupHeartbeat, with the rules of Kafka's coordinator."""

from __future__ import annotations

from functools import partial

from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.coordinator.assignors import ASSIGNORS, Place
from kafkafs.serve.coordinator.consumer_group import (
    LEAVE,
    LEAVE_FOR_NOW,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from kafkafs.serve.coordinator.group_table import GroupTable
from kafkafs.serve.coordinator.topics_now import TopicsNow
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.patterns import BadPattern, compiled

_OWN_IDS_SINCE = 1
"""Version from which members choose their ids."""


class _Refused(Exception):
    """A heartbeat that is answered with an error."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class ConsumerCoordinator:
    """Answers the heartbeats of members of consumer groups.

    Args:
        table: the groups.
    """

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._limits = table.limits
        self._timers = table.timers

    def heartbeat(self, asked: Asked, now: TopicsNow, known_epoch: int) -> Fields:
        """Answer ConsumerGroupHeartbeat.

        Args:
            asked: the request.
            now: the topics.
            known_epoch: epoch of the group on disk, from which a new group in memory goes on.
        """
        fields = asked.fields
        try:
            _check(fields, asked.version)
            if fields["memberEpoch"] in (LEAVE, LEAVE_FOR_NOW):
                return self._leave(fields)
            return self._beat(asked, now, known_epoch)
        except _Refused as refused:
            return {"errorCode": refused.code, "errorMessage": str(refused)}

    def _beat(self, asked: Asked, now: TopicsNow, known_epoch: int) -> Fields:
        fields = asked.fields
        owned = _owned(fields)
        group = self._group(fields, known_epoch)
        member, is_new = self._member(group, fields, owned)
        before = set(member.assigned)
        has_changed = self._update(group, member, asked)
        self._table.put(group)
        if has_changed or is_new:
            group.refresh(now)
            group.epoch += 1
        elif group.seen is not now and group.refresh(now):
            group.epoch += 1
        if not self._table.account.has_room(0):
            self._drop(group, member)
            raise _Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "the groups of this server hold as much as they may",
            )
        if group.epoch > group.assignment_epoch:
            group.assign(now)
        group.reconcile(member, owned)
        self._keep_alive(group, member)
        answer: Fields = {
            "errorCode": ErrorCode.NONE,
            "memberId": member.member_id,
            "memberEpoch": member.epoch,
            "heartbeatIntervalMs": self._limits.heartbeat_ms,
            "assignment": None,
        }
        if _is_full(fields) or before != member.assigned.keys():
            answer["assignment"] = {"topicPartitions": _by_topic(member.assigned)}
        return answer

    def _group(self, fields: Fields, known_epoch: int) -> ConsumerGroup:
        """Return the group of a request; a new one is in the table once its first member is in it."""
        name, member_id = fields["groupId"], fields["memberId"]
        group = self._table.get(name)
        if isinstance(group, ConsumerGroup):
            return group
        if group is not None and not group.is_empty:
            raise _Refused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"group {name} has members of the classic protocol"
            )
        if fields["memberEpoch"]:
            raise _unknown(
                name, member_id
            )  # so a member joins again when the server was started again
        if group is None and not self._table.has_room():
            raise _Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "the server has as many groups as it may"
            )
        return ConsumerGroup(
            group_id=name,
            account=self._table.account,
            epoch=known_epoch,
            assignment_epoch=known_epoch,
        )

    def _member(
        self, group: ConsumerGroup, fields: Fields, owned: list[Place] | None
    ) -> tuple[ConsumerMember, bool]:
        """Return the member that sent a request, and whether it is new; a new one is not added yet."""
        epoch, instance_id = fields["memberEpoch"], fields["instanceId"]
        member_id = fields["memberId"] or group.new_id()
        known = group.members.get(member_id)
        if instance_id is not None:
            known = group.members.get(group.static.get(instance_id, ""))
            if known is None and epoch:
                raise _unknown(group.group_id, instance_id)
            if known is not None and known.member_id != member_id:
                if epoch:
                    raise _fenced_instance(instance_id)
                if known.epoch != LEAVE_FOR_NOW:
                    raise _Refused(
                        ErrorCode.UNRELEASED_INSTANCE_ID,
                        f"the instance id {instance_id} belongs to member {known.member_id}",
                    )
                self._forget(group, known)
                group.replace(known, member_id)
                return known, False
        if known is None:
            if epoch:
                raise _unknown(group.group_id, member_id)
            if len(group.members) >= self._limits.members:
                raise _Refused(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    f"group {group.group_id} has {self._limits.members} members, its most",
                )
            return ConsumerMember(member_id=member_id, instance_id=instance_id), True
        error = known.why_not(epoch, owned)
        if error:
            raise _Refused(
                error,
                f"member {member_id} has epoch {known.epoch}, not {epoch}: it has to give up its"
                " partitions and join again",
            )
        return known, False

    def _update(self, group: ConsumerGroup, member: ConsumerMember, asked: Asked) -> bool:
        """Take over what a request states; return whether the subscription has changed."""
        fields = asked.fields
        names, pattern = member.names, member.pattern
        if fields["subscribedTopicNames"] is not None:
            names = frozenset(fields["subscribedTopicNames"])
        if fields["subscribedTopicRegex"] is not None:
            pattern = fields["subscribedTopicRegex"]
            _check_pattern(pattern)
        has_changed = (names, pattern) != (member.names, member.pattern)
        member.names, member.pattern = names, pattern
        member.client_id, member.client_host = asked.client_id, asked.client_host
        if fields["rackId"] is not None:
            member.rack_id = fields["rackId"]
        if fields["rebalanceTimeoutMs"] != -1:
            member.rebalance_ms = fields["rebalanceTimeoutMs"]
        if fields["serverAssignor"] is not None:
            member.assignor = fields["serverAssignor"]
        if member.member_id in group.members:
            group.measure(member)
        else:
            group.add(member)
        return has_changed

    def _leave(self, fields: Fields) -> Fields:
        name, epoch, instance_id = fields["groupId"], fields["memberEpoch"], fields["instanceId"]
        member_id = fields["memberId"]
        group = self._table.get(name)
        if not isinstance(group, ConsumerGroup):
            raise _Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {name}")
        if instance_id is not None:
            known = group.members.get(group.static.get(instance_id, ""))
            if known is not None and known.member_id != member_id:
                raise _fenced_instance(instance_id)
        else:
            known = group.members.get(member_id)
        if known is None:
            raise _unknown(name, member_id)
        if epoch == LEAVE_FOR_NOW:
            group.rest(known)
        else:
            self._drop(group, known)
        return {"errorCode": ErrorCode.NONE, "memberId": member_id, "memberEpoch": epoch}

    # Deadlines

    def _keep_alive(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Let the session of a member begin again; one that has to give up partitions has its own time for it."""
        seconds = self._limits.session_ms / 1000
        drop = partial(self._drop_if_known, group, member)
        self._timers.schedule(_key(group, member, "session"), seconds, drop)
        revoking = _key(group, member, "revoking")
        if member.state is not MemberState.UNREVOKED:
            self._timers.cancel(revoking)
        elif revoking not in self._timers:
            self._timers.schedule(revoking, member.rebalance_ms / 1000, drop)

    def _drop_if_known(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        if group.members.get(member.member_id) is member:
            self._drop(group, member)

    def _drop(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._forget(group, member)
        group.remove(member)

    def _forget(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._timers.cancel(_key(group, member, "session"))
        self._timers.cancel(_key(group, member, "revoking"))


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
        raise _Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {assignor}: choose {' or '.join(ASSIGNORS)}",
        )


def _check_pattern(pattern: str) -> None:
    if pattern:
        try:
            compiled(pattern)
        except BadPattern as error:
            raise _Refused(
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


def _invalid(reason: str) -> _Refused:
    return _Refused(ErrorCode.INVALID_REQUEST, reason)


def _unknown(group_id: str, member_id: str) -> _Refused:
    return _Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of group {group_id}")


def _fenced_instance(instance_id: str) -> _Refused:
    return _Refused(
        ErrorCode.FENCED_INSTANCE_ID, f"the instance id {instance_id} belongs to another member"
    )


def _key(group: ConsumerGroup, member: ConsumerMember, name: str) -> tuple[str, str, str]:
    return name, group.group_id, member.member_id
