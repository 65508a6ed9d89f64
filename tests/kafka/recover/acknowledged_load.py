"""Writers that note what a cluster acknowledged: records, transactions and commits of groups."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.clients import ANSWER_SECONDS, QUIET, Reader

PLAIN, TX_A, TX_B, TRIMMED = "plain", "tx-a", "tx-b", "trimmed"
PARTITIONS = 3
GROUP = "g-plain"


@dataclass
class History:
    """What clients were told.

    Attributes:
        records: acknowledged values by topic and partition, with their offsets.
        committed: values of each transaction that was acknowledged as committed.
        aborted: values of transactions that were aborted, or not acknowledged.
        offsets: offsets that the group committed, by partition.
        trimmed: log starts that DeleteRecords made.
    """

    records: dict[tuple[str, int], dict[int, bytes]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    committed: list[list[bytes]] = field(default_factory=list)
    aborted: list[list[bytes]] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    trimmed: dict[int, int] = field(default_factory=dict)


def make_topics(bootstrap: str) -> None:
    """Create the topics with three replicas each."""
    client = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    config = {"min.insync.replicas": "2"}
    end = time.monotonic() + ANSWER_SECONDS
    while len(client.list_topics(timeout=ANSWER_SECONDS).brokers) < 3 and time.monotonic() < end:
        time.sleep(0.2)
    names = (PLAIN, TX_A, TX_B, TRIMMED)
    made = client.create_topics([NewTopic(name, PARTITIONS, 3, config=config) for name in names])
    for future in made.values():
        future.result(ANSWER_SECONDS)
    time.sleep(1)


class Load:
    """Writes in rounds, and notes what was acknowledged."""

    def __init__(self, bootstrap: str, seed: int, name: str = "writer") -> None:
        self.bootstrap = bootstrap
        self.history = History()
        self.random = random.Random(seed)
        self._number = 0
        self._name = name.encode()
        base = {"bootstrap.servers": bootstrap, "linger.ms": 2, "acks": "all", **QUIET}
        self._plain = Producer({**base, "enable.idempotence": True, "compression.type": "lz4"})
        self.writers = [
            Producer(
                {**base, "transactional.id": f"{name}-{number}", "transaction.timeout.ms": 60_000}
            )
            for number in range(2)
        ]
        for writer in self.writers:
            writer.init_transactions(ANSWER_SECONDS)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **QUIET,
            }
        )
        self._consumer.subscribe([PLAIN])

    def run(self, seconds: float) -> None:
        """Write for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.write_plain()
            self.write_transaction(self.random.choice(self.writers))
            self._commit()

    def values(self, count: int) -> Iterator[bytes]:
        """Yield values that no other record has."""
        for _ in range(count):
            self._number += 1
            yield b"%s-%08d-%s" % (
                self._name,
                self._number,
                self.random.randbytes(60).hex().encode(),
            )

    def trim(self, before: int) -> None:
        """Delete the records below an offset of each partition of a topic."""
        client = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        asked = [TopicPartition(TRIMMED, number, before) for number in range(PARTITIONS)]
        for future in client.delete_records(asked).values():
            future.result(ANSWER_SECONDS)
        self.history.trimmed = dict.fromkeys(range(PARTITIONS), before)

    def begin_open(self) -> None:
        """Begin a transaction that nobody ends."""
        writer = self.writers[0]
        writer.begin_transaction()
        values = list(self.values(4))
        self.history.aborted.append(values)
        for place, value in enumerate(values):
            writer.produce((TX_A, TX_B)[place % 2], value, partition=place % PARTITIONS)
        writer.flush(ANSWER_SECONDS)

    def write_plain(self) -> None:
        """Write some idempotent records."""
        for value in self.values(20):
            topic = PLAIN if self.random.random() < 0.7 else TRIMMED
            self._plain.produce(
                topic,
                value,
                key=value[:16],
                partition=self.random.randrange(PARTITIONS),
                on_delivery=self._note,
            )
        self._plain.flush(ANSWER_SECONDS)

    def _note(self, error: Any, message: Any) -> None:
        if error is None:
            where = message.topic(), message.partition()
            self.history.records[where][message.offset()] = message.value()

    def write_transaction(self, writer: Producer) -> None:
        """Write a transaction over several partitions, and end it."""
        values = list(self.values(4))
        writer.begin_transaction()
        for place, value in enumerate(values):
            topic = (TX_A, TX_B)[place % 2]
            writer.produce(topic, value, partition=self.random.randrange(PARTITIONS))
        aborts = self.random.random() < 0.2
        try:
            if aborts:
                writer.abort_transaction(ANSWER_SECONDS)
            else:
                writer.commit_transaction(ANSWER_SECONDS)
        except KafkaException:
            aborts = True
        (self.history.aborted if aborts else self.history.committed).append(values)

    def _commit(self) -> None:
        messages = self._consumer.consume(200, 0.05)
        good = [message for message in messages if message.error() is None]
        if not good:
            return
        for each in self._consumer.commit(asynchronous=False) or []:
            if each.error is None:
                self.history.offsets[each.partition] = each.offset


