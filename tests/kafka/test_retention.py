"""What `du` says that retention and compaction take next is what a real broker deletes, to the file."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.files.file_names import CLEANER_OFFSET_CHECKPOINT, producer_snapshot_name
from engine.log.log_directory import open_source
from engine.units import TopicPartition
from engine.usage.predictions import Prediction
from engine.usage.source_usage import source_usage
from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.measured_du import du

pytestmark = pytest.mark.kafka

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NEVER_MS = 10**12
CONFIGURATIONS = 30
WRITING = {
    "log.initial.task.delay.ms": NEVER_MS,
    "log.retention.check.interval.ms": NEVER_MS,
    "log.cleaner.backoff.ms": NEVER_MS,
    "log.retention.hours": 48,
}
CHECKING = {
    "log.initial.task.delay.ms": 500,
    "log.retention.check.interval.ms": 500,
    "log.cleaner.backoff.ms": 200,
    "log.retention.hours": 48,
}
SETTINGS = {"log.retention.hours": "48"}
"""Of the broker's server.properties, as they are given to `du`."""


@dataclass
class Shape:
    """A topic: its configuration, the ages of its records in hours (None: the broker's clock), and a deletion."""

    name: str
    config: dict[str, object]
    ages: list[float] = field(default_factory=list)
    delete_before: int | None = None


def shapes(seed: int) -> list[Shape]:
    """30 configurations: each bound alone and together, clocks that go back and ahead, all policies."""
    rng = random.Random(seed)
    found = []
    for number in range(CONFIGURATIONS):
        count = rng.randrange(1, 9)
        config: dict[str, object] = {
            "internal.segment.bytes": rng.choice([400, 400, 900, 100_000]),
            "message.timestamp.after.max.ms": NEVER_MS,
            "file.delete.delay.ms": NEVER_MS,
            "cleanup.policy": rng.choice(["delete"] * 4 + ["compact,delete", "compact"]),
            "min.cleanable.dirty.ratio": 1,
        }
        if rng.random() < 0.6:
            config["retention.ms"] = rng.choice([-1, 1, HOUR_MS, 5 * HOUR_MS, 3 * DAY_MS])
        if rng.random() < 0.5:
            config["retention.bytes"] = rng.choice([0, 1, 700, 1200, 2000, 10_000])
        if rng.random() < 0.15:
            config["message.timestamp.type"] = "LogAppendTime"
        ages = sorted((rng.uniform(0.3, 120) for _ in range(count)), reverse=True)
        kind = rng.randrange(4)
        if kind == 0:
            rng.shuffle(ages)
        elif kind == 1:  # a clock that is ahead by days, for one record
            ages[rng.randrange(count)] = -rng.uniform(1, 100)
        can_delete = config["cleanup.policy"] != "compact"
        before = rng.randrange(count + 1) if can_delete and rng.random() < 0.3 else None
        found.append(Shape(f"t{number}", config, ages, before))
    return found


def compacted(seed: int) -> list[Shape]:
    """Compacted topics: dirty enough or not, too young, overdue."""
    rng = random.Random(seed)
    return [
        Shape(
            f"c{number}",
            {
                "internal.segment.bytes": 400,
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": ratio,
                "min.compaction.lag.ms": youth,
                "file.delete.delay.ms": NEVER_MS,
            },
            [rng.uniform(2, 50) for _ in range(count)],
        )
        for number, (ratio, youth, count) in enumerate(
            [(0.01, 0, 5), (0.99, 0, 4), (1, 0, 5), (0.5, HOUR_MS, 4), (0.5, 3 * DAY_MS, 5), (0.5, 0, 1)]
        )
    ]  # fmt: skip


