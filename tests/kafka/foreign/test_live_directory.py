"""A consumer of a directory that a broker writes, rolls, compacts and deletes in gets each record once and in order."""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.kafka import clients
from tests.kafka.broker import Broker, log_files
from tests.kafka.shapes import COMPACTED, SMALL
from tests.kafkafs.serve.serving import serving

COUNT, KEYS, SECONDS = 1000, 20, 60
TOPICS = {"rolled": SMALL, "deleted": SMALL, "compacted": SMALL | COMPACTED}
PADDING = b" " * 300


class Seen:
    """What a consumer has got: offset and number of each record by topic, and how long each took."""

    def __init__(self) -> None:
        self.records: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self.delays: list[float] = []

    def next_offset(self, topic: str) -> int:
        """The offset behind the last record of a topic."""
        records = self.records[topic]
        return records[-1][0] + 1 if records else 0


@contextmanager
def consuming(bootstrap: str) -> Iterator[Seen]:
    """A consumer in a thread, until the end of the block."""
    seen, is_over = Seen(), threading.Event()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "live", "check.crcs": True, "log_level": 0,
            "enable.auto.commit": False, "auto.offset.reset": "error",
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0) for topic in TOPICS])

    def read() -> None:
        while not is_over.is_set():
            for message in consumer.consume(1000, 0.1):
                assert message.error() is None, message.error()
                number, at = message.value().split()
                seen.records[message.topic()].append((message.offset(), int(number)))
                seen.delays.append(time.monotonic() - float(at))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()
        consumer.close()


def wait(is_done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not is_done():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_consumer_gets_each_record_once_and_in_order_while_the_broker_writes(
    tmp_path: Path, record_property: pytest.RecordPropertyRecorder
) -> None:
    with Broker(tmp_path / "home") as broker:
        for topic, config in TOPICS.items():
            clients.create_topic(broker.bootstrap, topic, 1, config)
        with serving(broker.log_dir, tmp_path) as served, consuming(served.bootstrap) as seen:
            sender = clients.producer(broker.bootstrap)
            for number in range(COUNT):
                for topic in TOPICS:
                    value = b"%d %f%s" % (number, time.monotonic(), PADDING)
                    sender.produce(topic, value, f"k{number % KEYS}".encode(), 0)
                if number % 10 == 9:
                    sender.flush()
                if number % 250 == 249:
                    wait(lambda n=number: seen.next_offset("deleted") > n, "records of deleted")  # type: ignore[misc]
                    clients.delete_records(broker.bootstrap, "deleted", 0, number - 5)
            sender.flush()
            wait(lambda: all(seen.next_offset(each) == COUNT for each in TOPICS), "the end")
            with clients.Reader(broker.bootstrap) as reader:
                start = reader.bounds("deleted", 0)[0]
                with clients.Reader(served.bootstrap) as ours:
                    wait(lambda: ours.bounds("deleted", 0)[0] == start, "the log start")
                left = {each.offset for each in reader.records("compacted", 0)}
        whole = [(number, number) for number in range(COUNT)]
        assert seen.records["rolled"] == whole
        assert seen.records["deleted"] == whole
        # A record may be compacted away before it is read; what stays was read, once and in order.
        compacted = [offset for offset, _ in seen.records["compacted"]]
        assert compacted == sorted(set(compacted))
        assert left <= set(compacted)
        assert start > COUNT // 2
        assert len(list(log_files(broker.log_dir / "rolled-0"))) > 5
        record_property("median delay in seconds", statistics.median(seen.delays))
        record_property("largest delay in seconds", max(seen.delays))
        print(
            f"delays: median {statistics.median(seen.delays):.2f} s, largest {max(seen.delays):.2f} s"
        )