@dataclass
class Judged:
    """What a cluster lacks of a history.

    Attributes:
        lost: acknowledged records that are not where they were.
        torn: committed transactions of which some records are visible, and others are not.
        gone: committed transactions of which no record is visible.
        revived: records of aborted transactions that are visible, and deleted ones.
        beyond: committed offsets of the group past the end of a log.
        behind: offsets of the group that are lower than what was acknowledged.
    """

    lost: list[tuple[str, int, int]] = field(default_factory=list)
    torn: int = 0
    gone: int = 0
    revived: int = 0
    beyond: int = 0
    behind: int = 0


def judge(bootstrap: str, history: History) -> Judged:
    """Read all of a cluster, and compare it with a history."""
    found: dict[tuple[str, int], dict[int, bytes]] = {}
    starts: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    with Reader(bootstrap, committed=True) as reader:
        for topic in (PLAIN, TX_A, TX_B, TRIMMED):
            for number in range(PARTITIONS):
                where = topic, number
                starts[where], ends[where] = reader.bounds(topic, number)
                records = reader.records(topic, number)
                found[where] = {record.offset: record.value or b"" for record in records}
    judged = Judged()
    for where, values in history.records.items():
        for offset, value in values.items():
            deleted = where[0] == TRIMMED and offset < history.trimmed.get(where[1], 0)
            if not deleted and found[where].get(offset) != value:
                judged.lost.append((*where, offset))
    seen = {
        value
        for topic in (TX_A, TX_B)
        for n in range(PARTITIONS)
        for value in found[topic, n].values()
    }
    for values in history.committed:
        visible = sum(value in seen for value in values)
        judged.torn += 0 < visible < len(values)
        judged.gone += not visible
    judged.revived = sum(value in seen for values in history.aborted for value in values)
    for number, before in history.trimmed.items():
        judged.revived += max(before - starts[TRIMMED, number], 0)
    for number, offset in committed_offsets(bootstrap).items():
        judged.beyond += offset > ends[PLAIN, number]
        judged.behind += offset < history.offsets.get(number, 0)
    return judged


def committed_offsets(bootstrap: str) -> dict[int, int]:
    """Return what the group has committed, by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **QUIET})
    try:
        asked = [TopicPartition(PLAIN, number) for number in range(PARTITIONS)]
        answers = consumer.committed(asked, timeout=ANSWER_SECONDS)
        return {each.partition: each.offset for each in answers if each.offset >= 0}
    finally:
        consumer.close()


def write_more(bootstrap: str, count: int) -> History:
    """Write records by new idempotent and transactional producers; return what was acknowledged."""
    load = Load(bootstrap, 99, "again")
    for _ in range(count // 24):
        load.write_plain()
        load.write_transaction(load.writers[0])
    return load.history
