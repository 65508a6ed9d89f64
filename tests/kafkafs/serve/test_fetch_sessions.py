"""Fetch sessions: partitions are named once, and only news is told (KIP-227)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.fetch_sessions import MOST_SESSIONS, FetchSession, FetchSessions
from kafkafs.serve.handlers.fetch import shown
from kafkafs.serve.records.partition_fetch import FetchedBatches


def fields(
    session: int, epoch: int, partitions: dict[int, int], forgotten: tuple[int, ...] = ()
) -> dict[str, Any]:
    """A request for offsets by partition."""
    asked = [
        {"partition": number, "fetchOffset": offset, "partitionMaxBytes": 100, "currentLeaderEpoch": -1, "lastFetchedEpoch": -1}
        for number, offset in partitions.items()
    ]  # fmt: skip
    return {
        "sessionId": session, "sessionEpoch": epoch,
        "topics": [{"topic": "t", "partitions": asked}] if asked else [],
        "forgottenTopicsData": [{"topic": "t", "partitions": list(forgotten)}] if forgotten else [],
    }  # fmt: skip


def session_of(sessions: FetchSessions, *asked: Any) -> FetchSession:
    found = sessions.of_request(fields(*asked), has_ids=False)
    assert isinstance(found, FetchSession)
    return found


def offsets(session: FetchSession) -> dict[int, int]:
    return {number: wanted.offset for (_, number), wanted in session.wanted.items()}


def test_a_session_keeps_its_partitions_and_takes_changes():
    sessions = FetchSessions()
    made = session_of(sessions, 0, 0, {0: 5, 1: 6})
    assert made.id > 0
    assert offsets(session_of(sessions, made.id, 1, {})) == {0: 5, 1: 6}
    assert offsets(session_of(sessions, made.id, 2, {1: 9, 2: 1}, (0,))) == {1: 9, 2: 1}


@pytest.mark.parametrize("epoch", [2, 5])
def test_an_epoch_out_of_turn_is_an_error(epoch):
    sessions = FetchSessions()
    made = session_of(sessions, 0, 0, {0: 5})
    answer = sessions.of_request(fields(made.id, epoch, {}), has_ids=False)
    assert answer is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_or_closed_session_is_an_error():
    sessions = FetchSessions()
    made = session_of(sessions, 0, 0, {0: 5})
    assert session_of(sessions, made.id, -1, {0: 5}).id == 0
    for number in (made.id, 12345):
        answer = sessions.of_request(fields(number, 1, {}), has_ids=False)
        assert answer is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_request_without_a_session_makes_none():
    assert session_of(FetchSessions(), 0, -1, {0: 5}).id == 0


def test_the_number_of_sessions_is_bounded_and_the_longest_unused_goes():
    sessions = FetchSessions()
    first, second, *_ = [session_of(sessions, 0, 0, {0: 1}) for _ in range(MOST_SESSIONS)]
    session_of(sessions, first.id, 1, {})
    session_of(sessions, 0, 0, {0: 1})
    assert session_of(sessions, first.id, 2, {}) is first
    gone = sessions.of_request(fields(second.id, 1, {}), has_ids=False)
    assert gone is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_only_news_is_told_after_the_first_answer():
    sessions = FetchSessions()
    session = session_of(sessions, 0, 0, {0: 1, 1: 1})
    still = [(key, FetchedBatches(high_watermark=1, log_start_offset=0)) for key in session.wanted]
    assert shown(session, still) == still
    session_of(sessions, session.id, 1, {})
    assert shown(session, still) == []
    grown = replace(still[1][1], high_watermark=2)
    assert shown(session, [still[0], (still[1][0], grown)]) == [(still[1][0], grown)]


def test_a_partition_with_records_is_read_last_the_next_time():
    session = session_of(FetchSessions(), 0, 0, {0: 1, 1: 1})
    session.is_full = False
    shown(session, [(("t", 0), FetchedBatches(pieces=(b"x",))), (("t", 1), FetchedBatches())])
    assert [number for _, number in session.wanted] == [1, 0]


def test_a_new_session_reads_in_the_order_of_its_first_answer():
    session = session_of(FetchSessions(), 0, 0, {0: 1, 1: 1})
    shown(session, [(("t", 1), FetchedBatches()), (("t", 0), FetchedBatches())])
    assert [number for _, number in session.wanted] == [1, 0]


def test_a_session_without_partitions_ends():
    sessions = FetchSessions()
    session = session_of(sessions, 0, 0, {0: 1})
    forgotten = [{"topic": "t", "partitions": [0]}]
    asked = fields(session.id, 1, {}) | {"forgottenTopicsData": forgotten}
    ended = sessions.of_request(asked, has_ids=False)
    assert not isinstance(ended, ErrorCode)
    assert ended.id == 0
    gone = sessions.of_request(fields(session.id, 2, {}), has_ids=False)
    assert gone is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_error_is_told_each_time():
    session = session_of(FetchSessions(), 0, 0, {0: 1})
    session.is_full = False
    answer = [(("t", 0), FetchedBatches(ErrorCode.CORRUPT_MESSAGE))]
    assert shown(session, answer) == shown(session, answer) == answer
