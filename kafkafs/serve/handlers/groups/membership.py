"""Answers to the members of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat."""

from __future__ import annotations

from engine.replay.groups.group import Group
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import CLASSIC, CONSUMER, is_joinable
from kafkafs.serve.handlers.groups.served_groups import ServedGroups
from kafkafs.serve.request import Fields, Request

_NULL_PROTOCOL_SINCE = 7
_PROTOCOLS_SINCE = 5
"""First version in which SyncGroup states the protocol."""


async def join_group(served: ServedGroups, request: Request) -> Fields:
    """Answer JoinGroup. An error names no strategy; only from version 7 on that is null."""
    answer = await _join(served, request)
    if answer["errorCode"] and request.version >= _NULL_PROTOCOL_SINCE:
        answer["protocolName"] = None
    return answer


async def _join(served: ServedGroups, request: Request) -> Fields:
    fields = request.fields
    name, member_id = fields["groupId"], fields["memberId"]
    if not name:
        return {"memberId": member_id, "errorCode": ErrorCode.INVALID_GROUP_ID}
    limits = served.coordinator.limits
    if not limits.least_session_ms <= fields["sessionTimeoutMs"] <= limits.most_session_ms:
        return {"memberId": member_id, "errorCode": ErrorCode.INVALID_SESSION_TIMEOUT}
    known = (await served.not_joined([name])).get(name)
    if known is not None and not is_joinable(known):
        return {"memberId": "", "errorCode": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    now = await served.topics.now()
    return await served.coordinator.classic.join(request, now, _epoch(known, CLASSIC) or 0)


async def consumer_heartbeat(served: ServedGroups, request: Request) -> Fields:
    """Answer ConsumerGroupHeartbeat."""
    name = request.fields["groupId"]
    known = (await served.not_joined([name])).get(name)
    if known is not None and not is_joinable(known):
        reason = f"group {name} is a {known.kind} group"
        return {"errorCode": ErrorCode.GROUP_ID_NOT_FOUND, "errorMessage": reason}
    now = await served.topics.now()
    return served.coordinator.consumer.heartbeat(request, now, _epoch(known, CONSUMER))


async def sync_group(served: ServedGroups, request: Request) -> Fields:
    """Answer SyncGroup."""
    fields = request.fields
    if request.version >= _PROTOCOLS_SINCE and None in (
        fields["protocolType"],
        fields["protocolName"],
    ):
        return {"errorCode": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    if not fields["groupId"]:
        return {"errorCode": ErrorCode.INVALID_GROUP_ID}
    return await served.coordinator.classic.sync(request)


async def heartbeat(served: ServedGroups, request: Request) -> Fields:
    """Answer Heartbeat."""
    if not request.fields["groupId"]:
        return {"errorCode": ErrorCode.INVALID_GROUP_ID}
    return served.coordinator.classic.heartbeat(request)


async def leave_group(served: ServedGroups, request: Request) -> Fields:
    """Answer LeaveGroup."""
    if not request.fields["groupId"]:
        return {"errorCode": ErrorCode.INVALID_GROUP_ID}
    return served.coordinator.classic.leave(request)


def _epoch(known: Group | None, kind: str) -> int | None:
    """Return the generation or epoch of a group on disk, if it has the protocol of its first member here."""
    return (known.epoch or 0) if known is not None and known.kind == kind else None
