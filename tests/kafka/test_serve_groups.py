"""Consumers with a group run unmodified against `kafkafs serve`: they share partitions, take over, commit, start again."""

from __future__ import annotations

import subprocess
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.fixtures_data import log_dir, truth_offsets, truth_records
from tests.kafka import jars
from tests.kafkafs.serve.serving import Served, serving

SECONDS = 30
HERE = Path(__file__).parent
CODECS = ("codec-gzip", "codec-lz4", "codec-snappy", "codec-zstd")
"""Topics of one partition."""
OLD_TOPICS = ("v2-gzip", "v2-lz4", "v2-none", "v2-snappy")
"""Topics of one partition without partition.metadata."""
TOPICS = ["^codec-.*", "txn"]
PARTITIONS = 5
PROTOCOLS = {
    "range": {"group.protocol": "classic", "partition.assignment.strategy": "range"},
    "roundrobin": {"group.protocol": "classic", "partition.assignment.strategy": "roundrobin"},
    "cooperative": {"group.protocol": "classic", "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
    "consumer-range": {"group.protocol": "consumer", "group.remote.assignor": "range"},
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(log_dir("current"), tmp_path_factory.mktemp("log")) as found:
        yield found


class Member:
    """A consumer of librdkafka with a group."""

    def __init__(
        self, served: Served, group: str, protocol: str, topics: list[str], **settings: object
    ) -> None:
        settings = {
            "bootstrap.servers": served.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0,
            "enable.partition.eof": True, **PROTOCOLS[protocol], **settings,
        }  # fmt: skip
        if settings["group.protocol"] == "classic":
            settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
        self.consumer = Consumer(settings)
        self.consumer.subscribe(topics)
        self.read: list[Message] = []

    def poll(self) -> None:
        """Let the consumer work, and keep what it reads."""
        message = self.consumer.poll(0.05)
        if message is None or (
            message.error() and message.error().code() == KafkaError._PARTITION_EOF
        ):
            return
        assert not message.error(), message.error()
        self.read.append(message)

    @property
    def partitions(self) -> set[tuple[str, int]]:
        """The partitions that the consumer has."""
        return {(each.topic, each.partition) for each in self.consumer.assignment()}


def until(condition: Callable[[], bool], *members: Member) -> None:
    """Let members work until something is so."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, [each.partitions for each in members]
        for member in members:
            member.poll()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_consumers_share_the_partitions_and_one_takes_over(served, protocol):
    first = Member(served, f"pair-{protocol}", protocol, TOPICS)
    until(lambda: len(first.partitions) == PARTITIONS, first)
    whole = first.partitions
    second = Member(served, f"pair-{protocol}", protocol, [*TOPICS, "orders"])
    # The topic with one served partition, and two that the source lacks, which no other member wants.
    both = lambda: len(first.partitions) + len(second.partitions) > PARTITIONS  # noqa: E731
    until(lambda: bool(second.partitions) and both(), first, second)
    assert not first.partitions & second.partitions
    assert first.partitions | second.partitions >= whole
    first.consumer.close()
    until(lambda: second.partitions >= whole, second)
    second.consumer.close()


@pytest.mark.parametrize("protocol", ["range", "roundrobin"])
def test_a_group_moves_to_the_new_protocol_and_back_with_its_members(served, protocol):
    old = Member(served, f"moving-{protocol}", protocol, TOPICS)
    until(lambda: len(old.partitions) == PARTITIONS, old)
    whole = old.partitions
    new = Member(served, f"moving-{protocol}", "consumer", TOPICS)
    until(lambda: bool(new.partitions) and old.partitions | new.partitions == whole, old, new)
    assert not old.partitions & new.partitions
    new.consumer.close()
    until(lambda: old.partitions == whole, old)
    new = Member(served, f"moving-{protocol}", "consumer", TOPICS)
    until(lambda: bool(new.partitions) and old.partitions | new.partitions == whole, old, new)
    old.consumer.close()
    until(lambda: new.partitions == whole, new)
    new.consumer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_reads_every_record_once_over_two_lives(served, protocol):
    group = f"lives-{protocol}"
    first = Member(served, group, protocol, ["codec-zstd"])
    until(lambda: len(first.read) >= 100, first)
    first.consumer.close()  # commits what was read
    last = first.read[-1].offset()
    second = Member(served, group, protocol, ["codec-zstd"])
    end = int(truth_offsets("current")["codec-zstd-0"]["latest"])
    until(lambda: bool(second.read) and second.read[-1].offset() == end - 1, second)
    assert second.read[0].offset() == last + 1
    second.consumer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_starts_at_the_offset_committed_on_disk(protocol, tmp_path):
    with serving(log_dir("current"), tmp_path) as served:
        member = Member(served, "billing-0", protocol, ["orders"])
        until(lambda: bool(member.read), member)
        assert (member.read[0].partition(), member.read[0].offset()) == (0, 50)
        member.consumer.close()
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        asked = ConsumerGroupTopicPartitions("billing-0", [TopicPartition("orders", 0)])
        found = admin.list_consumer_group_offsets([asked])["billing-0"].result(SECONDS)
        assert found.topic_partitions[0].offset == member.read[-1].offset() + 1


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_consumer_goes_on_after_a_restart_of_the_server_with_a_file_of_commits(
    protocol, tmp_path
):
    options = ("--commit-to", str(tmp_path / "commits"))
    with serving(log_dir("current"), tmp_path, *options) as served:
        first = Member(served, "kept", protocol, ["codec-zstd"])
        until(lambda: len(first.read) >= 100, first)
        first.consumer.close()
    with serving(log_dir("current"), tmp_path, *options) as served:
        second = Member(served, "kept", protocol, ["codec-zstd"])
        until(lambda: bool(second.read), second)
        assert second.read[0].offset() == first.read[-1].offset() + 1
        second.consumer.close()


@pytest.mark.parametrize(
    ("reset", "offset"), [("earliest", 0), ("latest", None), ("error", None)]
)  # fmt: skip
def test_a_new_group_starts_where_its_consumers_say(served, reset, offset):
    settings = {
        "bootstrap.servers": served.bootstrap, "group.id": f"reset-{reset}", "auto.offset.reset": reset,
        "enable.partition.eof": True, "log_level": 0,
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe(["codec-zstd"])
    message = consumer.poll(SECONDS)
    assert message is not None
    if reset == "earliest":
        assert message.offset() == offset
    elif reset == "latest":
        assert message.error().code() == KafkaError._PARTITION_EOF
    else:
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()


def tool(served: Served, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of Kafka against the server."""
    command = [
        "java", jars.HEAP, "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp", f"{jars.jars()}/*", name, "--bootstrap-server", served.bootstrap, *options,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def java_consumer(served: Served, group: str, protocol: str, count: int) -> list[int]:
    """The offsets that a console consumer with a group reads; it commits at its end."""
    done = tool(
        served, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", "codec-zstd", "--group", group,
        "--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000",
        "--formatter-property", "print.offset=true", "--formatter-property", "print.value=false",
        "--command-property", f"group.protocol={protocol}",
    )  # fmt: skip
    assert f"Processed a total of {count} messages" in done.stderr, done.stderr
    return [
        int(line.partition(":")[2])
        for line in done.stdout.splitlines()
        if line.startswith("Offset:")
    ]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_java_consumer_goes_on_where_the_last_one_of_its_group_ended(served, protocol):
    first = java_consumer(served, f"java-{protocol}", protocol, 10)
    second = java_consumer(served, f"java-{protocol}", protocol, 5)
    assert first == list(range(10))
    assert second == list(range(10, 15))


def offsets_of(topics: Iterable[str], kind: str = "current") -> list[tuple[str, int]]:
    """The topics and offsets of all records in topics of one partition."""
    return [
        (topic, record.offset)
        for topic in sorted(topics)
        for record in truth_records(kind, f"{topic}-0")
    ]


def read_by_a_java_pair(
    served: Served, protocol: str, topics: Iterable[str]
) -> list[tuple[str, int]]:
    """What two consumers read who share topics of one partition, until one leaves; sorted."""
    said = jars.run_java(
        jars.CURRENT, str(HERE / "GroupMembers.java"), served.bootstrap, f"java-pair-{protocol}", protocol, *topics
    )  # fmt: skip
    told: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for line in said.splitlines():
        what, topic, number = line.split()
        told[what].append((topic, int(number)))
    whole = {(topic, 0) for topic in topics}
    assert set(told["alone"]) == set(told["heir"]) == whole
    assert sorted(told["first"] + told["second"]) == sorted(whole)
    return sorted(told["record"])


def test_two_java_consumers_share_the_partitions_and_read_each_record_once(served):
    assert read_by_a_java_pair(served, "classic", CODECS) == offsets_of(CODECS)


def test_two_java_consumers_of_the_new_protocol_do_so_with_topics_without_ids_on_disk(tmp_path):
    with serving(log_dir("legacy"), tmp_path) as served:
        read = read_by_a_java_pair(served, "consumer", OLD_TOPICS)
    assert read == offsets_of(OLD_TOPICS, "legacy")


def test_two_consumers_of_kafka_python_share_the_partitions_and_read_each_record_once(served):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how it reads its schemas
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    settings = {
        "bootstrap_servers": served.bootstrap, "group_id": "python-pair", "auto_offset_reset": "earliest",
        "max_poll_records": 10, "heartbeat_interval_ms": 300,
        "partition_assignment_strategy": [RoundRobinPartitionAssignor],
    }  # fmt: skip
    members = [KafkaConsumer(*CODECS, **settings)]
    read: list[tuple[str, int]] = []

    def until_so(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, [each.assignment() for each in members]
            for member in members:
                for batch in member.poll(timeout_ms=50).values():
                    read.extend((each.topic, each.offset) for each in batch)

    def shares() -> list[int]:
        return [len(each.assignment()) for each in members]

    until_so(lambda: shares() == [len(CODECS)])
    members.append(KafkaConsumer(*CODECS, **settings))
    until_so(lambda: all(shares()) and sum(shares()) == len(CODECS))
    assert not members[0].assignment() & members[1].assignment()
    members.pop(0).close()
    until_so(lambda: shares() == [len(CODECS)] and len(read) >= len(offsets_of(CODECS)))
    members.pop().close()
    assert sorted(read) == offsets_of(CODECS)


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_kafka_consumer_groups_describes_members_and_lag(served, protocol):
    member = Member(served, f"seen-{protocol}", protocol, ["codec-zstd"])
    until(lambda: len(member.read) >= 10, member)
    member.consumer.commit(asynchronous=False)
    done = tool(
        served, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe", "--group",
        f"seen-{protocol}",
    )  # fmt: skip
    row = done.stdout.splitlines()[-1].split()
    end = int(truth_offsets("current")["codec-zstd-0"]["latest"])
    next_offset = member.read[-1].offset() + 1
    assert row[:6] == [
        f"seen-{protocol}", "codec-zstd", "0", str(next_offset), str(end), str(end - next_offset),
    ], done.stderr  # fmt: skip
    assert row[6:9] == [member.consumer.memberid(), "/127.0.0.1", "rdkafka"]
    member.consumer.close()


def test_kcat_joins_a_group(served):
    command = [
        "kcat",
        "-b",
        served.bootstrap,
        "-G",
        "kcat",
        "-X",
        "auto.offset.reset=earliest",
        "-e",
        "-f",
        "%o\n",
    ]
    done = subprocess.run(
        [*command, "codec-zstd"], capture_output=True, text=True, timeout=60, check=False
    )
    end = int(truth_offsets("current")["codec-zstd-0"]["latest"])
    assert list(map(int, done.stdout.split())) == list(range(end)), done.stderr
