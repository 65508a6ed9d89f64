"""Whatever one client sends or leaves undone, the server stays, other clients are served, and the source is untouched."""

from __future__ import annotations

import hashlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures_data import copy_of
from tests.kafkafs.serve.connection import Connection, request
from tests.kafkafs.serve.serving import Served, serving
from tests.soak.frames import frame
from tests.traced_calls import assert_only_read, strace

API_VERSIONS, FETCH, METADATA = 18, 1, 3


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of("current", tmp_path_factory.mktemp("source"), ["orders-0", "txn-0", "weird-0"])


@pytest.fixture(scope="module")
def served(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    before = state_of(source)
    many = "connections_per_address=2000"
    with serving(source, tmp_path_factory.mktemp("log"), "-o", many) as found:
        yield found
    assert state_of(source) == before


def state_of(source: Path) -> dict[str, tuple]:
    """Content and times of every file and folder of a source."""
    return {
        str(path.relative_to(source)): (
            path.stat().st_mtime_ns,
            path.stat().st_ctime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else sorted(each.name for each in path.iterdir()),
        )
        for path in [source, *source.rglob("*")]
    }  # fmt: skip


def is_served(connection: Connection) -> bool:
    names = [each["name"] for each in connection.ask(METADATA, 9, topics=None)["topics"]]
    return names == ["orders", "txn", "weird"]


def fetch(
    offset: int = 0, *, wait: int = 0, least: int = 0, most: int = 1 << 20, topic: str = "orders"
) -> dict:
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": most}
    return {
        "replicaId": -1, "maxWaitMs": wait, "minBytes": least, "maxBytes": most, "sessionEpoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ihhih", 10, 3, 99, 1, -1),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, -1, 0, 1, -1),
        struct.pack(">ihhih", 10, 3, 9, 1, 500),
        struct.pack(">ihhi", 8, 3, 9, 1),
        struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    ],
    ids=["HTTP", "TLS", "negative length", "no bytes", "2 GiB", "unknown version", "unknown API", "negative API",
         "cut client id", "no client id", "a lying count"],
)  # fmt: skip
def test_bytes_that_are_no_request_end_their_connection_alone(served, data):
    with Connection(served) as other, Connection(served) as connection:
        assert is_served(other)
        connection.send(data)
        assert connection.is_closed
        assert is_served(other)
    assert "connection closed: " in served.log.read_text()


def test_random_bytes_neither_stop_the_server_nor_fill_its_memory(served):
    random_numbers = random.Random(7)
    with Connection(served) as other:
        assert is_served(other)
        before = served.resident_bytes()
        for _ in range(300):
            whole = bytearray(request(FETCH, 12, 1, **fetch()))
            for _ in range(random_numbers.randint(1, 6)):
                whole[random_numbers.randrange(4, len(whole))] = random_numbers.randrange(256)
            with Connection(served) as connection:
                connection.send(bytes(whole))
                connection._socket.shutdown(socket.SHUT_WR)
                connection.receive(1 << 20)
        assert is_served(other)
    assert served.resident_bytes() - before < 32 << 20


def test_half_a_request_holds_up_nobody(served):
    with Connection(served) as half, Connection(served) as other:
        half.send(request(METADATA, 9, 1, topics=None)[:9])
        assert is_served(other)


def test_a_client_that_does_not_read_holds_up_nobody(served):
    with Connection(served) as slow, Connection(served) as other:
        for number in range(200):
            slow.send(request(FETCH, 12, number + 1, **fetch(topic="weird", most=1 << 30)))
        start = time.monotonic()
        for _ in range(20):
            assert is_served(other)
        assert time.monotonic() - start < 5


def test_a_client_that_dies_within_an_answer_holds_up_nobody(served):
    for _ in range(30):
        with Connection(served) as dying:
            dying.send(request(FETCH, 12, 1, **fetch(topic="weird", most=1 << 30)))
            dying.receive(1000)
            dying._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with Connection(served) as other:
        assert is_served(other)


def test_a_newer_client_is_told_the_versions_in_version_0(served):
    with Connection(served) as connection:
        connection.send(struct.pack(">ihhih", 10, API_VERSIONS, 99, 5, -1))
        answer = connection.answer(API_VERSIONS, 0, 5)
    assert answer["errorCode"] == 35
    assert {each["apiKey"] for each in answer["apiKeys"]} >= {FETCH, METADATA, API_VERSIONS}


def test_a_fetch_waits_for_bytes_as_long_as_its_client_says(served):
    with Connection(served) as connection:
        start = time.monotonic()
        answer = connection.ask(FETCH, 12, **fetch(1000, wait=600, least=1))
        waited = time.monotonic() - start
        assert answer["responses"][0]["partitions"][0]["highWatermark"] == 1000
        assert 0.5 < waited < 3
        start = time.monotonic()
        connection.ask(FETCH, 12, **fetch(0, wait=10_000, least=1))
        assert time.monotonic() - start < 3


@pytest.mark.parametrize("name", ["../orders", "/etc", "orders-0", "", "orders\0", "a" * 300])
def test_a_name_from_the_network_is_only_looked_up(served, name):
    with Connection(served) as connection:
        answer = connection.ask(METADATA, 9, topics=[{"name": name}])
        error = 3 if name == "orders-0" else 17
        assert [each["errorCode"] for each in answer["topics"]] == [error]
        fetched = connection.ask(FETCH, 12, **fetch(topic=name))
        assert fetched["responses"][0]["partitions"][0]["errorCode"] == 3


