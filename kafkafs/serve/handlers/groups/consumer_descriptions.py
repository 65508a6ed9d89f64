"""Answer ConsumerGroupDescribe: groups of the consumer protocol, without members where nobody has joined here."""

from __future__ import annotations

from collections.abc import Iterable

from engine.replay.groups.group import Group
from kafkafs.serve.coordinator.assignors.choice import elected
from kafkafs.serve.coordinator.assignors.subscriber import Place
from kafkafs.serve.coordinator.consumer_group import ConsumerGroup
from kafkafs.serve.coordinator.consumer_member import ConsumerMember
from kafkafs.serve.coordinator.topics_now import TopicsNow
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.descriptions import with_operations
from kafkafs.serve.handlers.groups.disk_groups import CONSUMER
from kafkafs.serve.handlers.groups.served_groups import ServedGroups
from kafkafs.serve.request import Fields, Request

_EMPTY = "Empty"
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


async def describe_groups(served: ServedGroups, request: Request) -> Fields:
    """Answer ConsumerGroupDescribe."""
    names: list[str] = request.fields["groupIds"]
    on_disk = await served.not_joined(names)
    now = await served.topics.now()
    found = {name: _described(served, name, on_disk.get(name), now) for name in names}
    return with_operations(request, names, found)


def _described(served: ServedGroups, name: str, on_disk: Group | None, now: TopicsNow) -> Fields:
    if not name:
        return {"errorCode": ErrorCode.INVALID_GROUP_ID}
    live = served.coordinator.table.get(name)
    if isinstance(live, ConsumerGroup):
        return _of_live(live, now)
    if live is None and on_disk is not None and on_disk.kind == CONSUMER:
        return {
            "errorCode": ErrorCode.NONE,
            "groupState": _EMPTY,
            "groupEpoch": on_disk.epoch or 0,
            "assignmentEpoch": on_disk.details["assignmentEpoch"],
            "assignorName": elected(()),
        }
    is_known = live is not None or on_disk is not None or served.coordinator.commits.has(name)
    return {
        "errorCode": ErrorCode.GROUP_ID_NOT_FOUND,
        "errorMessage": f"Group {name} {'is not a consumer group' if is_known else 'not found'}.",
    }


def _of_live(group: ConsumerGroup, now: TopicsNow) -> Fields:
    return {
        "errorCode": ErrorCode.NONE,
        "groupState": group.state_name,
        "groupEpoch": group.epoch,
        "assignmentEpoch": group.assignment_epoch,
        "assignorName": group.assignor,
        "members": [_member(group, member, now) for member in group.members.values()],
    }


def _member(group: ConsumerGroup, member: ConsumerMember, now: TopicsNow) -> Fields:
    return {
        "memberId": member.member_id,
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "memberEpoch": member.epoch,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": sorted(member.names),
        "subscribedTopicRegex": member.pattern,
        "assignment": _assignment((*member.assigned, *member.revoking), now),
        "targetAssignment": _assignment(group.target.get(member.member_id, ()), now),
        "memberType": _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    }


def _assignment(places: Iterable[Place], now: TopicsNow) -> Fields:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return {
        "topicPartitions": [
            {"topicId": topic, "topicName": now.names[topic], "partitions": numbers}
            for topic, numbers in found.items()
            if topic in now.names
        ]
    }
