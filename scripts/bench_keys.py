"""The newest record of a key: searches and maps of keys beside a consumer, and beside headers and one batch.

Kafka writes no index of keys, so a consumer reads all to find one. «Headers and one batch» is what a look-up would cost
with such an index: the headers of the partition's batches without the bytes between them, and the record by its offset.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import bench_broker
import bench_python
from bench_broker import KEY_SIZE, PARTITIONS, TOPICS, Topic
from bench_report import Report, Sample, timed

import kafkafs
from tests.kafka.broker import Broker

LOOK_UPS = 100
MISSING = "no record has this key"


def run(report: Report, megabytes: int) -> None:
    """Look up keys in topics of distinct keys."""
    with bench_broker.started(megabytes) as broker:
        bench_broker.fill(broker, megabytes)
        for topic in TOPICS:
            rows = topic.per_megabyte * megabytes
            _searches(report, broker, topic, rows)
            _maps(report, broker.log_dir, topic, rows)


def _searches(report: Report, broker: Broker, topic: Topic, rows: int) -> None:
    """The first look-up of a process."""
    consume = partial(bench_python.consumed, broker.bootstrap, topic.name, rows)
    ours = partial(_searched, broker.log_dir, topic.name, MISSING, range(PARTITIONS))
    report.compare(
        *("keys", f"{topic.name}, a missing key, first look-up", rows / 1000, "krow/s"),
        lambda: timed(ours),
        partial(bench_python.measured, consume, broker.pid),
        target="wall 5",
        note="the peer here: a full read by the consumer",
    )
    last = f"{rows - 1:0{KEY_SIZE}d}"
    for name, key, numbers in (
        ("a missing key", MISSING, range(PARTITIONS)),
        ("a key at the log end, in its partition", last, [(rows - 1) % PARTITIONS]),
    ):
        read = rows * len(numbers) / PARTITIONS / 1000
        report.compare(
            *("keys", f"{topic.name}, {name}, first look-up", read, "krow/s"),
            partial(_timed_search, broker.log_dir, topic.name, key, numbers),
            partial(_timed_headers, broker.log_dir, topic.name, numbers),
            note="the peer here: the headers and one batch",
        )


def _timed_search(log_dir: Path, topic: str, key: str, numbers: Sequence[int]) -> Sample:
    return timed(partial(_searched, log_dir, topic, key, numbers))


def _timed_headers(log_dir: Path, topic: str, numbers: Sequence[int]) -> Sample:
    return timed(partial(_headers, log_dir, topic, numbers))


def _searched(log_dir: Path, topic: str, key: str, numbers: Sequence[int]) -> None:
    with kafkafs.open(log_dir) as source:
        for number in numbers:
            source[topic, number].newest(key)


def _headers(log_dir: Path, topic: str, numbers: Sequence[int]) -> None:
    with kafkafs.open(log_dir) as source:
        for number in numbers:
            source[topic, number].count(checksums=False)
        source[topic, numbers[0]][0]


def _maps(report: Report, log_dir: Path, topic: Topic, rows: int) -> None:
    """Later look-ups, in one partition."""
    own = range(0, rows, PARTITIONS)
    keys = [f"{each:0{KEY_SIZE}d}" for each in random.Random(rows).sample(own, LOOK_UPS)]
    missing = [f"none-{number}" for number in range(LOOK_UPS)]
    with kafkafs.open(log_dir) as source:
        partition = source[topic.name, 0]
        report.alone(
            *("keys", f"{topic.name}, the map of a partition", rows / PARTITIONS / 1000, "krow/s"),
            partial(_made, log_dir, topic.name),
            note="a search for a missing key is in it",
        )
        _make(partition)
        for name, some in (("a record", keys), ("a missing key", missing)):
            report.compare(
                *("keys", f"{topic.name}, {name}, with the map", LOOK_UPS / 1000, "k/s"),
                partial(_looked_up, partition, some),
                partial(_walked, partition, len(some)),
                target="wall 1",
                note="the peer here: the headers and one batch",
            )


def _made(log_dir: Path, topic: str) -> Sample:
    with kafkafs.open(log_dir) as source:
        return timed(partial(_make, source[topic, 0]))


def _make(partition: kafkafs.OpenedPartition) -> None:
    for key in (MISSING, f"{MISSING}, nor this"):
        if partition.newest(key) is not None:
            raise RuntimeError(f"{partition.name} has the key {key}")


def _looked_up(partition: kafkafs.OpenedPartition, keys: list[str]) -> Sample:
    return timed(lambda: [partition.newest(key) for key in keys])


def _walked(partition: kafkafs.OpenedPartition, times: int) -> Sample:
    def walk() -> None:
        for _ in range(times):
            partition.count(checksums=False)
            partition[0]

    return timed(walk)
