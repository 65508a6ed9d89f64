"""The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, with the rules of Kafka's coordinator."""

from __future__ import annotations

from kafkafs.serve.coordinator.classic_group import (
    MEMBER_ID_REQUIRED_SINCE,
    ClassicGroup,
    ClassicMember,
    ClassicState,
    not_joined,
    protocols_size,
    rebalance_ms,
)
from kafkafs.serve.coordinator.classic_rebalances import ClassicRebalances
from kafkafs.serve.coordinator.consumer_group import ConsumerGroup
from kafkafs.serve.coordinator.group_table import GroupTable, LiveGroup
from kafkafs.serve.coordinator.migration.classic_members import ClassicMembers
from kafkafs.serve.coordinator.replies import Reply, WaitingRoom
from kafkafs.serve.coordinator.topics_now import TopicsNow
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request

EMPTY, PREPARING = ClassicState.EMPTY, ClassicState.PREPARING
COMPLETING, STABLE = ClassicState.COMPLETING, ClassicState.STABLE

_SKIPS_ASSIGNMENT_SINCE = 9
_MANY_SINCE = 3
"""Version of LeaveGroup from which it names several members."""


class ClassicCoordinator:
    """Answers the requests of classic members.

    Args:
        table: the groups.
        rebalances: of their groups.
        in_consumer_groups: answers those of members of consumer groups.
    """

    def __init__(
        self, table: GroupTable, rebalances: ClassicRebalances, in_consumer_groups: ClassicMembers
    ) -> None:
        self._table = table
        self._limits = table.limits
        self._rebalances = rebalances
        self._in_consumer_groups = in_consumer_groups
        self._waiting = WaitingRoom(table.limits.waiting_bytes)

    # JoinGroup

    async def join(self, request: Request, now: TopicsNow, known_generation: int) -> Fields:
        """Answer JoinGroup: for a member of a rebalance when that ends.

        Args:
            request: the request.
            now: the topics.
            known_generation: generation of the group on disk, from which a new group in memory goes on.
        """
        fields = request.fields
        member_id = fields["memberId"]
        if not self._waiting.has_room(request.size):
            return not_joined("", ErrorCode.GROUP_MAX_SIZE_REACHED)
        group = self._table.get(fields["groupId"])
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._in_consumer_groups.join(request, group, now)
        if not isinstance(group, ClassicGroup):
            if member_id:
                return not_joined(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            if group is None and not self._table.has_room():
                return not_joined("", ErrorCode.GROUP_MAX_SIZE_REACHED)
            group = ClassicGroup(
                group_id=fields["groupId"],
                account=self._table.account,
                generation=0 if group is not None else known_generation,
            )
            self._table.put(group)
        protocols = {each["name"]: each["metadata"] for each in fields["protocols"]}
        if not self._accepts(group, member_id, protocols):
            self._remove_refused(group, member_id)
            return not_joined("", ErrorCode.GROUP_MAX_SIZE_REACHED)
        if len(fields["protocols"]) > self._limits.protocols or not group.supports(
            fields["protocolType"], protocols
        ):
            return not_joined(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        reply = Reply()
        if member_id:
            self._join_known(group, request, protocols, reply)
        else:
            self._join_new(group, request, protocols, reply)
        return await self._waiting.answer(reply, request.size)

    def _accepts(self, group: ClassicGroup, member_id: str, protocols: dict[str, bytes]) -> bool:
        """Return whether the limits allow a member; a known one may always come back."""
        known = group.members.get(member_id)
        held = 0 if known is None else protocols_size(known.protocols)
        if not self._table.account.has_room(protocols_size(protocols) - held):
            return False
        if member_id in group.pending:
            return True
        most = self._limits.members
        if group.state is PREPARING and known is not None and known.join is None:
            return group.waiting < most
        return known is not None or len(group.members) + len(group.pending) < most

    def _remove_refused(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member that may not come back, as if it had left."""
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.remove(group, member)
            self._rebalances.after_leaving(group)

    def _join_new(
        self, group: ClassicGroup, request: Request, protocols: dict[str, bytes], reply: Reply
    ) -> None:
        fields = request.fields
        instance_id = fields["groupInstanceId"]
        new_id = group.new_id(request.client_id, instance_id)
        if instance_id is not None and instance_id in group.static:
            self._join_again(group, request, new_id, protocols, reply)
        elif instance_id is None and request.version >= MEMBER_ID_REQUIRED_SINCE:
            group.add_pending(new_id)
            self._rebalances.expire_later(group, new_id, fields["sessionTimeoutMs"] / 1000)
            reply.send(not_joined(new_id, ErrorCode.MEMBER_ID_REQUIRED))
        else:
            self._add(group, request, new_id, protocols, reply)

    def _join_known(
        self, group: ClassicGroup, request: Request, protocols: dict[str, bytes], reply: Reply
    ) -> None:
        fields = request.fields
        member_id, instance_id = fields["memberId"], fields["groupInstanceId"]
        if member_id in group.pending:
            if instance_id is None:
                self._add(group, request, member_id, protocols, reply)
            else:  # brokers fail here, too
                reply.send(not_joined("", ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        error = group.why_not(member_id, instance_id)
        if error:
            reply.send(not_joined(member_id, error))
            return
        member = group.members[member_id]
        is_same = list(member.protocols.items()) == list(protocols.items())
        if group.state is EMPTY:
            reply.send(not_joined(member_id, ErrorCode.UNKNOWN_MEMBER_ID))
        elif is_same and (
            group.state is COMPLETING or (group.state is STABLE and group.leader != member_id)
        ):
            reply.send(group.joined(member_id))  # it did not get the answer to its first JoinGroup
        else:
            self._update(group, member, request, protocols, reply)
            self._rebalances.rebalance_or_complete(group)

    def _add(
        self,
        group: ClassicGroup,
        request: Request,
        member_id: str,
        protocols: dict[str, bytes],
        reply: Reply,
    ) -> None:
        fields = request.fields
        if group.state is PREPARING and group.before is EMPTY:
            group.has_newcomer = True
        if not group.members:
            group.protocol_type = fields["protocolType"]
        group.add(
            ClassicMember(
                member_id=member_id,
                instance_id=fields["groupInstanceId"],
                client_id=request.client_id,
                client_host=request.client_host,
                rebalance_ms=rebalance_ms(request),
                session_ms=fields["sessionTimeoutMs"],
                protocols=protocols,
                join=reply,
            )
        )
        # It has no id yet, so it sends no heartbeats, and a client that is gone cannot be noticed.
        self._rebalances.expire_later(group, member_id, self._limits.new_member_seconds)
        self._rebalances.rebalance_or_complete(group)

    def _join_again(
        self,
        group: ClassicGroup,
        request: Request,
        new_id: str,
        protocols: dict[str, bytes],
        reply: Reply,
    ) -> None:
        """A static member that was started again takes its old place."""
        fields = request.fields
        was_leader = group.leader
        self._rebalances.forget(group, group.static[fields["groupInstanceId"]])
        member = group.replace_static(fields["groupInstanceId"], new_id)
        member.client_id, member.client_host = request.client_id, request.client_host
        self._rebalances.keep_alive(group, member)
        self._update(group, member, request, protocols, reply)
        if group.state is STABLE and group.choose_protocol() == group.protocol:
            is_leader = group.leader == new_id
            answer = group.joined(new_id, skip_assignment=is_leader)
            if request.version < _SKIPS_ASSIGNMENT_SINCE:
                # A client that thinks that it is a follower takes over its old assignment.
                answer |= {"leader": was_leader, "members": [], "skipAssignment": False}
            group.answer_join(member, answer)
        elif group.state is COMPLETING:
            self._rebalances.prepare(group)
        else:
            self._rebalances.rebalance_or_complete(group)

    def _update(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: Request,
        protocols: dict[str, bytes],
        reply: Reply,
    ) -> None:
        group.update(member, protocols)
        member.rebalance_ms = rebalance_ms(request)
        member.session_ms = request.fields["sessionTimeoutMs"]
        if member.join is not None:  # its client gave up waiting, and asks again
            member.join.send(not_joined(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        member.join = reply

    # SyncGroup

    async def sync(self, request: Request) -> Fields:
        """Answer SyncGroup: for a follower when the leader has assigned."""
        fields = request.fields
        stated = (fields["protocolType"], fields["protocolName"])
        group = self._table.get(fields["groupId"])
        member_id = fields["memberId"]
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._in_consumer_groups.sync(request, group)
        if not isinstance(group, ClassicGroup) or group.is_empty:
            return {"errorCode": ErrorCode.UNKNOWN_MEMBER_ID}
        error = group.why_not(member_id, fields["groupInstanceId"])
        if error:
            return {"errorCode": error}
        if fields["generationId"] != group.generation:
            return {"errorCode": ErrorCode.ILLEGAL_GENERATION}
        chosen = (group.protocol_type, group.protocol)
        if any(each not in (None, known) for each, known in zip(stated, chosen, strict=True)):
            return {"errorCode": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
        if group.state is PREPARING:
            return {"errorCode": ErrorCode.REBALANCE_IN_PROGRESS}
        member = group.members[member_id]
        self._rebalances.asked_to_sync(group, member_id)
        if group.state is STABLE:
            return group.synced(member)
        if not self._waiting.has_room(request.size):
            return {"errorCode": ErrorCode.UNKNOWN_SERVER_ERROR}
        if member.sync is not None:  # its client gave up waiting, and asks again
            member.sync.send({"errorCode": ErrorCode.REBALANCE_IN_PROGRESS})
        reply = member.sync = Reply()
        if group.leader == member_id:
            self._rebalances.assign(
                group, {each["memberId"]: each["assignment"] for each in fields["assignments"]}
            )
        return await self._waiting.answer(reply, request.size)

    # Heartbeat and sessions

    def heartbeat(self, request: Request) -> Fields:
        """Answer Heartbeat."""
        fields = request.fields
        group = self._table.get(fields["groupId"])
        if group is not None:
            self._table.hear(group)
        if isinstance(group, ConsumerGroup):
            return self._in_consumer_groups.heartbeat(request, group)
        if not isinstance(group, ClassicGroup):
            return {"errorCode": ErrorCode.UNKNOWN_MEMBER_ID}
        error = group.why_not(fields["memberId"], fields["groupInstanceId"])
        if error:
            return {"errorCode": error}
        if fields["generationId"] != group.generation:
            return {"errorCode": ErrorCode.ILLEGAL_GENERATION}
        self._rebalances.keep_alive(group, group.members[fields["memberId"]])
        is_moving = group.state is PREPARING
        return {"errorCode": ErrorCode.REBALANCE_IN_PROGRESS if is_moving else ErrorCode.NONE}

    def keep_alive(self, group: ClassicGroup, member_id: str) -> None:
        """Count a commit as a heartbeat, while members have their partitions."""
        self._table.hear(group)
        member = group.members.get(member_id)
        if member is not None and group.state in (STABLE, PREPARING):
            self._rebalances.keep_alive(group, member)

    # LeaveGroup

    def leave(self, request: Request) -> Fields:
        """Answer LeaveGroup: members leave by their id, static ones also by their instance id alone."""
        fields = request.fields
        members = (
            fields["members"]
            if request.version >= _MANY_SINCE
            else [fields | {"groupInstanceId": None}]
        )
        errors = self._leave(self._table.get(fields["groupId"]), members)
        if request.version < _MANY_SINCE:
            return {"errorCode": errors[0]}
        return {
            "errorCode": ErrorCode.NONE,
            "members": [
                {
                    "memberId": each["memberId"],
                    "groupInstanceId": each["groupInstanceId"],
                    "errorCode": error,
                }
                for each, error in zip(members, errors, strict=True)
            ],
        }

    def _leave(self, group: LiveGroup | None, members: list[Fields]) -> list[ErrorCode]:
        if isinstance(group, ConsumerGroup):
            return self._in_consumer_groups.leave(members, group)
        if not isinstance(group, ClassicGroup):
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
        errors = [
            self._leave_classic(group, each["memberId"], each["groupInstanceId"])
            for each in members
        ]
        if ErrorCode.NONE in errors:
            self._rebalances.after_leaving(group)
        return errors

    def _leave_classic(
        self, group: ClassicGroup, member_id: str, instance_id: str | None
    ) -> ErrorCode:
        if not member_id and instance_id is not None:
            member_id = group.static.get(instance_id, "")
        if member_id in group.pending:
            group.drop_pending(member_id)
            self._rebalances.forget(group, member_id)
            return ErrorCode.NONE
        error = group.why_not(member_id, instance_id)
        if not error:
            self._rebalances.remove(group, group.members[member_id])
        return error
