"""Foreign clients read from `kafkafs serve` what they read from the real broker, and are refused without a hang."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.fixtures_data import (
    WITH_TRUTH,
    TruthRecord,
    copy_of,
    log_dir,
    logs,
    truth_offsets,
    truth_partitions,
    truth_records,
)
from tests.kafka import jars
from tests.kafka.clients import NO_OFFSET, Reader
from tests.kafkafs.serve.serving import Served, serving

SECONDS = 20


@pytest.fixture(scope="module", params=WITH_TRUTH)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def served(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(log_dir(kind), tmp_path_factory.mktemp("log")) as found:
        yield found


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(log_dir("current"), tmp_path_factory.mktemp("log")) as found:
        yield found


def place_of(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def alike(record: TruthRecord) -> TruthRecord:
    """The record without what clients of older brokers are not told: the epoch, and a time of magic 0."""
    stamp = record.timestamp if record.timestamp_type else -1
    epoch = -1 if record.leader_epoch is None else record.leader_epoch
    return record.__class__(
        record.offset, record.timestamp_type, stamp, record.key, record.value, record.headers, epoch
    )


# librdkafka


@pytest.mark.parametrize("committed", [False, True], ids=["uncommitted", "committed"])
def test_librdkafka_reads_every_record_bound_and_time_as_from_the_broker(kind, served, committed):
    with Reader(served.bootstrap, committed=committed) as reader:
        for name in truth_partitions(kind):
            topic, number = place_of(name)
            known = truth_offsets(kind)[name]
            end = known["latest_committed" if committed else "latest"]
            assert reader.bounds(topic, number) == (known["earliest"], end), name
            got = list(map(alike, reader.records(topic, number)))
            assert got == list(map(alike, truth_records(kind, name, committed))), name
            for stamp, offset in known.get("for_times", {}).items():
                found = reader.offset_for_time(topic, number, int(stamp))
                if committed or offset == NO_OFFSET:  # librdkafka tells the end in place of none
                    continue
                assert found == offset, (name, stamp)


def consumed(served: Served, name: str, start: int, **settings: object) -> Iterator[object]:
    """Messages and errors of a partition from an offset on, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": served.bootstrap, "group.id": "test", "check.crcs": True,
            "enable.partition.eof": True, "enable.auto.commit": False, "log_level": 0, **settings,
        }
    )  # fmt: skip
    topic, number = place_of(name)
    try:
        consumer.assign([TopicPartition(topic, number, start)])
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None
            if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                return
            yield message.error() or message
    finally:
        consumer.close()


@pytest.mark.parametrize("start", [0, 1, 17, 333, 660])
def test_librdkafka_begins_at_any_offset_with_checksums_checked(current, start):
    settings = {"isolation.level": "read_committed"}
    got = [each.offset() for each in consumed(current, "txn-0", start, **settings)]
    assert got == [
        each.offset for each in truth_records("current", "txn-0", True) if each.offset >= start
    ]


def test_librdkafka_consumes_around_damage_that_is_skipped(tmp_path):
    copy = copy_of("current", tmp_path, ["orders-0"])
    path = copy / "orders-0" / logs("current", "orders-0")[0].name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    whole = [each.offset for each in truth_records("current", "orders-0")]
    with serving(copy, tmp_path, "--skip-damaged") as found:
        got = [each.offset() for each in consumed(found, "orders-0", 0)]
    lost = sorted(set(whole) - set(got))
    assert got == [each for each in whole if each not in lost]
    assert lost
    assert lost == list(range(lost[0], lost[-1] + 1))
    with serving(copy, tmp_path) as found:
        consumer = consumed(found, "orders-0", lost[0])
        error = next(consumer)
        consumer.close()
    assert isinstance(error, KafkaError)
    assert error.code() == KafkaError.INVALID_MSG


def test_a_producer_of_librdkafka_fails_at_once(current):
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": current.bootstrap, "log_level": 0})
    start = time.monotonic()
    # Partitions 1 and 2 of the topic are on no disk here: a producer waits for their leaders.
    producer.produce(
        "orders", b"value", partition=0, on_delivery=lambda error, _: errors.append(error)
    )
    while not errors and time.monotonic() - start < SECONDS:
        producer.poll(0.1)
    assert [error.code() for error in errors] == [KafkaError.POLICY_VIOLATION]
    assert time.monotonic() - start < SECONDS / 2


OPEN_SECONDS = 5


