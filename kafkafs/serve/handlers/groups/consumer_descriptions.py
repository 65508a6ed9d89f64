"""Answer ConsumerGroupDescribe: groups of the consumer protocol, without members where nobody has joined here."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from engine.replay.groups.group import Group
from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.coordinator.assignors.choice import DEFAULT_ASSIGNOR
from kafkafs.serve.coordinator.assignors.subscriber import Place
from kafkafs.serve.coordinator.consumer_group import ConsumerGroup
from kafkafs.serve.coordinator.consumer_member import ConsumerMember
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.coordinator.topics_now import TopicsNow
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import CONSUMER, DiskGroups
from kafkafs.serve.handlers.groups.served_topics import ServedTopics
from kafkafs.serve.handlers.metadata import NO_OPERATIONS, READ_OPERATIONS

_EMPTY = "Empty"
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


class ConsumerDescriptions:
    """Answers about groups of the consumer protocol.

    Args:
        coordinator: the groups of this server.
        disk: the groups on disk.
        topics: the topics.
        limiter: limits the threads that read.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        disk: DiskGroups,
        topics: ServedTopics,
        limiter: trio.CapacityLimiter,
    ) -> None:
        self._table = coordinator.table
        self._commits = coordinator.commits
        self._disk = disk
        self._topics = topics
        self._limiter = limiter

    async def describe_groups(self, asked: Asked) -> Fields:
        """Answer ConsumerGroupDescribe."""
        is_asked = asked.fields["includeAuthorizedOperations"]
        operations = READ_OPERATIONS if is_asked else NO_OPERATIONS
        names: list[str] = asked.fields["groupIds"]
        wanted = [name for name in names if self._table.get(name) is None]
        on_disk = await trio.to_thread.run_sync(self._disk.find_all, wanted, limiter=self._limiter)
        now = await self._topics.now()
        found = [self._described(name, on_disk.get(name), now) for name in names]
        return {
            "groups": [
                each
                | {
                    "groupId": name,
                    "authorizedOperations": NO_OPERATIONS if each["errorCode"] else operations,
                }
                for name, each in zip(names, found, strict=True)
            ]
        }

    def _described(self, name: str, on_disk: Group | None, now: TopicsNow) -> Fields:
        if not name:
            return {"errorCode": ErrorCode.INVALID_GROUP_ID}
        live = self._table.get(name)
        if isinstance(live, ConsumerGroup):
            return _of_live(live, now)
        if live is None and on_disk is not None and on_disk.kind == CONSUMER:
            return {
                "errorCode": ErrorCode.NONE,
                "groupState": _EMPTY,
                "groupEpoch": on_disk.epoch or 0,
                "assignmentEpoch": on_disk.details["assignmentEpoch"],
                "assignorName": DEFAULT_ASSIGNOR,
            }
        is_known = live is not None or on_disk is not None or self._commits.has(name)
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
