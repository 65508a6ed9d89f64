"""One client that asks for too much, or that can only fail, costs neither others nor the log."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkafs.serve.control.control_client import ask
from tests.fixtures_data import copy_of, log_dir
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