def requests(served: Served) -> int:
    """How many requests a server has answered."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkafs", "top", served.bootstrap, "--once", "--interval", "0.1", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sum(
        each["requests"] for each in json.loads(done.stdout)["statistics"]["operations"].values()
    )


@contextmanager
def few_requests(served: Served) -> Iterator[None]:
    """A refused client that stays open asks, after its first requests, not more than twice a second."""
    before, start = requests(served), time.monotonic()
    yield
    assert requests(served) - before <= 25 + 2 * (time.monotonic() - start)


def test_an_idempotent_producer_of_librdkafka_is_refused_and_then_quiet(current):
    errors: list[KafkaError] = []
    producer = Producer(
        {"bootstrap.servers": current.bootstrap, "log_level": 0, "enable.idempotence": True}
    )
    with few_requests(current):
        start = time.monotonic()
        producer.produce(
            "orders", b"value", partition=0, on_delivery=lambda error, _: errors.append(error)
        )
        while not errors and time.monotonic() - start < SECONDS:
            producer.poll(0.1)
        producer.poll(OPEN_SECONDS)
    assert [error.code() for error in errors] == [KafkaError.POLICY_VIOLATION]


@pytest.mark.parametrize("version", [jars.CURRENT, jars.LEGACY])
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("idempotent", "kafkafs serve is read-only"), ("transactional", "Transactional Id authorization failed")],
)  # fmt: skip
def test_a_java_producer_that_stays_open_is_refused_and_then_quiet(
    current, version, kind, sentence
):
    """Without an id, idempotent ones of 3.9 to 4.4 asked for it a thousand times a second, as long as they lived."""
    source = Path(__file__).parent / "RefusedProducer.java"
    with few_requests(current):
        said = jars.run_java(version, str(source), current.bootstrap, kind, OPEN_SECONDS)
    assert sentence in said


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of kafka-python's imports
def test_producers_of_python_are_refused_and_then_quiet(current):
    import kafka

    with few_requests(current):
        producer = kafka.KafkaProducer(bootstrap_servers=current.bootstrap, enable_idempotence=True)
        with pytest.raises(kafka.errors.PolicyViolationError, match="read-only"):
            producer.send("orders", b"value", partition=0).get(timeout=SECONDS)
        time.sleep(OPEN_SECONDS)
        producer.close(timeout=1)
    with few_requests(current):
        asyncio.run(refused_by_aiokafka(current.bootstrap))


async def refused_by_aiokafka(bootstrap: str) -> None:
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    await producer.start()
    try:
        with pytest.raises(aiokafka.errors.PolicyViolationError):
            await asyncio.wait_for(producer.send_and_wait("orders", b"value", partition=0), SECONDS)
        await asyncio.sleep(OPEN_SECONDS)
    finally:
        await producer.stop()


def test_a_transactional_producer_of_librdkafka_fails_at_once(current):
    producer = Producer(
        {"bootstrap.servers": current.bootstrap, "log_level": 0, "transactional.id": "x"}
    )
    start = time.monotonic()
    with pytest.raises(KafkaException):
        producer.init_transactions(SECONDS)
    assert time.monotonic() - start < SECONDS / 2


# Kafka's own tools


def tool(
    served: Served, name: str, *options: str, lines: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a tool of Kafka against the server."""
    command = [
        "java", jars.HEAP, "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp", f"{jars.jars()}/*", name, "--bootstrap-server", served.bootstrap, *options,
    ]  # fmt: skip
    return subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=120, check=False
    )


def test_kafka_get_offsets_prints_the_offsets_of_the_broker(current):
    for time_code, fact in (("-1", "latest"), ("-2", "earliest")):
        done = tool(current, "org.apache.kafka.tools.GetOffsetShell", "--time", time_code)
        got = dict(line.rpartition(":")[::2] for line in done.stdout.splitlines())
        known = truth_offsets("current")
        for name in truth_partitions("current"):
            topic, number = place_of(name)
            assert got[f"{topic}:{number}"] == str(known[name][fact]), name
        # The partitions that the source lacks are told at once: the client does not wait for a leader.
        assert "Skip getting offsets for topic-partition orders-1 due to error" in done.stderr


CONSUMED = ("txn-0", "compacted-0", "codec-zstd-0", "recoded-lz4-0", "trimmed-0", "weird-0")


@pytest.mark.parametrize("name", CONSUMED)
@pytest.mark.parametrize("committed", [False, True], ids=["uncommitted", "committed"])
def test_the_java_consumer_reads_every_record(current, name, committed):
    topic, number = place_of(name)
    want = truth_records("current", name, committed)
    properties = (
        "print.offset=true", "print.value=true", "print.key=false", "key.separator=,",
        "value.deserializer=org.apache.kafka.common.serialization.BytesDeserializer",
    )  # fmt: skip
    done = tool(
        current, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic,
        "--partition", str(number), "--offset", "earliest", "--max-messages", str(len(want)),
        "--timeout-ms", "20000", "--isolation-level", f"read_{'' if committed else 'un'}committed",
        *(part for each in properties for part in ("--formatter-property", each)),
    )  # fmt: skip
    assert f"Processed a total of {len(want)} messages" in done.stderr, done.stderr
    offsets = [
        int(part.split("\t")[0].split(":")[1].split(",")[0])
        for part in done.stdout.splitlines()
        if part.startswith("Offset:")
    ]
    assert offsets == [each.offset for each in want]


def test_kafka_topics_describes_ids_and_partitions(current):
    done = tool(
        current, "org.apache.kafka.tools.TopicCommand", "--describe", "--topic", "compacted"
    )
    metadata = (log_dir("current") / "compacted-0" / "partition.metadata").read_text()
    topic_id = metadata.split("topic_id: ")[1].strip()
    assert f"TopicId: {topic_id}" in done.stdout
    assert "cleanup.policy=compact" in done.stdout
    assert "Partition: 0\tLeader: 1" in done.stdout


def test_kafka_consumer_groups_describes_the_committed_offsets(current):
    done = tool(
        current, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe",
        "--group", "billing-0",
    )  # fmt: skip
    row = done.stdout.splitlines()[-1].split()
    assert row[:6] == ["billing-0", "orders", "0", "50", "1000", "950"], done.stderr


@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_the_java_producer_fails_with_a_clear_message(current, idempotent):
    start = time.monotonic()
    done = tool(
        current, "org.apache.kafka.tools.ConsoleProducer", "--topic", "orders",
        "--command-property", f"enable.idempotence={idempotent}", lines="value\n",
    )  # fmt: skip
    assert "kafkafs serve is read-only" in done.stderr + done.stdout
    assert time.monotonic() - start < 60
