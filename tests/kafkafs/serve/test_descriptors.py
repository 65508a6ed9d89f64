"""A server needs few descriptors, however many partitions its clients read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.builders import Rec, batch
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.serving import Served, serving

PARTITIONS = 600
FETCH = 1


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Partitions of one record."""
    folder = tmp_path_factory.mktemp("source")
    data = batch([Rec(b"value")])
    for number in range(PARTITIONS):
        (folder / f"big-{number}").mkdir()
        (folder / f"big-{number}" / f"{0:020}.log").write_bytes(data)
    return folder


def fetched(connection: Connection, wanted: list[int]) -> tuple[set[int], set[int]]:
    """The partitions with records in the answer to one Fetch, and the errors."""
    partitions = [
        {
            "partition": each, "currentLeaderEpoch": -1, "fetchOffset": 0, "lastFetchedEpoch": -1,
            "logStartOffset": -1, "partitionMaxBytes": 1 << 20,
        }
        for each in wanted
    ]  # fmt: skip
    answer = connection.ask(
        FETCH, 12, replicaId=-1, maxWaitMs=10, minBytes=1, maxBytes=1 << 26, isolationLevel=0,
        sessionId=0, sessionEpoch=-1, topics=[{"topic": "big", "partitions": partitions}],
        forgottenTopicsData=[], rackId="",
    )  # fmt: skip
    found = [each for topic in answer["responses"] for each in topic["partitions"]]
    has_records = {each["partitionIndex"] for each in found if each["records"]}
    return has_records, {each["errorCode"] for each in found}


def open_files(served: Served) -> int:
    return len(os.listdir(f"/proc/{served.process.pid}/fd"))


def test_an_idle_client_holds_no_files_of_its_last_answer(source, tmp_path):
    with serving(source, tmp_path) as served, Connection(served) as connection:
        for _ in range(3):
            assert fetched(connection, list(range(PARTITIONS)))[0] == set(range(PARTITIONS))
        fetched(connection, [0])
        assert (
            open_files(served) < 300
        )  # half of the budget of open files stays open for the next request


def test_consumers_of_more_partitions_than_descriptors_get_all_records(source, tmp_path):
    under = ("prlimit", "--nofile=256:256")
    with serving(source, tmp_path, under=under) as served:
        for _ in range(2):
            with Connection(served) as connection:
                wanted, errors = list(range(PARTITIONS)), set[int]()
                end = (
                    time.monotonic() + 30
                )  # an answer may have nothing while another's files are open
                while wanted and time.monotonic() < end:
                    found, codes = fetched(connection, wanted)
                    errors |= codes
                    wanted = [each for each in wanted if each not in found]
                assert (wanted, errors) == ([], {0})
        lines = served.log.read_text().splitlines()
    assert len(lines) < 5, lines
