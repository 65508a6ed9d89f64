"""Fetch sessions: a client names its partitions once, and later only what changes.

See KIP-227, and FetchSession in Kafka. A client without a session states all partitions each time; the server may refuse
to make one, as it does when there are too many.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple, TypeAlias

from engine.units import MAX_INT32, Offset
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.records.partition_fetch import WantedBatches
from kafkafs.serve.records.partition_look import Key
from kafkafs.serve.request import Fields

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MOST_SESSIONS = 1000
MOST_PARTITIONS = 1_000_000


class Told(NamedTuple):
    """What the client of a session was told of a partition last."""

    high_watermark: Offset
    log_start_offset: Offset


class FetchSession:
    """The partitions of a session, in the order in which they are read.

    Attributes:
        id: number of the session, 0 for none.
        epoch: epoch of the next request.
        wanted: what the client asks of each partition.
        has_ids: whether topics have ids here, not names.
    """

    def __init__(self, number: int, *, has_ids: bool) -> None:
        self.id = number
        self.epoch = 1
        self.has_ids = has_ids
        self.wanted: dict[Key, WantedBatches] = {}
        self._told: dict[Key, Told] = {}
        self.is_full = True

    def shows(
        self,
        key: Key,
        high_watermark: Offset,
        log_start_offset: Offset,
        size: int,
        error: ErrorCode = ErrorCode.NONE,
        *,
        is_diverging: bool = False,
    ) -> bool:
        """Return whether the client has to see the answer of a partition, and remember the answer as told.

        A new session reads in the order of its first answer. From then on, partitions with records are read last the
        next time, so that all get their turn.

        Args:
            key: the partition.
            high_watermark, log_start_offset: those of the answer.
            size: bytes of the batches.
            error: the error.
            is_diverging: whether the answer tells where the client's log and this one differ.
        """
        if not self.id:
            return True
        told = Told(high_watermark, log_start_offset)
        is_news = size > 0 or error or is_diverging
        is_shown = bool(self.is_full or is_news or self._told.get(key) != told)
        # An error is told again each time, as the client drops what it knew.
        self._told[key] = Told(-1, -1) if error else told
        if (size or self.is_full) and key in self.wanted:
            self.wanted[key] = self.wanted.pop(key)
        return is_shown

    def forget(self, key: Key) -> None:
        """Drop a partition."""
        self.wanted.pop(key, None)
        self._told.pop(key, None)


Begun: TypeAlias = "FetchSession | ErrorCode | None"
"""The session of a request that was begun, or its error; None for a request that was not begun."""


class FetchSessions:
    """The sessions of all clients; safe from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partitions = 0

    def of_request(self, fields: Fields, *, has_ids: bool) -> FetchSession | ErrorCode:
        """Return the session of a Fetch request with its changes, or the error.

        Args:
            fields: the request.
            has_ids: whether the version has ids of topics in place of names.
        """
        number, epoch = fields["sessionId"], fields["sessionEpoch"]
        with self._lock:
            if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
                if number:
                    self._drop(number)
                return self._make(fields, has_ids=has_ids, is_kept=epoch == INITIAL_EPOCH)
            session = self._sessions.get(number)
            if session is None:
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if session.epoch != epoch:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH
            if session.has_ids != has_ids:
                return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
            self._sessions.move_to_end(number)
            before = len(session.wanted)
            _add(session, fields)
            name = "topicId" if has_ids else "topic"
            for topic in fields["forgottenTopicsData"]:
                for partition in topic["partitions"]:
                    session.forget((topic[name], partition))
            self._partitions += len(session.wanted) - before
            if not session.wanted:
                self._drop(number)
                return self._make(fields, has_ids=has_ids, is_kept=False)
            session.is_full = False
            session.epoch = 1 if epoch == MAX_INT32 else epoch + 1
            return session

    def _make(self, fields: Fields, *, has_ids: bool, is_kept: bool) -> FetchSession:
        session = FetchSession(0, has_ids=has_ids)
        _add(session, fields)
        if not is_kept or len(session.wanted) > MOST_PARTITIONS // 10:
            return session
        while len(self._sessions) >= MOST_SESSIONS or self._partitions > MOST_PARTITIONS:
            self._drop(next(iter(self._sessions)))
        while not session.id or session.id in self._sessions:
            session.id = random.randint(1, MAX_INT32)
        self._sessions[session.id] = session
        self._partitions += len(session.wanted)
        return session

    def _drop(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is not None:
            self._partitions -= len(session.wanted)


def _add(session: FetchSession, fields: Fields) -> None:
    name = "topicId" if session.has_ids else "topic"
    for topic in fields["topics"]:
        for each in topic["partitions"]:
            session.wanted[topic[name], each["partition"]] = WantedBatches(
                each["fetchOffset"],
                each["partitionMaxBytes"],
                each["currentLeaderEpoch"],
                each["lastFetchedEpoch"],
            )
