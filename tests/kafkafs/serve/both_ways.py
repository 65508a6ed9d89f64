"""Fetch requests that are answered the quick way where it knows all, and by Python alone beside it."""

from __future__ import annotations

import random
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import trio

from engine import kernel
from engine.coding.fixed_width import read_int16
from engine.errors import CorruptMessageError
from kafkafs.api.source_logs import SourceLogs
from kafkafs.serve.budgets import DEFAULT_SERVE_BUDGETS
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.file_slice import FileSlice, Piece
from kafkafs.serve.handlers.fetch import IDS_SINCE, Fetches, WaitingFetch
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.codec import read_request, write_response
from kafkafs.serve.quick import extension
from kafkafs.serve.records.partition_fetch import DEFAULT_RULES, FetchRules, PartitionFetch
from kafkafs.serve.request import Request
from kafkafs.tree.context import TreeOptions
from tests.kafkafs.serve.connection import request

VERSIONS = range(Api.FETCH.request.first_version, Api.FETCH.request.last_version + 1)
REFUSED, WAITS = b"refused", b"waits"
"""In place of an answer: of a request that is no Fetch, and of one that waits for records."""
MOST_BYTES = (0, 1, 200, 5_000, 20_000, 1 << 20)


class Answers(NamedTuple):
    """What was answered.

    Attributes:
        is_quick: whether the quick way answered.
        got, expected: the answers, the second one by Python alone.
    """

    is_quick: bool
    got: bytes
    expected: bytes


class BothWays:
    """A source whose requests are answered in both ways.

    Args:
        source: the log dir.
        rules: what the operator chose.
        snapshot: whether the source is looked at once.
    """

    def __init__(
        self, source: Path, rules: FetchRules = DEFAULT_RULES, *, snapshot: bool = False
    ) -> None:
        logs = SourceLogs([str(source)], TreeOptions(snapshot=snapshot, schemas=("none",)))
        self.cluster = ClusterView(logs)
        self._ours, self._plain = (
            Fetches(
                self.cluster,
                PartitionFetch(self.cluster, rules),
                DEFAULT_SERVE_BUDGETS,
                trio.CapacityLimiter(1),
            )
            for _ in range(2)
        )
        self._scratch = None if extension is None else extension.Scratch()

    @property
    def quick(self) -> Any:
        """The quick way."""
        return self._ours.quick

    def ask(self, frame: bytes) -> Answers:
        """Answer a request in both ways; sessions that it makes have the same ids."""
        quick = self._ours.quick
        assert quick is not None
        state = random.getstate()
        pieces, begun = quick.answer(frame, self._scratch)
        got = _by_python(self._ours, frame, begun) if pieces is None else bytes_of(pieces)
        random.setstate(state)
        expected = _by_python(self._plain, frame)
        return Answers(pieces is not None, got, expected)


def _by_python(fetches: Fetches, frame: bytes, begun: Any = None) -> bytes:
    if len(frame) < 2 or read_int16(frame, 0) != Api.FETCH:
        return REFUSED
    try:
        asked = read_request(frame, DEFAULT_SERVE_BUDGETS.request_elements)
    except CorruptMessageError:
        return REFUSED
    if asked.fields is None:
        return REFUSED
    found = fetches.answer_now(Request(asked.version, asked.fields, "localhost", 9092), begun)
    if isinstance(found, WaitingFetch):
        return WAITS
    return bytes_of(write_response(Api.FETCH, asked.version, asked.correlation, found))


def bytes_of(pieces: list[Piece]) -> bytes:
    """An answer as a client gets it."""
    return b"".join(
        piece.file.read_at(piece.position, piece.size) if isinstance(piece, FileSlice) else piece
        for piece in pieces
    )


class Requests:
    """Random requests to a source, in one version: alone, or in sessions.

    Args:
        cluster: the source.
        version: version of Fetch.
        random: chooses.
    """

    def __init__(self, cluster: ClusterView, version: int, random: Random) -> None:
        self._version = version
        self._random = random
        self._has_ids = version >= IDS_SINCE
        self._partitions = [
            (cluster.topic_id(topic) if self._has_ids else name, number, log.view())
            for name, topic in sorted(cluster.topics().items())
            for number, log in sorted(topic.logs.items())
        ]
        self._session, self._epoch = 0, -1
        self._number = 0

    def next(self) -> bytes:
        """A request, without its length."""
        chance = self._random
        if self._version >= 7 and chance.random() < 0.1:
            self._session, self._epoch = chance.choice([(0, -1), (0, 0), (self._session, -1)])
        self._number += 1
        forgotten = [
            {self._name: topic, "partitions": [number]}
            for topic, number, _ in chance.sample(self._partitions, chance.choice([0, 0, 0, 1]))
        ]
        made = request(
            Api.FETCH, self._version, self._number, replicaId=-1, maxWaitMs=0,
            minBytes=chance.choice([0, 1, 1, 1000]), maxBytes=chance.choice([*MOST_BYTES, 50 << 20]),
            isolationLevel=chance.choice([0, 0, 1]), sessionId=self._session, sessionEpoch=self._epoch,
            topics=self._topics(), forgottenTopicsData=forgotten if self._session else [],
        )  # fmt: skip
        return made[4:]

    @property
    def _name(self) -> str:
        return "topicId" if self._has_ids else "topic"

    def _topics(self) -> list[dict[str, Any]]:
        chance = self._random
        chosen = chance.sample(
            self._partitions, min(chance.choice([0, 1, 1, 2, 4]), len(self._partitions))
        )
        topics = []
        for topic, number, view in chosen:
            start, end = view.log_start_offset, view.log_end_offset
            partition = {
                "partition": number if chance.random() < 0.98 else 99,
                "fetchOffset": chance.choice([start, end, start - 1, end + 1, chance.randint(start, end), chance.randint(start, end)]),
                "partitionMaxBytes": chance.choice(MOST_BYTES),
                "currentLeaderEpoch": chance.choice([-1, -1, 0, 1, 5]),
                "lastFetchedEpoch": chance.choice([-1] * 9 + [0]),
            }  # fmt: skip
            topics.append({self._name: topic, "partitions": [partition]})
        return topics

    def heard(self, answer: bytes) -> None:
        """Go on with the session of an answer."""
        if self._version < 7 or self._epoch == -1 or answer in (REFUSED, WAITS):
            self._epoch += self._epoch > 0 and answer == WAITS
            return
        start = 8 + Api.FETCH.request.is_flexible(self._version)
        fields, _ = kernel.read_message(Api.FETCH.response, self._version, answer, start)
        if fields["errorCode"] or not fields["sessionId"]:
            self._session, self._epoch = 0, self._random.choice([-1, 0])
        else:
            self._session, self._epoch = fields["sessionId"], self._epoch + 1
