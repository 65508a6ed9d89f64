"""What makes a directory live: appends, rolls, transactions, retention, compaction, deletion of records and topics."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.kafka import clients
from tests.kafka.shapes import CODECS

SMALL = {
    "internal.segment.bytes": 65536,
    "segment.index.bytes": 65536,
    "file.delete.delay.ms": 1000,
}
TOPICS: dict[str, dict[str, object]] = {
    "steady": {},
    "txn": {},
    "short": {"retention.bytes": 300_000},
    "trimmed": {},
    "compacted": {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": 500,
        "segment.ms": 500,
    },
}
PACE = float(os.environ.get("KAFKAFS_LIVE_PACE") or 1)
"""How many times as long the writers wait between two requests."""
STATED_AFTER = float(os.environ.get("KAFKAFS_LIVE_VISIBLE_WITHIN") or 1)
"""Seconds from a record's acknowledgement until it is in the state file: until readers must find it."""


class Writers:
    """Threads that change the broker's logs until `stop`; acknowledged offsets go to the state file."""

    def __init__(self, bootstrap: str, state: Path, seed: int) -> None:
        self.errors: list[BaseException] = []
        self.acknowledged: deque[tuple[float, str, int]] = deque()
        self.fresh: deque[tuple[float, str, int]] = deque(maxlen=1000)
        self._bootstrap = bootstrap
        self._state = state
        self._random = random.Random(seed)
        self._bounds: dict[str, list[int]] = {}
        self._stopping = threading.Event()
        work: list[Callable[[], None]] = [
            self._steady, self._transactions, self._short, self._trim, self._compact, self._topics, self._publish,
        ]  # fmt: skip
        self._threads = [threading.Thread(target=self._guarded, args=(each,)) for each in work]

    def start(self) -> None:
        """Creates the topics and begins; returns when each partition has records that readers may expect."""
        for topic, config in TOPICS.items():
            partitions = 2 if topic == "steady" else 1
            clients.create_topic(self._bootstrap, topic, partitions, SMALL | config)
        for thread in self._threads:
            thread.start()
        end = time.monotonic() + 30
        while len(self._bounds) < 6 or not self._state.exists():
            if self.errors or time.monotonic() > end:
                raise RuntimeError(f"the writers wrote nothing: {self.errors}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends all threads."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            self.errors.append(error)

    def _send(self, producer: Producer, topic: str, count: int, **more: Any) -> None:
        partitions = 2 if topic == "steady" else 1
        for _ in range(count):
            producer.produce(
                topic,
                value=self._value(doomed=more.get("doomed", False)),
                key=f"k{self._random.randrange(50)}".encode(),
                partition=self._random.randrange(partitions),
                on_delivery=self._note,
            )
        producer.flush()

    def _value(self, *, doomed: bool) -> bytes:
        text = "".join(self._random.choices("abcdefgh ijkl", k=self._random.randrange(10, 400)))
        row = {"sum": zlib.crc32(text.encode()), "doomed": doomed, "text": text}
        return json.dumps(row, separators=(",", ":")).encode()

    def _note(self, error: object, message: Any) -> None:
        if error is None:
            told = (time.monotonic(), f"{message.topic()}-{message.partition()}", message.offset())
            self.acknowledged.append(told)
            self.fresh.append(told)

    def _steady(self) -> None:
        producers = [clients.producer(self._bootstrap, compression_type=codec) for codec in CODECS]
        while not self._stopping.wait(0.03 * PACE):
            self._send(self._random.choice(producers), "steady", self._random.randrange(1, 60))

    def _transactions(self) -> None:
        producer = clients.producer(self._bootstrap, transactional_id="live")
        producer.init_transactions(clients.ANSWER_SECONDS)
        while not self._stopping.wait(0.05):
            doomed = self._random.random() < 0.5
            producer.begin_transaction()
            for _ in range(3):
                self._send(producer, "txn", self._random.randrange(1, 20), doomed=doomed)
            end = producer.abort_transaction if doomed else producer.commit_transaction
            end(clients.ANSWER_SECONDS)

    def _short(self) -> None:
        producer = clients.producer(self._bootstrap, compression_type="lz4")
        while not self._stopping.wait(0.05 * PACE):
            self._send(producer, "short", 40)

    def _trim(self) -> None:
        producer = clients.producer(self._bootstrap, compression_type="zstd")
        sent = 0
        while not self._stopping.wait(0.1 * PACE):
            self._send(producer, "trimmed", 40)
            sent += 40
            if sent % 400 == 0:
                clients.delete_records(
                    self._bootstrap, "trimmed", 0, sent - self._random.randrange(1, 300)
                )

    def _compact(self) -> None:
        producer = clients.producer(self._bootstrap)
        while not self._stopping.wait(0.05 * PACE):
            self._send(producer, "compacted", 30)

    def _topics(self) -> None:
        """Topics come and go; nobody is told of their records."""
        producer = clients.producer(self._bootstrap)
        number = 0
        while not self._stopping.wait(2):
            topic = f"passing-{number}"
            clients.create_topic(self._bootstrap, topic, 1, SMALL)
            for _ in range(100):
                producer.produce(topic, self._value(doomed=False))
            producer.flush()
            if number:
                clients.delete_topic(self._bootstrap, f"passing-{number - 1}")
            number += 1

    def _publish(self) -> None:
        while not self._stopping.wait(0.1):
            old = time.monotonic() - STATED_AFTER
            while self.acknowledged and self.acknowledged[0][0] < old:
                _, partition, offset = self.acknowledged.popleft()
                bounds = self._bounds.setdefault(partition, [offset, offset + 1])
                bounds[0], bounds[1] = min(bounds[0], offset), max(bounds[1], offset + 1)
            if self._bounds:
                fresh = self._state.with_suffix(".new")
                fresh.write_text(json.dumps(self._bounds), encoding="utf-8")
                with contextlib.suppress(FileNotFoundError):
                    fresh.replace(self._state)
