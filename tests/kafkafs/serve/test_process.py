"""The server in the foreground and the background, and what it tells its operator."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kafkafs.serve.error_codes import ErrorCode
from tests.damage.meaning import rows_of
from tests.fixtures_data import copy_of
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.serving import Served, serving

FETCH, METADATA = 1, 3


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of("current", tmp_path_factory.mktemp("source"), ["orders-0"])


@pytest.fixture
def served(source: Path, tmp_path: Path) -> Iterator[Served]:
    with serving(source, tmp_path, "-o", "connections=2") as found:
        yield found


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkafs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=cwd, check=False)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; where nothing waits for orphans, its entry stays."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def facts_of(address: str) -> dict:
    done = run("top", address, "--once", "--interval", "0.1", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def is_served(host: str, port: int) -> bool:
    with Connection(Served(None, host, port, None)) as connection:  # type: ignore[arg-type]
        topics = connection.ask(METADATA, 9, topics=None)["topics"]
        return [each["name"] for each in topics] == ["orders"]


def test_a_server_in_the_background_serves_when_the_command_returns_until_it_is_stopped(
    source, tmp_path
):
    os.symlink(source, tmp_path / "data")
    command = ("serve", "data", "-b", "--listen", "127.0.0.1:0", "--print-config")
    done = run(*command, "--log-file", "serve.log", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    address = done.stdout.strip().removeprefix("bootstrap.servers=")
    host, _, port = address.partition(":")
    try:
        assert is_served(host, int(port))
        facts = facts_of(address)
        assert facts["sources"] == [str(tmp_path / "data")]
        assert facts["pid"] != os.getpid()
        assert Path(f"/proc/{facts['pid']}/cwd").readlink() == Path("/")
    finally:
        stopped = run("serve", "--stop", address)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
    assert is_gone(facts["pid"])
    log = (tmp_path / "serve.log").read_text()
    assert "1 partition served on" in log
    assert "SIGTERM: ending" in log
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


@pytest.mark.parametrize("where", ["--foreground", "--background"])
def test_a_start_that_fails_says_why_in_one_line(source, tmp_path, where):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", source, where, "--quiet", "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 3
    assert done.stderr == (
        f"kafkafs: 127.0.0.1:{port} is in use: choose another port with --listen, or 0 for a free one\n"
    )
    done = run("serve", tmp_path / "none", where, "--listen", "127.0.0.1:0")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    done = run("serve", source, where, "--listen", "127.0.0.1:0", "--topic", "order")
    assert done.returncode == 2
    assert "no partition matches --topic order" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_top_shows_requests_connections_and_bytes(served):
    with Connection(served) as connection:
        connection.ask(METADATA, 9, topics=None)
        facts = facts_of(served.bootstrap)
        assert facts["address"] == served.bootstrap
        assert facts["partitions"] == 1
        assert facts["problems"] == 0
        numbers = facts["statistics"]
        assert (numbers["connections"], numbers["acceptedConnections"]) == (1, 1)
        assert numbers["bytesSent"] > 50
        assert numbers["operations"]["Metadata"]["requests"] == 1
        assert facts["options"]["connections"] == 2
        (client,) = facts["clients"]
        assert (client["clientId"], client["user"], client["requests"]) == ("test", None, 1)
        assert client["bytesSent"] == numbers["bytesSent"]
        shown = run("top", served.bootstrap, "--once", "--interval", "0.1")
        assert re.search(r"\n127\.0\.0\.1:\d+ +test +- +1 ", shown.stdout)
    shown = run("top", served.bootstrap, "--once", "--interval", "0.1")
    assert "without TLS and logins; 0 connections (at most 1), 1 in all\n" in shown.stdout
    assert "\nMetadata " in shown.stdout


def test_offsets_that_are_gone_from_the_middle_of_a_file_are_logged_and_counted(tmp_path):
    source = copy_of("current", tmp_path, ["orders-0", "__cluster_metadata-0"])
    path = sorted((source / "orders-0").glob("*.log"))[1]
    data = path.read_bytes()
    gone = rows_of(data)[5]
    path.write_bytes(data[: gone.position] + data[gone.end :])
    with serving(source, tmp_path) as served, Connection(served) as connection:
        wanted = {"partition": 0, "fetchOffset": gone.base, "partitionMaxBytes": 1 << 20}
        topics = [{"topic": "orders", "partitions": [wanted]}]
        asked = {"replicaId": -1, "minBytes": 0, "maxBytes": 1 << 20, "topics": topics}
        answer = connection.ask(FETCH, 4, **asked)["responses"][0]["partitions"][0]
        assert answer["errorCode"] == ErrorCode.CORRUPT_MESSAGE
        assert served.warned("missing: ", path.name, f"offsets {gone.base} to {gone.last} ")
        facts = facts_of(served.bootstrap)
    assert facts["statistics"]["damageAnswers"] == 1
    assert [each["kind"] for each in facts["lastProblems"]] == ["missing"]


def test_connections_above_the_limit_are_refused_and_counted(served):
    with Connection(served) as one, Connection(served) as two:
        assert one.ask(METADATA, 9, topics=None) == two.ask(METADATA, 9, topics=None)
        with Connection(served) as third:
            assert third.is_closed
    assert served.warned("refused: 2 connections are open")
    assert facts_of(served.bootstrap)["statistics"]["refusedConnections"] == 1


def test_top_and_stop_say_that_there_is_no_server():
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        sentence = f"no server of this user listens on {address} on this machine\n"
        done = run("serve", "--stop", address)
        assert (done.returncode, done.stderr) == (3, f"kafkafs: {sentence}")
        done = run("top", address, "--once")
        assert (done.returncode, done.stderr) == (3, f"kafkafs: {sentence}")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ("conections=2", "unknown option 'conections'; there are request_bytes, "),
        ("connections=none", "option connections cannot be 'none'"),
        ("workers=0", "option workers cannot be '0'"),
        ("workers", "option workers cannot be ''"),
    ],
)
def test_a_limit_that_is_none_is_refused(source, limits, reason):
    done = run("serve", source, "-o", limits)
    assert done.returncode == 2
    assert reason in done.stderr


def test_an_address_that_other_machines_reach_is_warned_of(source, tmp_path):
    with serving(source, tmp_path, "--listen", "0.0.0.0:0") as found:
        address = f"127.0.0.1:{found.port}"
        assert facts_of(address)["pid"] == found.process.pid
    log = found.log.read_text()
    assert "warning: whoever reaches 0.0.0.0:0 reads the records: see --password-file" in log


def test_a_second_address_tells_its_own_advertised_one_and_sighup_shows_a_new_folder(
    tmp_path: Path,
) -> None:
    source = copy_of("current", tmp_path, ["orders-0"])
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    also = f"127.0.0.1:{port}=kafka-old.example:9094"
    with serving(source, tmp_path, "--also-listen", also) as served:
        told = []
        for place in (served, served._replace(port=port)):
            with Connection(place) as client:
                (broker,) = client.ask(3, 9, topics=[])["brokers"]
                told.append((broker["host"], broker["port"]))
        assert told == [("127.0.0.1", served.port), ("kafka-old.example", 9094)]
        shutil.copytree(source / "orders-0", source / "orders-7")
        served.process.send_signal(signal.SIGHUP)
        assert served.warned("SIGHUP: the source, passwords and certificates are read again")
        with Connection(served) as client:
            (topic,) = client.ask(3, 9, topics=[{"name": "orders"}])["topics"]
        assert topic["partitions"][-1]["partitionIndex"] == 7
