"""Topics that a real broker wrote, for peers that read from a broker."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import bench_data

from tests.kafka import clients
from tests.kafka.broker import Broker

PARTITIONS = 4
KEY_SIZE = 10
WORDS = 20_000


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of the broker; `per_megabyte` records for each megabyte of --size."""

    name: str
    codec: str
    value: int
    per_megabyte: int
    batch: int = 10_000
    """Most records of a batch."""


TOPICS = (
    Topic("plain-100b", "none", 100, 5000),
    Topic("zstd-100b", "zstd", 100, 5000),
    Topic("plain-1kb", "none", 1000, 2500),
)


def started(megabytes: int) -> Broker:
    """Return a broker, to be entered, with a log dir for data of this size; `fill` writes the data."""
    return Broker(bench_data.cache() / f"spark-{megabytes}")


def fill(broker: Broker, megabytes: int, topics: Sequence[Topic] = TOPICS) -> None:
    """Write topics through the broker, the first time."""
    there = {topic for topic, _ in clients.partitions_of(broker.bootstrap)}
    for topic in topics:
        rows = topic.per_megabyte * megabytes
        if topic.name in there:
            continue
        print(f"producing {rows:,} records of {topic.name} ...", flush=True)
        clients.create_topic(broker.bootstrap, topic.name, PARTITIONS)
        _produce(broker.bootstrap, topic, rows)


def _produce(bootstrap: str, topic: Topic, rows: int) -> None:
    chance = random.Random(topic.name)
    words = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randrange(2, 12)))
        for _ in range(WORDS)
    ]
    text = " ".join(chance.choices(words, k=WORDS * 10)).encode()
    sender = clients.producer(
        bootstrap,
        compression_type=topic.codec,
        linger_ms=50,
        batch_size=65536,
        batch_num_messages=topic.batch,
        queue_buffering_max_messages=100_000,
    )
    for row in range(rows):
        start = chance.randrange(len(text) - topic.value)
        value = text[start : start + topic.value]
        key = f"{row:0{KEY_SIZE}d}".encode()
        while True:
            try:
                sender.produce(topic.name, value, key, row % PARTITIONS)
                break
            except BufferError:
                sender.poll(0.1)
    if sender.flush(clients.ANSWER_SECONDS):
        raise RuntimeError("the broker did not take all records")
