"""Consumers of other projects read what tasks ask for; each gives the records as the others do."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tests.fixtures_data import TruthRecord
from tests.kafka import jars

HERE = Path(__file__).parent
SECONDS = 60
UNKNOWN_EPOCH = -1


class Task(NamedTuple):
    """Records of a partition.

    Attributes:
        topic, partition: the partition.
        by_time: whether `start` is a time, not an offset.
        start: where to begin.
        end: the offset behind the last record, which the consumer must reach.
        count: number of records that there should be.
        committed: whether to read at isolation level read_committed.
    """

    topic: str
    partition: int
    by_time: bool
    start: int
    end: int
    count: int
    committed: bool

    @property
    def line(self) -> str:
        """The task for a program in another language."""
        kind, isolation = (
            "time" if self.by_time else "offset",
            "committed" if self.committed else "all",
        )
        words = (self.topic, self.partition, kind, self.start, self.end, self.count, isolation)
        return "\t".join(map(str, words)) + "\n"


Read: TypeAlias = Callable[[str, Sequence[Task]], list[list[TruthRecord]]]
"""Reads what tasks ask for, from the server with an address."""


def java(bootstrap: str, tasks: Sequence[Task]) -> list[list[TruthRecord]]:
    """Kafka's own consumer, with check.crcs."""
    command = jars.java_command(jars.CURRENT, str(HERE / "ReadTasks.java"))
    return _programs_answers([*command, bootstrap], tasks)


def franz_go(bootstrap: str, tasks: Sequence[Task]) -> list[list[TruthRecord]]:
    """The client for Go that checks every checksum."""
    return _programs_answers([str(_built()), bootstrap], tasks)


@cache
def _built() -> Path:
    program = jars.cache_folder() / "read_tasks_go"
    environment = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    go = shutil.which("go")
    assert go is not None, "go not found: apt-get install golang-go"
    jars.cache_folder().mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=HERE / "franz_go", env=os.environ | environment, check=True,
    )  # fmt: skip
    return program


def _programs_answers(command: list[str], tasks: Sequence[Task]) -> list[list[TruthRecord]]:
    asked = "".join(task.line for task in tasks)
    done = subprocess.run(
        command, input=asked, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[list[TruthRecord]] = [[]]
    for line in done.stdout.splitlines():
        if line == "end":
            found.append([])
        else:
            found[-1].append(_record(line))
    return found[:-1]


def _record(line: str) -> TruthRecord:
    offset, kind, stamp, key, value, headers, epoch = line.split("\t")
    pairs = (each.partition(":") for each in headers[1:].split(",") if each)
    return TruthRecord(
        int(offset),
        int(kind) + 1,
        int(stamp) if int(kind) >= 0 else -1,
        _bytes(key),
        _bytes(value),
        tuple((bytes.fromhex(name).decode(), _bytes(text)) for name, _, text in pairs),
        int(epoch),
    )


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)


