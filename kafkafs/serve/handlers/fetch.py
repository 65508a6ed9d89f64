"""Answer Fetch: batches of many partitions, as soon as there are enough of them or the client's time is over."""

from __future__ import annotations

from itertools import groupby
from time import monotonic
from typing import NamedTuple

import trio

from engine.log.partition_log import PartitionLog
from engine.units import NO_PARTITION_LEADER_EPOCH
from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.budgets import ServeBudgets
from kafkafs.serve.cluster_view import NO_TOPIC_ID, ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.fetch_sessions import FetchSession, FetchSessions, Key
from kafkafs.serve.records.partition_fetch import FetchedBatches, PartitionFetch

IDS_SINCE = 13
_LEADERS_SINCE = 16
POLL_SECONDS = 0.1
"""Time between two looks at the logs while a client waits for records."""
_NO_REPLICA = -1
_UNKNOWN_ID = FetchedBatches(ErrorCode.UNKNOWN_TOPIC_ID, aborted=[])
_UNKNOWN_PARTITION = FetchedBatches(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, aborted=[])


class WaitingFetch(NamedTuple):
    """A request that waits for records.

    Attributes:
        session: the partitions.
        asked: the request.
        end: time on the monotonic clock at which its time is over.
    """

    session: FetchSession
    asked: Asked
    end: float


class Fetches:
    """Answers Fetch requests of all clients.

    Args:
        cluster: the source.
        partitions: fetches from a partition.
        budgets: limits.
        limiter: limits the threads that read.
    """

    def __init__(
        self,
        cluster: ClusterView,
        partitions: PartitionFetch,
        budgets: ServeBudgets,
        limiter: trio.CapacityLimiter,
    ) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._budgets = budgets
        self._limiter = limiter
        self._sessions = FetchSessions()

    async def answer(self, asked: Asked) -> Fields:
        """Return the answer to a request."""
        found = await trio.to_thread.run_sync(self.answer_now, asked, limiter=self._limiter)
        return await self.finish(found) if isinstance(found, WaitingFetch) else found

    def answer_now(self, asked: Asked) -> Fields | WaitingFetch:
        """Return the answer to a request, or what `finish` needs if there are too few records; reads the source."""
        fields = asked.fields
        session = self._sessions.of_request(fields, has_ids=asked.version >= IDS_SINCE)
        if isinstance(session, ErrorCode):
            return {"errorCode": session, "sessionId": 0, "responses": []}
        wait = min(max(fields["maxWaitMs"], 0) / 1000, self._budgets.wait_seconds)
        return self._look(WaitingFetch(session, asked, monotonic() + wait))

    async def finish(self, waiting: WaitingFetch) -> Fields:
        """Return the answer to a request as soon as there are enough records, or its time is over."""
        while True:
            await trio.sleep(min(max(waiting.end - monotonic(), 0), POLL_SECONDS))
            found = await trio.to_thread.run_sync(self._look, waiting, limiter=self._limiter)
            if not isinstance(found, WaitingFetch):
                return found

    def _look(self, waiting: WaitingFetch) -> Fields | WaitingFetch:
        """Read all partitions once; runs in a thread."""
        session, asked, end = waiting
        fields = asked.fields
        answers = self._read(session, fields)
        size = sum(answer.size for _, answer in answers)
        is_enough = size >= min(fields["minBytes"], fields["maxBytes"])
        is_news = any(each.error or each.diverging is not None for _, each in answers)
        if not is_enough and not is_news and answers and monotonic() < end:
            return waiting
        node = self._cluster.node_id
        if asked.version < _LEADERS_SINCE:
            answers = [
                (key, each._replace(current_epoch=NO_PARTITION_LEADER_EPOCH))
                for key, each in answers
            ]
        is_fenced = any(each.current_epoch >= 0 for _, each in answers)
        leader = {"nodeId": node, "host": asked.host, "port": asked.port, "rack": None}
        shown = session.changed(answers)
        name = "topicId" if session.has_ids else "topic"
        return {
            "errorCode": ErrorCode.NONE,
            "sessionId": session.id,
            "responses": [
                {name: topic, "partitions": [_partition(key, each, node) for key, each in group]}
                for topic, group in groupby(shown, key=lambda item: item[0][0])
            ],
            "nodeEndpoints": [leader] if is_fenced else [],
        }

    def _read(self, session: FetchSession, fields: Fields) -> list[tuple[Key, FetchedBatches]]:
        """Read all partitions of a session once, those that are not here last."""
        left = min(fields["maxBytes"], self._budgets.fetch_bytes)
        is_first = True
        answers, unknown_ids, unknown = [], [], []
        for key, wanted in list(session.wanted.items()):
            log = self._log(key, has_ids=session.has_ids)
            if log is None:
                if session.has_ids and self._cluster.topic_of_id(key[0]) is None:
                    unknown_ids.append((key, _UNKNOWN_ID))
                else:
                    unknown.append((key, _UNKNOWN_PARTITION))
                continue
            found = self._partitions.fetch(
                log,
                wanted,
                left,
                committed=fields["isolationLevel"] == 1,
                min_one_batch=is_first,
            )
            if found.size:
                is_first = False
            left = max(left - found.size, 0)
            answers.append((key, found))
        return answers + unknown_ids + unknown

    def _log(self, key: Key, *, has_ids: bool) -> PartitionLog | None:
        topic, number = key
        if not has_ids:
            return self._cluster.log(topic, number)
        found = None if topic == NO_TOPIC_ID else self._cluster.topic_of_id(topic)
        return None if found is None else found.logs.get(number)


def _partition(key: Key, found: FetchedBatches, node: int) -> Fields:
    answer: Fields = {
        "partitionIndex": key[1],
        "errorCode": found.error,
        "highWatermark": found.high_watermark,
        "lastStableOffset": found.last_stable_offset,
        "logStartOffset": found.log_start_offset,
        "abortedTransactions": (
            None
            if found.aborted is None
            else [
                {"producerId": each.producer_id, "firstOffset": each.first_offset}
                for each in found.aborted
            ]
        ),
        "preferredReadReplica": _NO_REPLICA,
        "records": found.pieces,
    }
    if found.diverging is not None:
        epoch, end = found.diverging
        answer["divergingEpoch"] = {"epoch": epoch, "endOffset": end}
    if found.current_epoch != NO_PARTITION_LEADER_EPOCH:
        answer["currentLeader"] = {"leaderId": node, "leaderEpoch": found.current_epoch}
    return answer
