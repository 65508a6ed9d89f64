"""Lag as time of real groups that stopped at known times; offsets that Kafka's own tool takes back."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, TopicPartition

from kafkafs.cli import cli
from tests.kafka import clients, jars
from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPIC = "clock"
COUNT = 100
STEP_MS = 1000
BASE = 1_700_000_000_000
"""Time of the first record; each record is a second after the one before it."""
LOG_START = 8


@dataclass
class Stopped:
    """A broker that was stopped, a copy of its log dir then, and the moments around each commit of the group "timed"."""

    broker: Broker
    copy: Path
    commits: list[tuple[int, int, int]] = field(default_factory=list)
    """Offset, and the time just before and just after its commit."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    home = tmp_path_factory.mktemp("times")
    broker = Broker(home / "broker")
    found = Stopped(broker, home / "copy")
    with broker:
        at = broker.bootstrap
        clients.create_topic(at, TOPIC, 1, {"retention.ms": -1})
        writer = clients.producer(at)
        for number in range(COUNT):
            writer.produce(TOPIC, b"%d" % number, timestamp=BASE + number * STEP_MS)
        writer.flush(clients.ANSWER_SECONDS)
        for offset in (10, 20, 20):
            before = clients.now()
            commit(at, "timed", offset)
            found.commits.append((offset, before, clients.now()))
            time.sleep(0.3)
        commit(at, "done", COUNT)
        commit(at, 'below, "odd"', 3)
        clients.delete_records(at, TOPIC, 0, LOG_START)
    shutil.copytree(broker.log_dir, found.copy)
    yield found
    broker.kill()


def commit(at: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": at, "group.id": group, **clients.QUIET})
    part = TopicPartition(TOPIC, 0, offset)
    for done in consumer.commit(offsets=[part], asynchronous=False):
        assert done.error is None
    consumer.close()


def groups(stopped: Stopped, *words: str) -> Result:
    return CliRunner().invoke(cli, ["groups", str(stopped.copy), *words])


def facts(stopped: Stopped, *words: str) -> list[dict[str, Any]]:
    done = groups(stopped, *words, "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_next_record_tells_how_far_behind_a_group_is(stopped: Stopped) -> None:
    rows = {row["group"]: row for row in facts(stopped, "--times")}
    timed, done, below = rows["timed"], rows["done"], rows['below, "odd"']
    assert (timed["lag"], timed["nextOffset"]) == (80, 20)
    assert timed["nextTimestamp"] == BASE + 20 * STEP_MS
    assert timed["behindMs"] == (COUNT - 1 - 20) * STEP_MS
    assert abs(timed["ageMs"] - (clients.now() - timed["nextTimestamp"])) < 60_000
    assert (done["lag"], done["nextOffset"], done["behindMs"], done["ageMs"]) == (0, None, 0, None)
    assert below["isBelowLogStart"]
    assert below["nextOffset"] == LOG_START


def test_a_group_stands_still_since_the_first_commit_of_its_offset(stopped: Stopped) -> None:
    [row] = facts(stopped, "timed", "--times")
    _, (_, before, after), (_, later, _) = stopped.commits
    assert before <= row["stillSince"] <= after < later <= row["commitTimestamp"]


def test_each_commit_on_disk_is_told_with_the_lag_of_its_time(stopped: Stopped) -> None:
    rows = facts(stopped, "timed", "--history")
    assert [row["offset"] for row in rows] == [10, 20, 20]
    for row, (offset, before, after) in zip(rows, stopped.commits, strict=True):
        assert before <= row["commitTimestamp"] <= after
        assert row["lag"] == COUNT - offset
    assert "2 earlier" not in groups(stopped, "timed", "--history").stdout


def test_an_earlier_moment_has_the_offset_of_then(stopped: Stopped) -> None:
    [(_, _, first), (_, second, _)] = stopped.commits[:2]
    at = str((first + second) // 2)
    assert [row["offset"] for row in facts(stopped, "timed", "--history", "--at", at)] == [10]


def test_kafkas_tool_takes_the_offsets_and_the_groups_start_there(
    stopped: Stopped, tmp_path: Path
) -> None:
    done = groups(stopped, "--export")
    assert done.exit_code == 1
    assert f"offset 3 is outside of the log, {LOG_START} to {COUNT}: {LOG_START} is written" in done.stderr  # fmt: skip
    file = tmp_path / "offsets.csv"
    file.write_text(done.stdout)
    wanted = {"timed": 20, "done": COUNT, 'below, "odd"': LOG_START}
    with stopped.broker as broker:
        for name in wanted:
            commit(broker.bootstrap, name, 50)
        reset(broker, file, *wanted)
        assert {name: starts_at(broker.bootstrap, name) for name in wanted} == wanted


def test_kafkas_tool_takes_the_offsets_of_a_time(stopped: Stopped, tmp_path: Path) -> None:
    moment = BASE + 37 * STEP_MS + 500
    done = groups(stopped, "timed", "--export", "--at-time", str(moment))
    assert (done.exit_code, done.stdout) == (0, f"{TOPIC},0,38\n")
    file = tmp_path / "offsets.csv"
    file.write_text(done.stdout)
    with stopped.broker as broker:
        reset(broker, file, "timed")
        assert starts_at(broker.bootstrap, "timed") == 38


def reset(broker: Broker, file: Path, *names: str) -> None:
    chosen = [word for name in names for word in ("--group", name)]
    printed = jars.run_java(
        *(broker.version, TOOL, "--bootstrap-server", broker.bootstrap, "--reset-offsets"),
        *(*chosen, "--from-file", file, "--execute"),
    )
    assert "rror" not in printed, printed


def starts_at(at: str, group: str) -> int:
    """The offset of the first record that a member gets, or the position at the log end."""
    settings = {
        "bootstrap.servers": at, "group.id": group, "auto.offset.reset": "error",
        "enable.auto.commit": False, "enable.partition.eof": True, **clients.QUIET,
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])
    try:
        end = time.monotonic() + clients.ANSWER_SECONDS
        while time.monotonic() < end:
            message = consumer.poll(1)
            if message is not None:
                return int(message.offset() or 0)
    finally:
        consumer.close()
    raise TimeoutError("the group got no record")