def librdkafka(bootstrap: str, tasks: Sequence[Task]) -> list[list[TruthRecord]]:
    """librdkafka by way of confluent-kafka, with check.crcs."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    from tests.kafka.clients import record_of

    settings = {
        "bootstrap.servers": bootstrap, "group.id": "none", "check.crcs": True, "log_level": 0,
        "enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "error",
        "fetch.wait.max.ms": 5, "fetch.queue.backoff.ms": 5,
    }  # fmt: skip
    consumers = {
        committed: Consumer({**settings, "isolation.level": f"read_{level}"})
        for committed, level in ((False, "uncommitted"), (True, "committed"))
    }
    found = []
    for task in tasks:
        consumer = consumers[task.committed]
        place = TopicPartition(task.topic, task.partition, task.start)
        if task.by_time:
            (place,) = consumer.offsets_for_times([place], timeout=SECONDS)
        consumer.assign([place])
        records: list[TruthRecord] = []
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None, task
            error = message.error()
            if error is None:
                records.append(record_of(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                break
            else:
                raise AssertionError((task, error))
        consumer.unassign()
        found.append(records)
    for consumer in consumers.values():
        consumer.close()
    return found


def kafka_python(bootstrap: str, tasks: Sequence[Task]) -> list[list[TruthRecord]]:
    """kafka-python, with check_crcs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how it reads its schemas
        from kafka import KafkaConsumer, TopicPartition

    settings = {
        "bootstrap_servers": bootstrap, "check_crcs": True, "enable_auto_commit": False,
        "auto_offset_reset": "none", "fetch_max_wait_ms": 5,
    }  # fmt: skip
    consumers = {
        committed: KafkaConsumer(**settings, isolation_level=f"read_{level}")
        for committed, level in ((False, "uncommitted"), (True, "committed"))
    }
    found = []
    for task in tasks:
        consumer = consumers[task.committed]
        place = TopicPartition(task.topic, task.partition)
        consumer.assign([place])
        start = task.start
        if task.by_time:
            at = consumer.offsets_for_times({place: start})[place]
            start = task.end if at is None else at.offset
        consumer.seek(place, start)
        records: list[TruthRecord] = []
        while consumer.position(place) < task.end:
            for batch in consumer.poll(timeout_ms=200).values():
                records += map(_python_record, batch)
        found.append(records)
    for consumer in consumers.values():
        consumer.close()
    return found


def aiokafka(bootstrap: str, tasks: Sequence[Task]) -> list[list[TruthRecord]]:
    """aiokafka, with check_crcs."""
    return asyncio.run(_aiokafka(bootstrap, tasks))


async def _aiokafka(bootstrap: str, tasks: Iterable[Task]) -> list[list[TruthRecord]]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    settings = {
        "bootstrap_servers": bootstrap, "check_crcs": True, "enable_auto_commit": False,
        "auto_offset_reset": "none", "fetch_max_wait_ms": 5,
    }  # fmt: skip
    consumers = {
        committed: AIOKafkaConsumer(**settings, isolation_level=f"read_{level}")
        for committed, level in ((False, "uncommitted"), (True, "committed"))
    }
    for consumer in consumers.values():
        await consumer.start()
    found = []
    for task in tasks:
        consumer = consumers[task.committed]
        place = TopicPartition(task.topic, task.partition)
        consumer.assign([place])
        start = task.start
        if task.by_time:
            at = (await consumer.offsets_for_times({place: start}))[place]
            start = task.end if at is None else at.offset
        consumer.seek(place, start)
        records: list[TruthRecord] = []
        while await consumer.position(place) < task.end:
            for batch in (await consumer.getmany(place, timeout_ms=200)).values():
                records += map(_python_record, batch)
        found.append(records)
    for consumer in consumers.values():
        await consumer.stop()
    return found


def _python_record(record: Any) -> TruthRecord:
    kind = record.timestamp_type
    has_time = kind is not None and kind >= 0
    epoch = getattr(record, "leader_epoch", None)
    return TruthRecord(
        record.offset,
        kind + 1 if has_time else 0,
        record.timestamp if has_time else -1,
        record.key,
        record.value,
        tuple((name, value) for name, value in record.headers or ()),
        UNKNOWN_EPOCH if epoch is None else epoch,
    )


READERS: Mapping[str, Read] = {
    "java": java,
    "librdkafka": librdkafka,
    "franz-go": franz_go,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}
CANNOT_READ = {
    (client, topic)
    for client in ("aiokafka", "franz-go")
    for topic in ("v0-lz4", "v0-recoded-lz4", "upgraded")
} | {("franz-go", "v1-compacted")}
"""What a client cannot read as it lies on disk, which is what a broker sends, too.

The first brokers wrote LZ4 frames with a wrong checksum; franz-go takes wrong offsets for compacted, compressed
batches of magic 1.
"""
TELL_EPOCHS = ("java", "librdkafka", "franz-go")
"""Those that hand out the leader epoch of a record."""
