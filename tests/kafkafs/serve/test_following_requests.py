"""Requests that follow each other at once are answered one after another, as if they had come alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fixtures_data import copy_of, log_dir, logs
from tests.kafkafs.serve.connection import Connection, request
from tests.kafkafs.serve.serving import Served, serving

FETCH, METADATA, VERSION = 1, 3, 12
CLIENTS = 20


RUN = "import runpy; runpy.run_module('kafkafs', run_name='__main__')"
WITHOUT_EXTENSION = ("-c", f"import sys; sys.modules['kafkafs.serve.quick.compiled'] = None; {RUN}")
BUSY = (
    "-c",
    f"from kafkafs.serve.connections import Connections as C; C._is_busy = lambda self: True; {RUN}",
)


@pytest.fixture(
    scope="module",
    params=[("-m", "kafkafs"), BUSY, WITHOUT_EXTENSION],
    ids=["compiled", "shared", "python"],
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("log")
    with serving(log_dir("current"), folder, program=request.param) as found:
        yield found


def fetch(number: int, offset: int, *, wait: int = 0, most: int = 1 << 20) -> bytes:
    """A Fetch of orders-0."""
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": most}
    return request(
        FETCH, VERSION, number, replicaId=-1, maxWaitMs=wait, minBytes=1, maxBytes=1 << 20,
        sessionEpoch=-1, topics=[{"topic": "orders", "partitions": [partition]}],
    )  # fmt: skip


def bytes_of(answer: dict[str, object]) -> bytes:
    """The batches of an answer."""
    (topic,) = answer["responses"]  # type: ignore[misc]
    (partition,) = topic["partitions"]
    assert partition["errorCode"] == 0
    found: bytes = partition["records"]
    return found


def alone(served: Served, offset: int, most: int) -> bytes:
    with Connection(served) as connection:
        connection.send(fetch(1, offset, most=most))
        return bytes_of(connection.answer(FETCH, VERSION, 1))


def test_pipelined_requests_have_the_answers_of_single_ones(served: Served) -> None:
    chance = random.Random(18)
    asked = [(chance.randrange(1000), chance.choice([1, 5_000, 1 << 20])) for _ in range(60)]
    with Connection(served) as connection:
        sent = b""
        for number, (offset, most) in enumerate(asked):
            sent += fetch(2 * number, offset, most=most)
            if number % 7 == 0:  # one that the thread leaves to the event loop
                sent += request(METADATA, 9, 2 * number + 1, topics=[])
        for start in range(0, len(sent), 1_111):  # cut anywhere
            connection.send(sent[start : start + 1_111])
        for number, (offset, most) in enumerate(asked):
            got = bytes_of(connection.answer(FETCH, VERSION, 2 * number))
            assert got == alone(served, offset, most), (offset, most)
            if number % 7 == 0:
                assert connection.answer(METADATA, 9, 2 * number + 1)["brokers"]


def test_a_request_that_has_to_wait_is_answered_when_records_come(tmp_path: Path) -> None:
    copy = copy_of("current", tmp_path, ["orders-0"])
    path = copy / "orders-0" / logs("current", "orders-0")[-1].name
    data = path.read_bytes()
    with serving(copy, tmp_path) as served, Connection(served) as connection:
        end = len(alone(served, 999, 1 << 20))  # the last batch
        path.write_bytes(data[:-end])
    with serving(copy, tmp_path) as served, Connection(served) as connection:
        connection.send(fetch(1, 0) + fetch(2, 1000 - count_of(data[-end:]), wait=10_000))
        assert bytes_of(connection.answer(FETCH, VERSION, 1))
        with path.open("ab") as file:
            file.write(data[-end:])
        assert bytes_of(connection.answer(FETCH, VERSION, 2)) == data[-end:]


def count_of(batch: bytes) -> int:
    return int.from_bytes(batch[57:61], "big")


def test_many_busy_clients_have_the_answers_of_single_ones(served: Served) -> None:
    expected = {offset: alone(served, offset, 5_000) for offset in range(0, 1000, 50)}

    def consume(client: int) -> list[bool]:
        offsets = random.Random(client).choices(list(expected), k=80)
        with Connection(served) as connection:
            equal = []
            for number, offset in enumerate(offsets):
                connection.send(fetch(number, offset, most=5_000))
                equal.append(
                    bytes_of(connection.answer(FETCH, VERSION, number)) == expected[offset]
                )
            return equal

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert list(pool.map(consume, range(CLIENTS))) == [[True] * 80] * CLIENTS


def test_a_cut_request_behind_an_answer_is_read_whole(served: Served) -> None:
    with Connection(served) as connection:
        following = fetch(2, 500)
        connection.send(fetch(1, 0) + following[:20])
        first = bytes_of(connection.answer(FETCH, VERSION, 1))
        connection.send(following[20:])
        assert bytes_of(connection.answer(FETCH, VERSION, 2)) != first


def test_a_malformed_request_behind_an_answer_ends_the_connection(served: Served) -> None:
    with Connection(served) as connection:
        broken = fetch(2, 0)
        connection.send(fetch(1, 0) + broken[:8] + b"\xff" * (len(broken) - 8))
        assert bytes_of(connection.answer(FETCH, VERSION, 1))
        assert connection.is_closed
    with Connection(served) as connection:  # and no other one
        connection.send(fetch(1, 0))
        assert bytes_of(connection.answer(FETCH, VERSION, 1))