def test_50_clients_that_do_not_read_and_one_that_does(served):
    """Each of the 50 has more unread answers than its socket holds."""
    stalled = [Connection(served) for _ in range(50)]
    try:
        for each in stalled:
            for number in range(8):
                each.send(request(FETCH, 12, number + 1, **fetch(topic="weird", most=1 << 30)))
        with Connection(served) as fast:
            start = time.monotonic()
            for _ in range(100):
                answer = fast.ask(FETCH, 12, **fetch())
                assert answer["responses"][0]["partitions"][0]["records"]
            assert time.monotonic() - start < 10
    finally:
        for each in stalled:
            each.__exit__()


def test_a_killed_client_ends_a_fetch_that_waits(source, tmp_path):
    with serving(source, tmp_path, "-o", "connections=1") as served:
        with Connection(served) as dying:
            waiting = fetch(1000, wait=2**31 - 1, least=2**31 - 1)
            dying.send(request(FETCH, 12, 1, **waiting))
            time.sleep(0.3)
        assert frees_a_place(served)


def frees_a_place(served: Served) -> bool:
    """Whether a server for one client takes another one before long."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with Connection(served) as connection:
            connection.send(request(API_VERSIONS, 0, 1))
            if connection.receive(4):
                return True
        time.sleep(0.1)
    return False


def test_a_fetch_waits_no_longer_than_the_limit(source, tmp_path):
    with serving(source, tmp_path, "-o", "wait_seconds=1") as served, Connection(served) as found:
        start = time.monotonic()
        found.ask(FETCH, 12, **fetch(1000, wait=2**31 - 1, least=2**31 - 1))
        assert time.monotonic() - start < 15


def test_a_request_with_too_many_elements_ends_its_connection(served):
    """A request of 4 MiB could have two million topics, which would take a second and a gigabyte."""
    body = b"\xff\xff\x7f" + b"\1\0" * 2_097_150
    head = struct.pack(">hhih", METADATA, 9, 1, -1) + b"\0"
    before = served.resident_bytes()
    with Connection(served) as connection, Connection(served) as other:
        frame = (head + body)[: (4 << 20) - 8]
        connection.send(struct.pack(">i", len(frame)) + frame)
        assert is_served(other)
        assert connection.is_closed
    assert served.warned("connection closed: the message has too many elements")
    assert served.resident_bytes() - before < 64 << 20


def test_a_topic_that_is_asked_for_twice_is_answered_once(served):
    with Connection(served) as connection:
        answer = connection.ask(METADATA, 9, topics=[{"name": "orders"}] * 1000)
        assert [each["name"] for each in answer["topics"]] == ["orders"]


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (32, 4, {"resources": [{"resourceType": 2, "resourceName": "orders"}] * 20_000}),
        (15, 5, {"groups": ["billing-0"] * 20_000}),
        (9, 8, {"groups": [{"groupId": "billing-0", "topics": None}] * 20_000}),
        (61, 0, {"topics": [{"name": "orders", "partitionIndexes": [0] * 20_000}]}),
    ],
    ids=["configs", "groups", "offsets", "producers"],
)
def test_a_request_that_names_the_same_thing_often_ends_its_connection(
    served, key, version, fields
):
    before = served.resident_bytes()
    with Connection(served) as connection:
        connection.send(request(key, version, 1, **fields))
        assert connection.is_closed
    assert served.warned("connection closed: ", "repeats more than 1000 elements")
    assert served.resident_bytes() - before < 64 << 20


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_server_opens_nothing_below_the_source_for_writing(source, tmp_path):
    trace = tmp_path / "trace"
    with serving(source, tmp_path, under=strace(trace, "-D")) as served:
        with Connection(served) as connection:
            for topic in ("orders", "txn", "weird"):
                connection.ask(FETCH, 12, **fetch(topic=topic))
            connection.ask(METADATA, 12, topics=None)
        for number in range(300):
            with Connection(served) as connection:
                connection.send(frame(number, 5))
                connection._socket.settimeout(0.05)
                with suppress(OSError):
                    connection.receive(1 << 16)
    assert_only_read(trace, source)


def test_1000_idle_clients_cost_less_than_100_megabytes(served):
    connections = []
    try:
        for _ in range(1000):
            connections.append(Connection(served))
            connections[-1].ask(API_VERSIONS, 0)
        assert served.resident_bytes() < 100_000_000
    finally:
        for each in connections:
            each.__exit__()


def test_killed_consumers_in_the_middle_of_a_fetch_hold_up_nobody(served):
    """A process that is killed closes its sockets with unread bytes in them."""
    program = (
        "import socket, sys, time; "
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
        "s.sendall(bytes.fromhex(sys.argv[2])); s.recv(1000); print(flush=True); time.sleep(60)"
    )
    asked = request(FETCH, 12, 1, **fetch(topic="weird", most=1 << 30)).hex()
    for _ in range(5):
        command = [sys.executable, "-c", program, str(served.port), asked]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            assert client.stdout.readline()
            client.kill()
    with Connection(served) as other:
        assert is_served(other)
