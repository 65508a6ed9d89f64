"""The audit log has a line for each stretch of a partition that a client was sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures_data import copy_of, truth_offsets
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.serving import START_SECONDS, serving
from tests.kafkafs.serve.test_process import run
from tests.mount.mounted import wait_until

FETCH, METADATA = 1, 3


def fetch(client: Connection, version: int, topic: dict[str, str], offset: int) -> int:
    """Fetch from an offset; return the number of bytes."""
    wanted = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
    answer = client.ask(
        FETCH, version, replicaId=-1, maxWaitMs=0, minBytes=0, maxBytes=1 << 20, sessionEpoch=-1,
        topics=[topic | {"partitions": [wanted]}],
    )  # fmt: skip
    return len(answer["responses"][0]["partitions"][0]["records"] or b"")


def test_each_stretch_that_a_client_was_sent_is_a_line(tmp_path: Path) -> None:
    source, log = copy_of("current", tmp_path, ["orders-0"]), tmp_path / "reads.jsonl"
    end = int(truth_offsets("current")["orders-0"]["latest"])

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in log.read_text().splitlines()]

    with serving(source, tmp_path, "--audit-log", str(log)) as served:
        with Connection(served) as client:
            (topic,) = client.ask(METADATA, 12, topics=[{"name": "orders"}])["topics"]
            sent = fetch(client, 11, {"topic": "orders"}, 0)
            sent += fetch(client, 13, {"topicId": topic["topicId"]}, 100)
            last = fetch(client, 11, {"topic": "orders"}, end - 1)
            assert fetch(client, 11, {"topic": "orders"}, end) == 0
        assert wait_until(lambda: len(lines()) == 2, START_SECONDS)
        first, second = lines()
    assert first["client"].startswith("127.0.0.1:")
    assert first["since"] <= second["since"] <= second["time"]
    place = {"clientId": "test", "user": None, "topic": "orders", "partition": 0}
    assert first.items() > (place | {"from": 0, "bytes": sent}).items()
    assert 100 < first["to"] < end - 1
    assert second.items() > (place | {"from": end - 1, "to": end, "bytes": last}).items()
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["source/reads.jsonl", "nowhere/reads.jsonl"])
def test_a_file_inside_of_the_source_or_of_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    source = copy_of("current", tmp_path, ["orders-0"]).rename(tmp_path / "source")
    done = run("serve", source, "--listen", "127.0.0.1:0", "--audit-log", tmp_path / name)
    assert (done.returncode, done.stderr.count("--audit-log: ")) == (3, 1)
    assert not (tmp_path / name).exists()
