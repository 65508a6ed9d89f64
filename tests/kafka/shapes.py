"""Fills a broker with partitions of every shape worth reading, at random from a seed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from tests.kafka import clients

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEGACY_CODECS = ("none", "gzip", "snappy", "lz4")
LEGACY_FORMATS = {"v0": "0.9.0", "v1": "0.10.2", "v2": "2.8"}
SMALL = {"internal.segment.bytes": 32768, "segment.index.bytes": 65536}
LEGACY_SMALL = {"segment.bytes": 32768, "segment.index.bytes": 65536}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": 1000,
    "segment.ms": 1000,
}
START = 1_700_000_000_000
DAY = 86_400_000
LONG_NAME = "n" * 249
CITIES = ("Lagos", "Oslo", "São Paulo", "東京", "Zürich", "Reykjavík\u200b", "\u202eabc")
ODD_BYTES = (
    None, b"", b"\x00", b"\xff\xfe\x00\x01", b"\x1b[31mred\x07", "tab\tnew\nline \u2028 \U0001f600".encode(),
    b"{broken", b'{"a": 1e400, "a": [ ]}', b" [1, 2 ,3]\n", b"null", b"7", b'"text"', bytes(range(256)),
    b"\xed\xa0\x80", b"[" * 200 + b"]" * 200, b'{"s":"\\ud800"}', b"\x7f\xc2\x85", b"\xef\xbb\xbf{}",
)  # fmt: skip


@dataclass
class Session:
    """A broker under filling: the source of randomness, and producers that end with the session."""

    bootstrap: str
    random: random.Random
    open_transactions: list[Producer] = field(default_factory=list)

    def create(self, topic: str, partitions: int = 1, **config: object) -> None:
        """Creates a topic; config keys with _ for dots."""
        own = {key.replace("_", "."): value for key, value in config.items()}
        clients.create_topic(self.bootstrap, topic, partitions, SMALL | own)

    def send(
        self,
        topic: str,
        count: int,
        *,
        codec: str = "none",
        start: int = START,
        step: int = 1000,
        partitions: int = 1,
        producer: Producer | None = None,
        value: Callable[[int], bytes | None] | None = None,
    ) -> None:
        """Sends records in batches of random sizes, with keys, headers and jittered timestamps."""
        sender = producer or clients.producer(self.bootstrap, compression_type=codec)
        left = 0
        for index in range(count):
            sender.produce(
                topic,
                key=self.random.choice([None, b"", f"k{self.random.randrange(200)}".encode()]),
                value=value(index) if value else self.order(index),
                partition=index % partitions,
                timestamp=start + index * step + self.random.randrange(-300, 300),
                headers=self.headers(),
            )
            left -= 1
            if left <= 0:
                sender.flush()
                left = self.random.randrange(1, 80)
        sender.flush()

    def keyed(self, topic: str, count: int, keys: int, codec: str, start: int = START) -> None:
        """Sends records with few keys and some tombstones, for compaction."""
        sender = clients.producer(self.bootstrap, compression_type=codec)
        for index in range(count):
            dead = self.random.random() < 0.15
            key = f"k{self.random.randrange(keys)}".encode()
            sender.produce(
                topic,
                key=key,
                value=None if dead else self.order(index),
                timestamp=start + index * 5,
            )
            if index % 40 == 39:
                sender.flush()
        sender.flush()

    def order(self, index: int) -> bytes:
        """A JSON document of random size."""
        note = "".join(
            self.random.choices("abcdefghij klmnop qrst uvwxyz", k=self.random.randrange(90))
        )
        row = {
            "id": index,
            "total": self.random.random() * 900,
            "city": self.random.choice(CITIES),
            "note": note,
        }
        return json.dumps(row, ensure_ascii=False).encode()

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """No header, a few, or doubled and null ones."""
        return self.random.choice(
            [
                None,
                [("trace-id", f"{self.random.getrandbits(64):016x}".encode())],
                [("dup", b"1"), ("dup", b"2"), ("ключ", "значение".encode())],
                [("none", None), ("empty", b""), ("", b"\xff")],
            ]
        )


def fill_current(bootstrap: str, seed: int) -> Session:
    """Every shape of a current broker; keep the session, its open transaction ends with it."""
    session = Session(bootstrap, random.Random(seed))
    for shape in (_orders, _codecs, _odd, _append_time, _disorder, _days, _empty, _compacted):
        shape(session)
    _trimmed(session)
    _retained(session)
    _transactions(session)
    _groups(session, range(3))
    _doomed(session)
    return session


def fill_legacy(bootstrap: str, seed: int) -> None:
    """Message formats 0, 1 and 2 on a 2.8 broker, and a log that lived through both upgrades."""
    session = Session(bootstrap, random.Random(seed))
    for name, version in LEGACY_FORMATS.items():
        for codec in LEGACY_CODECS:
            topic = f"{name}-{codec}"
            _create_legacy(session, topic, {"message.format.version": version})
            _send_legacy(session, topic, 150, codec)
    for name, codec in (("v0", "lz4"), ("v1", "lz4"), ("v1", "snappy")):
        topic = f"{name}-recoded-{codec}"
        config = {"message.format.version": LEGACY_FORMATS[name], "compression.type": codec}
        _create_legacy(session, topic, config)
        _send_legacy(session, topic, 150, "none")
    stamped = {"message.format.version": "0.10.2", "message.timestamp.type": "LogAppendTime"}
    _create_legacy(session, "v1-append-time", stamped)
    _send_legacy(session, "v1-append-time", 100, "gzip")
    _create_legacy(session, "v1-compacted", COMPACTED | {"message.format.version": "0.10.2"})
    for codec in ("none", "gzip", "none", "lz4"):
        session.keyed("v1-compacted", 150, 60, codec)
        time.sleep(1.2)
    _end_compaction(session, "v1-compacted")
    _create_legacy(session, "upgraded", {"message.format.version": "0.9.0"})
    for version in LEGACY_FORMATS.values():
        clients.set_topic_config(bootstrap, "upgraded", "message.format.version", version)
        time.sleep(0.5)
        for codec in ("none", "gzip", "lz4"):
            _send_legacy(session, "upgraded", 60, codec)


def write_without_waiting(bootstrap: str, seed: int, seconds: float) -> None:
    """Keeps the broker writing and rolling, and returns in the middle of it."""
    session = Session(bootstrap, random.Random(seed))
    for codec in ("lz4", "none"):
        session.create(f"crash-{codec}")
    producers = [
        clients.producer(bootstrap, acks=1, compression_type=codec) for codec in ("lz4", "none")
    ]
    end = time.monotonic() + seconds
    index = 0
    while time.monotonic() < end:
        for codec, producer in zip(("lz4", "none"), producers, strict=True):
            try:
                producer.produce(f"crash-{codec}", session.order(index), timestamp=START + index)
            except BufferError:
                producer.poll(0.05)
        index += 1
    for producer in producers:
        producer.purge()


def _orders(session: Session) -> None:
    session.create("orders", 2)
    session.send("orders", 1200, partitions=2)


def _codecs(session: Session) -> None:
    for codec in CODECS[1:]:
        session.create(f"codec-{codec}")  # framed by librdkafka
        session.send(f"codec-{codec}", 300, codec=codec)
        session.create(f"recoded-{codec}", compression_type=codec)  # framed by the JVM
        session.send(f"recoded-{codec}", 300)
    session.create("mixed.codecs_in-one-7")
    for codec in CODECS * 2:
        session.send("mixed.codecs_in-one-7", 40, codec=codec)


def _odd(session: Session) -> None:
    session.create("weird", internal_segment_bytes=8_000_000)
    session.create(LONG_NAME)
    session.send(LONG_NAME, 5)
    for codec in ("none", "lz4", "zstd"):
        sender = clients.producer(session.bootstrap, compression_type=codec)
        for value in (*ODD_BYTES, b"x" * 300_000):
            for key in session.random.sample(ODD_BYTES, 3):
                stamp = START + session.random.randrange(DAY)
                headers: list[Any] = [("odd", session.random.choice(ODD_BYTES))]
                sender.produce("weird", key=key, value=value, timestamp=stamp, headers=headers)
            sender.flush()


def _append_time(session: Session) -> None:
    session.create("append-time", message_timestamp_type="LogAppendTime")
    session.send("append-time", 200)
    session.send("append-time", 200, codec="zstd")


def _disorder(session: Session) -> None:
    session.create("out-of-order")
    for _ in range(8):
        start = START - session.random.randrange(10**10)
        session.send(
            "out-of-order", 60, start=start, step=session.random.choice([-5000, 0, 1, 60_000])
        )


def _days(session: Session) -> None:
    """Three days of records, to cut periods from; compressed on one partition."""
    session.create("days", 2)
    session.send("days", 900, partitions=2, start=START, step=3 * DAY // 900)
    session.create("days-zstd")
    session.send("days-zstd", 600, codec="zstd", start=START, step=3 * DAY // 600)


def _empty(session: Session) -> None:
    session.create("empty", 2)


def _compacted(session: Session) -> None:
    session.create(
        "compacted", **{key.replace(".", "_"): value for key, value in COMPACTED.items()}
    )
    for codec in session.random.choices(("none", "zstd", "lz4"), k=5):
        session.keyed("compacted", 250, 120, codec)
        time.sleep(1.2)
    _end_compaction(session, "compacted")


def _end_compaction(session: Session, topic: str) -> None:
    """From now on the cleaner leaves the topic alone: what clients see stays what lies on disk."""
    clients.set_topic_config(session.bootstrap, topic, "max.compaction.lag.ms", 2**63 - 1)
    clients.set_topic_config(session.bootstrap, topic, "min.compaction.lag.ms", 10**12)
    time.sleep(2)


def _trimmed(session: Session) -> None:
    session.create("trimmed")
    session.send("trimmed", 600)
    clients.delete_records(session.bootstrap, "trimmed", 0, session.random.randrange(200, 500))


def _retained(session: Session) -> None:
    session.create("retained", retention_ms=20 * 365 * DAY)
    session.send("retained", 500, start=START - 700 * DAY)
    session.send("retained", 100, start=clients.now() - DAY)
    clients.set_topic_config(session.bootstrap, "retained", "retention.ms", 30 * DAY)
    with clients.Reader(session.bootstrap) as reader:
        while reader.bounds("retained", 0)[0] < 500:  # retention takes one segment after another
            time.sleep(0.2)


def _transactions(session: Session) -> None:
    """Committed, aborted and interleaved transactions, and one that stays open."""
    session.create("txn", 2)
    session.create("open-txn")
    producers = [_transactional(session, index) for index in range(3)]
    for number in range(18):
        active = session.random.sample(producers, 2)
        for producer in active:
            producer.begin_transaction()
        for _ in range(session.random.randrange(2, 12)):
            for producer in session.random.sample(active, session.random.randrange(1, 3)):
                _in_transaction(session, producer, "txn", number)
        for producer in active:
            producer.flush()
            end = (
                producer.abort_transaction
                if session.random.random() < 0.4
                else producer.commit_transaction
            )
            end(clients.ANSWER_SECONDS)
        session.send("txn", 3, partitions=2, start=clients.now(), step=1)
    session.send("open-txn", 30)
    producers[0].begin_transaction()
    for _ in range(10):
        _in_transaction(session, producers[0], "open-txn", 0)
    producers[0].flush()
    session.send("open-txn", 20)
    session.open_transactions = producers


def _transactional(session: Session, index: int) -> Producer:
    codec = CODECS[index % 2 * 4]
    producer = clients.producer(
        session.bootstrap,
        transactional_id=f"tx-{index}",
        transaction_timeout_ms=600_000,
        compression_type=codec,
    )
    producer.init_transactions(clients.ANSWER_SECONDS)
    return producer


def _in_transaction(session: Session, producer: Producer, topic: str, number: int) -> None:
    partition = session.random.randrange(2) if topic == "txn" else 0
    producer.produce(topic, session.order(number), f"r{number}", partition)
    if session.random.random() < 0.4:
        producer.flush()


def _groups(session: Session, groups: Iterable[int]) -> None:
    for group in groups:
        with clients.Group(session.bootstrap, f"billing-{group}") as member:
            member.read_and_commit("orders", 40)


def _doomed(session: Session) -> None:
    session.create("doomed")
    session.send("doomed", 20)
    clients.delete_topic(session.bootstrap, "doomed")


def _create_legacy(session: Session, topic: str, config: dict[str, object]) -> None:
    clients.create_topic(session.bootstrap, topic, 1, LEGACY_SMALL | config)


def _send_legacy(session: Session, topic: str, count: int, codec: str) -> None:
    sender = clients.producer(session.bootstrap, compression_type=codec)
    for index in range(count):
        key = session.random.choice([None, b"", b"key"])
        sender.produce(topic, session.order(index), key, timestamp=START - 5000 * DAY + index * 977)
        if index % 37 == 36:
            sender.flush()
    sender.flush()
