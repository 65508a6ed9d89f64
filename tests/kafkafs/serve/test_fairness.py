"""One client that asks for too much, or that can only fail, costs neither others nor the log."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from kafkafs.api.source_logs import SourceLogs
from kafkafs.serve.budgets import DEFAULT_SERVE_BUDGETS
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.control.control_client import ask
from kafkafs.serve.handlers import fetch
from kafkafs.serve.records.partition_fetch import DEFAULT_RULES, PartitionFetch
from kafkafs.serve.request import Request
from kafkafs.tree.context import TreeOptions
from tests.fixtures_data import copy_of, log_dir, truth_offsets
from tests.kafkafs.serve.connection import Connection, request
from tests.kafkafs.serve.serving import Served, serving

FETCH, METADATA, JOIN_GROUP = 1, 3, 11


def fetch_of(topic: str, count: int) -> dict:
    partitions = [
        {"partition": number, "fetchOffset": 0, "partitionMaxBytes": 1} for number in range(count)
    ]
    return {
        "replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 1, "sessionEpoch": -1,
        "topics": [{"topic": topic, "partitions": partitions}],
    }  # fmt: skip


def test_limits_of_one_client(tmp_path: Path) -> None:
    source = copy_of("current", tmp_path, ["orders-0"])
    limits = "connections_per_address=3,groups=5"
    with serving(source, tmp_path, "-o", limits) as served, Connection(served) as good:
        # A Fetch of many partitions that the source lacks ends its connection, before it takes time.
        for _ in range(5):
            with Connection(served) as greedy:
                greedy.send(request(FETCH, 12, 1, **fetch_of("none", 25_000)))
                assert greedy.is_closed
        with Connection(served) as greedy:
            answer = greedy.ask(FETCH, 12, **fetch_of("none", 15_000))
            assert len(answer["responses"][0]["partitions"]) == 15_000
            # Groups of which members are only promised make room for others.
            for number in range(20):
                joined = greedy.ask(
                    JOIN_GROUP, 4, groupId=f"g{number}", sessionTimeoutMs=30_000, memberId="",
                    rebalanceTimeoutMs=60_000, protocolType="consumer", protocols=[{"name": "range", "metadata": b""}],
                )  # fmt: skip
                assert joined["errorCode"] == 79
            # One connection more than an address may have.
            with Connection(served), Connection(served) as refused:
                assert refused.is_closed
            for _ in range(50):
                with Connection(served) as old:
                    old.send(b"\0\0\0\x0c\0\x03\0\x63" + bytes(8))
                    assert old.is_closed
        assert good.ask(METADATA, 9, topics=None)["topics"][0]["name"] == "orders"
        lines = served.log.read_text().splitlines()
    for sentence in (
        "too many elements",
        ": refused: 3 of its address are open",
        "version 99 of API 3",
    ):
        assert sum(sentence in line for line in lines) == 1, sentence


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with serving(log_dir("current"), folder, "-o", "pending_bytes=1048576") as found:
        yield found


def accepted(served: Served) -> int:
    return int(json.loads(ask(served.host, served.port, "statistics"))["acceptedConnections"])


def test_connections_that_are_closed_at_once_cost_no_task_before_a_new_client(
    served: Served,
) -> None:
    """The server stands still while they come, as on a busy machine."""
    before = accepted(served)
    served.process.send_signal(signal.SIGSTOP)
    for _ in range(500):
        with Connection(served):
            pass
    with Connection(served) as good:
        served.process.send_signal(signal.SIGCONT)
        assert good.ask(METADATA, 9, topics=None)["topics"]
        assert accepted(served) == before + 1


def test_requests_of_which_a_half_came_leave_room_for_other_clients(served: Served) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(Connection(served)).send(b"\0\x0f\0\0" + bytes(1000))
        with Connection(served) as good:
            assert good.ask(METADATA, 9, topics=None)["topics"]


def test_an_answer_that_takes_long_leaves_partitions_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "READ_SECONDS", 0.0)
    logs = SourceLogs([str(log_dir("current"))], TreeOptions(schemas=("none",)))
    cluster = ClusterView(logs)
    partitions = PartitionFetch(cluster, DEFAULT_RULES)
    fetches = fetch.Fetches(cluster, partitions, DEFAULT_SERVE_BUDGETS, trio.CapacityLimiter(1))

    def sent(*places: tuple[str, int]) -> list[tuple[str, bool]]:
        topics = [
            {"topic": topic, "partitions": fetch_of(topic, 1)["topics"][0]["partitions"]}
            for topic, _ in places
        ]
        for each, (_, offset) in zip(topics, places, strict=True):
            each["partitions"][0] |= {"fetchOffset": offset, "currentLeaderEpoch": -1, "lastFetchedEpoch": -1}  # fmt: skip
        asked = fetch_of("", 0) | {"topics": topics, "sessionId": 0, "isolationLevel": 0}
        found = fetches.answer_now(
            Request(11, asked | {"forgottenTopicsData": []}, "localhost", 9092)
        )
        assert isinstance(found, dict)
        return [
            (each["topic"], bool(each["partitions"][0]["records"])) for each in found["responses"]
        ]

    end = int(truth_offsets("current")["codec-gzip-0"]["latest"])
    assert sent(("codec-gzip", 0), ("codec-lz4", 0)) == [("codec-gzip", True), ("codec-lz4", False)]
    assert sent(("codec-gzip", end), ("codec-lz4", 0)) == [
        ("codec-gzip", False),
        ("codec-lz4", True),
    ]
    logs.source.close()
