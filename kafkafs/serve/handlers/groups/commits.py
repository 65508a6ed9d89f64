"""Answer OffsetCommit: keep the offsets in memory, and in the file of `--commit-to`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import trio

from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.cluster_view import ClusterView, ServedTopic
from kafkafs.serve.coordinator.commits.newest import Commit, Place
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import DiskGroups, is_joinable

_IDS_SINCE = 10
_UNKNOWN_GROUP_SINCE = 9


class _Offered(NamedTuple):
    """The commits to a topic of a request, of partitions that exist."""

    topic: Fields
    name: str
    partitions: list[Fields]


class GroupCommits:
    """Takes the commits of all groups.

    Args:
        cluster: the source.
        coordinator: the groups of this server.
        disk: the groups on disk.
        limiter: limits the threads that read.
    """

    def __init__(
        self,
        cluster: ClusterView,
        coordinator: Coordinator,
        disk: DiskGroups,
        limiter: trio.CapacityLimiter,
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._disk = disk
        self._limiter = limiter

    async def commit(self, asked: Asked) -> Fields:
        """Answer OffsetCommit. As in brokers, what does not exist comes first, each topic once."""
        refused, offered = await trio.to_thread.run_sync(
            self._sorted, asked.fields["topics"], asked.version, limiter=self._limiter
        )
        if not offered:
            return {"topics": refused}
        errors = await self._kept(asked, offered)
        answered = [
            _topic(each.topic)
            | {
                "partitions": [
                    {"partitionIndex": one["partitionIndex"], "errorCode": next(errors)}
                    for one in each.partitions
                ]
            }
            for each in offered
        ]
        return {"topics": _merged(refused, answered, asked.version) if refused else answered}

    def _sorted(self, topics: list[Fields], version: int) -> tuple[list[Fields], list[_Offered]]:
        """Return the answers for what does not exist, and the commits to the rest; runs in a thread."""
        refused: list[Fields] = []
        offered: list[_Offered] = []
        for topic in topics:
            served = self._served(topic, version)
            if isinstance(served, ErrorCode):
                refused.append(_refused(topic, topic["partitions"], served))
                continue
            numbers = {*served.logs, *self._cluster.missing(served)}
            missing = [
                each for each in topic["partitions"] if each["partitionIndex"] not in numbers
            ]
            known = [each for each in topic["partitions"] if each["partitionIndex"] in numbers]
            if missing:
                refused.append(_refused(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            if known:
                offered.append(_Offered(topic, served.name, known))
        return _merged([], refused, version), offered

    def _served(self, topic: Fields, version: int) -> ServedTopic | ErrorCode:
        if version >= _IDS_SINCE:
            return self._cluster.topic_of_id(topic["topicId"]) or ErrorCode.UNKNOWN_TOPIC_ID
        known = self._cluster.topics().get(topic["name"])
        return known or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def _kept(self, asked: Asked, offered: list[_Offered]) -> Iterator[ErrorCode]:
        """Keep the commits that the group may make, and return the error of each."""
        most = self._coordinator.limits.commit_metadata
        commits = [
            (
                (topic.name, each["partitionIndex"]),
                Commit(
                    each["committedOffset"],
                    each["committedLeaderEpoch"],
                    each["committedMetadata"] or "",
                ),
            )
            for topic in offered
            for each in topic.partitions
        ]
        found = {place: commit for place, commit in commits if len(commit.metadata) <= most}
        error = await self._why_not(asked, found)
        if found and not error:
            error = await self._coordinator.store.keep(asked.fields["groupId"], found)
        too_large = error or ErrorCode.OFFSET_METADATA_TOO_LARGE
        return iter([error if len(commit.metadata) <= most else too_large for _, commit in commits])

    async def _why_not(self, asked: Asked, found: Iterable[Place]) -> ErrorCode:
        """Return why a request may not commit; NONE if it may."""
        fields = asked.fields
        name, epoch = fields["groupId"], fields["generationIdOrMemberEpoch"]
        error = self._coordinator.why_no_commit(
            name, fields["memberId"], fields["groupInstanceId"], epoch, asked.version, found
        )
        if error is not None:
            return error
        group = await trio.to_thread.run_sync(self._disk.find, name, limiter=self._limiter)
        if group is not None and not is_joinable(group):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if epoch < 0:
            return ErrorCode.NONE
        if group is not None or self._coordinator.commits.has(name):
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_told = asked.version >= _UNKNOWN_GROUP_SINCE
        return ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.ILLEGAL_GENERATION


def _topic(topic: Fields) -> Fields:
    return {"name": topic["name"], "topicId": topic["topicId"]}


def _refused(topic: Fields, partitions: list[Fields], error: ErrorCode) -> Fields:
    answers = [
        {"partitionIndex": each["partitionIndex"], "errorCode": error} for each in partitions
    ]
    return _topic(topic) | {"partitions": answers}


def _merged(first: list[Fields], then: list[Fields], version: int) -> list[Fields]:
    """Return answers with each topic once."""
    key = "topicId" if version >= _IDS_SINCE else "name"
    found: dict[str, Fields] = {}
    for each in (*first, *then):
        if each[key] in found:
            found[each[key]]["partitions"] += each["partitions"]
        else:
            found[each[key]] = each
    return list(found.values())
