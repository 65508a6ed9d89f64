"""Answer Fetch: batches of many partitions, as soon as there are enough of them or the client's time is over."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import trio

from engine.units import NO_PARTITION_LEADER_EPOCH
from kafkafs.serve.budgets import ServeBudgets
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.fetch_sessions import Begun, FetchSession, FetchSessions
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.codec import MOST_REPEATS
from kafkafs.serve.quick import extension
from kafkafs.serve.records.partition_fetch import FetchedBatches, PartitionFetch
from kafkafs.serve.records.partition_look import Key
from kafkafs.serve.request import Fields, Request
from kafkafs.serve.security.audit import Audit

if TYPE_CHECKING:
    from kafkafs.serve.quick.compiled import QuickFetches

IDS_SINCE = 13
_LEADERS_SINCE = 16
LARGE_REQUEST = 64 * 1024
"""Bytes; a request with more, such as one of thousands of partitions, takes milliseconds of every step."""
POLL_SECONDS = 0.1
"""Time between two looks at the logs while a client waits for records."""
READ_SECONDS = 5.0
"""Time after the first records of an answer after which it leaves the rest out: a client waits about a minute."""
_NO_REPLICA = -1
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

Answer: TypeAlias = tuple[Key, FetchedBatches]


class WaitingFetch(NamedTuple):
    """A request that waits for records.

    Attributes:
        session: the partitions.
        request: the request.
        end: time on the monotonic clock at which its time is over.
    """

    session: FetchSession
    request: Request
    end: float


class Fetches:
    """Answers Fetch requests of all clients.

    Args:
        cluster: the source.
        partitions: fetches from a partition.
        budgets: limits.
        limiter: limits the threads that read.
        audit: is told what clients are sent; None without.

    Attributes:
        quick: answers requests of which all is known; None without the extension, and with an audit.
        large: limits the threads that work at requests above LARGE_REQUEST to one, as they take turns with all others.
    """

    def __init__(
        self,
        cluster: ClusterView,
        partitions: PartitionFetch,
        budgets: ServeBudgets,
        limiter: trio.CapacityLimiter,
        audit: Audit | None = None,
    ) -> None:
        self._cluster = cluster
        self._audit = audit
        self._partitions = partitions
        self._budgets = budgets
        self._limiter = limiter
        self._sessions = FetchSessions()
        self.large = trio.CapacityLimiter(1)
        self.quick: QuickFetches | None = None
        if extension is not None and audit is None:
            self.quick = extension.QuickFetches(
                Api.FETCH.request,
                Api.FETCH.response,
                self._sessions.of_request,
                partitions.looks.by_name,
                partitions.looks.by_id,
                most_elements=budgets.request_elements,
                most_bytes=budgets.fetch_bytes,
                most_repeats=MOST_REPEATS,
            )

    @property
    def damage_answers(self) -> int:
        """Answers for partitions that told of lost or damaged offsets."""
        return self._partitions.damage_answers

    async def answer(self, request: Request) -> Fields:
        """Return the answer to a request."""
        limiter = self._limiter_of(request)
        found = await trio.to_thread.run_sync(self.answer_now, request, limiter=limiter)
        return await self.finish(found) if isinstance(found, WaitingFetch) else found

    def answer_now(self, request: Request, session: Begun = None) -> Fields | WaitingFetch:
        """Return the answer to a request, or what `finish` needs if there are too few records; reads the source.

        Args:
            request: the request.
            session: what the quick way has found for the request's session; None if it has not looked.
        """
        fields = request.fields
        if session is None:
            session = self._sessions.of_request(fields, has_ids=request.version >= IDS_SINCE)
        if isinstance(session, ErrorCode):
            return {"errorCode": session, "sessionId": 0, "responses": []}
        wait = min(max(fields["maxWaitMs"], 0) / 1000, self._budgets.wait_seconds)
        end = monotonic() + wait
        return self._look(session, request, end) or WaitingFetch(session, request, end)

    async def finish(self, waiting: WaitingFetch) -> Fields:
        """Return the answer to a request as soon as there are enough records, or its time is over."""
        while True:
            await trio.sleep(min(max(waiting.end - monotonic(), 0), POLL_SECONDS))
            limiter = self._limiter_of(waiting.request)
            found = await trio.to_thread.run_sync(self._look, *waiting, limiter=limiter)
            if found is not None:
                return found

    def _limiter_of(self, request: Request) -> trio.CapacityLimiter:
        return self.large if request.size > LARGE_REQUEST else self._limiter

    def _look(self, session: FetchSession, request: Request, end: float) -> Fields | None:
        """Read all partitions once; return None to wait for records. Runs in a thread."""
        fields = request.fields
        answers, size = self._read(session, fields)
        is_enough = not answers or size >= min(fields["minBytes"], fields["maxBytes"])
        is_fenced = False
        for _, each in answers:
            if each.error or each.diverging is not None:
                is_enough = True
                if request.version < _LEADERS_SINCE:
                    each.current_epoch = NO_PARTITION_LEADER_EPOCH
                is_fenced |= each.current_epoch >= 0
        if not is_enough and monotonic() < end:
            return None
        if self._audit is not None:
            self._tell(self._audit, session, request, answers)
        node = self._cluster.node_id
        found: Fields = {
            "errorCode": ErrorCode.NONE,
            "sessionId": session.id,
            "responses": _topics(session, shown(session, answers), node),
        }
        if is_fenced:
            leader = {"nodeId": node, "host": request.host, "port": request.port, "rack": None}
            found["nodeEndpoints"] = [leader]
        return found

    def _tell(
        self, audit: Audit, session: FetchSession, request: Request, answers: list[Answer]
    ) -> None:
        who = {
            "client": request.client.partition(" ")[0],
            "clientId": request.client_id,
            "user": request.user,
        }
        for key, each in answers:
            wanted = session.wanted.get(key)
            if each.pieces and wanted is not None:
                topic = self._cluster.topic_of_id(key[0]) if session.has_ids else None
                name = key[0] if topic is None else topic.name
                with suppress(OSError):  # it cannot be sent either
                    audit.sent(who, (name, key[1]), wanted.offset, each.pieces)

    def _read(self, session: FetchSession, fields: Fields) -> tuple[list[Answer], int]:
        """Read all partitions of a session once, those that are not here last; return answers and bytes.

        READ_SECONDS after the first records partitions get an empty answer: the client asks for them again.
        """
        until = inf
        left = min(fields["maxBytes"], self._budgets.fetch_bytes)
        committed = fields["isolationLevel"] == 1
        read = 0
        answers: list[Answer] = []
        unknown: list[Answer] = []
        for key, wanted in list(session.wanted.items()):
            if monotonic() >= until:
                answers.append((key, FetchedBatches()))
                continue
            found = self._partitions.fetch(
                key,
                wanted,
                left,
                has_id=session.has_ids,
                committed=committed,
                min_one_batch=not read,
            )
            if found.error in _UNKNOWN:
                unknown.append((key, found))
                continue
            size = found.size
            if size and not read:
                until = monotonic() + READ_SECONDS
            read += size
            left = max(left - size, 0)
            answers.append((key, found))
        unknown.sort(key=lambda answer: answer[1].error != ErrorCode.UNKNOWN_TOPIC_ID)
        return answers + unknown, read


def shown(session: FetchSession, answers: list[Answer]) -> list[Answer]:
    """Return the answers that the client has to see."""
    return [
        (key, each)
        for key, each in answers
        if session.shows(
            key,
            each.high_watermark,
            each.log_start_offset,
            each.size,
            each.error,
            is_diverging=each.diverging is not None,
        )
    ]


def _topics(session: FetchSession, answers: list[Answer], node: int) -> list[Fields]:
    """Return the answers by topic, in their order."""
    name = "topicId" if session.has_ids else "topic"
    topics: list[Fields] = []
    last = None
    for (topic, number), found in answers:
        if topic != last:
            partitions: list[Fields] = []
            topics.append({name: topic, "partitions": partitions})
            last = topic
        partitions.append(_partition(number, found, node))
    return topics


def _partition(number: int, found: FetchedBatches, node: int) -> Fields:
    answer: Fields = {
        "partitionIndex": number,
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