def fill(broker: Broker, shape: Shape) -> None:
    clients.create_topic(broker.bootstrap, shape.name, 1, shape.config)
    producer = clients.producer(broker.bootstrap)
    now = clients.now()
    for number, age in enumerate(shape.ages):
        producer.produce(
            shape.name,
            key=b"k%d" % (number % 2),
            value=bytes([number]) * 300,
            timestamp=now - round(age * HOUR_MS),
        )
        producer.flush(clients.ANSWER_SECONDS)  # one record a batch
    if shape.delete_before is not None:
        clients.delete_records(broker.bootstrap, shape.name, 0, shape.delete_before)


def names(log_dir: Path, shape: Shape) -> set[str]:
    """Files of a topic's log, without those that a broker marked as deleted."""
    folder = log_dir / f"{shape.name}-0"
    return {path.name for path in folder.iterdir() if not path.name.endswith(".deleted")}


def cleaned_to(log_dir: Path) -> dict[TopicPartition, int]:
    path = log_dir / CLEANER_OFFSET_CHECKPOINT
    return parse_offset_checkpoint(path.read_bytes(), path=path.name) if path.exists() else {}


def test_a_broker_deletes_what_was_predicted_to_the_file(tmp_path: Path) -> None:
    topics, to_clean = shapes(39), compacted(7)
    with Broker(tmp_path / "broker", settings=WRITING) as broker:
        for shape in [*topics, *to_clean]:
            fill(broker, shape)
    log_dir = broker.log_dir
    source = open_source([str(log_dir)])
    predicted = {
        each.log.partition.topic: each
        for each in source_usage(source, clients.now(), SETTINGS).predictions
    }
    source.close()
    before = {shape.name: names(log_dir, shape) for shape in topics}
    broker = Broker(tmp_path / "broker", settings=CHECKING)
    with broker:
        wait_until_quiet(log_dir, [*topics, *to_clean])
    wrong = {}
    for shape in topics:
        said = {name for each in predicted[shape.name].due for name in each.segment.files}
        gone = before[shape.name] - names(log_dir, shape) - swept(shape)
        said -= swept(shape)
        if gone != said:
            wrong[shape.name] = shape, sorted(gone - said), sorted(said - gone)
    assert not wrong
    assert sum(bool(predicted[shape.name].due) for shape in topics) >= CONFIGURATIONS // 3
    cleaned = cleaned_to(log_dir)
    for shape in to_clean:
        judge_cleaning(predicted[shape.name], cleaned)


def swept(shape: Shape) -> set[str]:
    """Producer snapshots up to the log start, which the start deletes before any retention."""
    before = shape.delete_before or -1
    return {producer_snapshot_name(offset) for offset in range(before + 1)}


def judge_cleaning(said: Prediction, cleaned: dict[TopicPartition, int]) -> None:
    assert said.cleaning is not None
    reached = cleaned.get(said.log.partition)
    if said.is_cleaned_next:
        assert reached == said.cleaning.end, said
    else:
        assert reached is None, said


def wait_until_quiet(log_dir: Path, shapes: list[Shape]) -> None:
    """Wait until no file has come or gone for some seconds."""
    seen, since, start = None, time.monotonic(), time.monotonic()
    while time.monotonic() - since < 6 and time.monotonic() - start < 120:
        now = [names(log_dir, shape) for shape in shapes]
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.3)


def test_a_live_log_dir_takes_what_du_says(tmp_path: Path) -> None:
    still = {
        "metadata.max.idle.interval.ms": 0,
        **CHECKING,
    }  # else a controller writes all the time
    with Broker(tmp_path / "broker", settings=still) as broker:
        for shape in shapes(3)[:4]:
            fill(broker, shape)
        wait_until_quiet(broker.log_dir, [])
        command = [sys.executable, "-m", "kafkafs", "du", "--json", str(broker.log_dir)]
        for _ in range(20):  # a broker writes checkpoints now and then
            before = du(broker.log_dir)
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found = [json.loads(line) for line in printed.splitlines()]
            if before == du(broker.log_dir):
                break
        [system] = [each for each in found if each["type"] == "fileSystem"]
    assert (found[-1]["allocatedBytes"], found[-1]["apparentBytes"]) == before
    assert system["isLive"]
