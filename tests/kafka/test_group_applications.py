"""The groups of a worker of Kafka Connect and of Kafka Streams are named as such, also after Streams has stopped."""

from __future__ import annotations

import json
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.test_typed_values import HARNESS, java

pytestmark = pytest.mark.kafka

SECONDS = 90
WORKER = """
bootstrap.servers={0}
group.id=workers
key.converter=org.apache.kafka.connect.converters.ByteArrayConverter
value.converter=org.apache.kafka.connect.converters.ByteArrayConverter
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
listeners=HTTP://127.0.0.1:0
"""


@pytest.mark.timeout(400)
def test_connect_and_streams_are_named(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        at = broker.bootstrap
        for topic in ("words", "counts", "sessions"):
            clients.create_topic(at, topic)
        writer = clients.producer(at)
        writer.produce("words", struct.pack(">q", 1), "alice", timestamp=clients.now())
        writer.flush(clients.ANSWER_SECONDS)
        (tmp_path / "worker.properties").write_text(WORKER.format(at))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        commands = {
            "streams": java(str(HARNESS), "streams", at),
            "connect": java(main, str(tmp_path / "worker.properties")),
        }
        running = {}
        for name, command in commands.items():
            with (tmp_path / f"{name}.log").open("w") as out:
                running[name] = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=out, stderr=out
                )
        try:
            data = broker.log_dir
            streams = awaited(data, "counting", lambda each: each["committedPartitions"] > 0)
            assert streams["application"] == "streams"
            assert streams["applicationBy"] == "assignor"
            workers = awaited(data, "workers", lambda each: bool(each["members"]))
            assert workers["application"] == "connect-workers"
            running["streams"].communicate(b"\n", timeout=60)
            stopped = awaited(data, "counting", lambda each: not each["members"])
            assert stopped["application"] == "streams"
            assert stopped["applicationBy"] == "commit metadata"
        finally:
            for process in running.values():
                process.kill()
                with process:  # closes its pipe, and waits
                    pass


def awaited(data: Path, name: str, is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The state of a group once something is true of it."""
    end = time.monotonic() + SECONDS
    found: dict[str, Any] = {}
    while time.monotonic() < end:
        done = CliRunner().invoke(cli, ["groups", str(data), "--state", "--json"])
        for line in done.stdout.splitlines():
            found = json.loads(line)
            if found["group"] == name and is_there(found):
                return found
        time.sleep(0.5)
    raise TimeoutError(f"{name}: {found}")
