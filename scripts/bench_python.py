"""`scan()` beside a consumer that builds the same table, and `count()` beside a full read.

The consumer is confluent-kafka's: librdkafka reads and decodes in C, in threads of its own, and hands out batches of
10,000 messages. Its CPU time is this process's and the broker's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import bench_broker
import pyarrow as pa
from bench_broker import PARTITIONS, TOPICS, Topic
from bench_jvm import process_cpu
from bench_report import Report, Sample, timed
from confluent_kafka import Consumer, Message, TopicPartition

import kafkafs
from kafkafs.forms.arrow.arrow_columns import record_schema
from tests.kafka.broker import Broker

_BATCH = 10_000
_SECONDS = 10.0
_SCHEMA = record_schema(["key", "value", "topic", "partition", "offset", "timestamp"])


def run(report: Report, megabytes: int) -> None:
    """Make a table of all rows, and count them."""
    with bench_broker.started(megabytes) as broker:
        bench_broker.fill(broker, megabytes)
        with kafkafs.open(broker.log_dir) as source:
            for topic in TOPICS:
                _compare(report, source, broker, topic, topic.per_megabyte * megabytes)


def _compare(
    report: Report, source: kafkafs.OpenedSource, broker: Broker, topic: Topic, rows: int
) -> None:
    scan = source.scan(topic.name, columns=_SCHEMA.names)
    theirs = consumed(broker.bootstrap, topic.name, rows)
    ours = scan.to_arrow()
    if not _is_same(ours, theirs):
        raise RuntimeError(f"{topic.name}: the two tables differ")
    report.compare(
        *("python", f"{topic.name}, to_arrow()", rows / 1000, "krow/s"),
        lambda: timed(scan.to_arrow),
        partial(measured, partial(consumed, broker.bootstrap, topic.name, rows), broker.pid),
        target="wall 5",
    )
    report.compare(
        *("python", f"{topic.name}, count(checksums=False)", rows / 1000, "krow/s"),
        lambda: timed(partial(scan.count, checksums=False)),
        partial(measured, partial(consumed, broker.bootstrap, topic.name, rows), broker.pid),
        target="wall 100",
        note="the peer here: a full read by the consumer",
    )
    report.compare(
        *("python", f"{topic.name}, count() beside to_arrow()", rows / 1000, "krow/s"),
        lambda: timed(scan.count),
        lambda: timed(scan.to_arrow),
        note="the peer here: our own full read",
    )


def _is_same(ours: pa.Table, theirs: pa.Table) -> bool:
    order = [("partition", "ascending"), ("offset", "ascending")]
    return ours.sort_by(order).equals(theirs.sort_by(order))


def consumed(bootstrap: str, topic: str, rows: int) -> pa.Table:
    """The table of all records, as a program makes it that has a consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{os.getpid()}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "fetch.message.max.bytes": 8 << 20,
            "queued.max.messages.kbytes": 1 << 20,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        batches, count = [], 0
        while count < rows:
            messages = consumer.consume(_BATCH, _SECONDS)
            if not messages:
                raise RuntimeError(f"the broker gave {count} records of {rows}")
            batches.append(_batch(messages))
            count += len(messages)
        return pa.Table.from_batches(batches, _SCHEMA)
    finally:
        consumer.close()


def _batch(messages: list[Message]) -> pa.RecordBatch:
    columns = {
        "key": [each.key() for each in messages],
        "value": [each.value() for each in messages],
        "topic": [each.topic() for each in messages],
        "partition": [each.partition() for each in messages],
        "offset": [each.offset() for each in messages],
        "timestamp": [each.timestamp()[1] for each in messages],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def measured(action: Callable[[], object], broker: int) -> Sample:
    cpu, start = time.process_time() + process_cpu(broker), time.perf_counter()
    action()
    wall = time.perf_counter() - start
    return Sample(wall, max(time.process_time() + process_cpu(broker) - cpu, 1e-9))
