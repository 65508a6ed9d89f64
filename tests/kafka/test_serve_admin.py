"""Kafka's own admin tools tell of `kafkafs serve` what they tell of a real broker on the same directory.

All tools run in one JVM, one after the other. Where a tool hangs, so does the test.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkafs.serve.handlers.refused import READ_ONLY
from tests.fixtures_data import log_dir
from tests.kafka import jars
from tests.kafka.broker import Broker
from tests.kafka.clients import Reader
from tests.kafka.judge import Judge
from tests.kafkafs.serve.serving import Served, serving
from tests.kafkafs.serve.three_brokers import write_source

TOOLS = Path(__file__).parent / "judge" / "Tools.java"
PACKAGE = "org.apache.kafka.tools."
IN_TOOLS = jars.release(jars.CURRENT) >= (4, 4)
CLASSES = {
    "kafka-acls": f"{PACKAGE}AclCommand",
    "kafka-client-metrics": f"{PACKAGE}ClientMetricsCommand",
    "kafka-cluster": f"{PACKAGE}ClusterTool",
    "kafka-configs": f"{PACKAGE}ConfigCommand" if IN_TOOLS else "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": f"{PACKAGE}consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": f"{PACKAGE}DeleteRecordsCommand",
    "kafka-features": f"{PACKAGE}FeatureCommand",
    "kafka-get-offsets": f"{PACKAGE}GetOffsetShell",
    "kafka-groups": f"{PACKAGE}GroupsCommand",
    "kafka-leader-election": f"{PACKAGE}LeaderElectionCommand",
    "kafka-log-dirs": f"{PACKAGE}LogDirsCommand",
    "kafka-metadata-quorum": f"{PACKAGE}MetadataQuorumCommand",
    "kafka-producer-perf-test": f"{PACKAGE}ProducerPerformance",
    "kafka-reassign-partitions": f"{PACKAGE}reassign.ReassignPartitionsCommand",
    "kafka-share-groups": f"{PACKAGE}consumer.group.ShareGroupCommand",
    "kafka-streams-groups": f"{PACKAGE}streams.StreamsGroupCommand",
    "kafka-topics": f"{PACKAGE}TopicCommand",
    "kafka-transactions": f"{PACKAGE}TransactionsCommand",
}
SECONDS = 20


class Tools(Judge):
    """Runs tools."""

    def run(self, bootstrap: str, line: str) -> tuple[int, str]:
        """The exit status of a tool and what it printed, with the address of the server as ADDRESS."""
        name, *arguments = line.split()
        last = ["--bootstrap-server", bootstrap]
        arguments = [*arguments, *last] if name == "kafka-cluster" else [*last, *arguments]
        answer = self.ask("run", **{"class": CLASSES[name], "arguments": arguments, "input": ""})
        text = answer["out"] + answer["err"]
        return answer["status"], text.replace(bootstrap, "ADDRESS")


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools(source=TOOLS) as found:
        yield found


class Told(NamedTuple):
    """What tools print of a broker, by command line, and the log dir after its clean stop."""

    texts: Mapping[str, tuple[int, str]]
    log_dir: Path


@pytest.fixture(scope="module")
def told(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Told:
    home = tmp_path_factory.mktemp("broker")
    shutil.copytree(log_dir("current"), home / "data", copy_function=shutil.copyfile)
    for path in (home / "data", *(home / "data").iterdir()):
        if path.is_dir():
            path.chmod(0o755)
    soon = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
    with Broker(home, settings=soon) as broker:
        # It ends the open transaction of the directory, whose time is over.
        while "CompleteAbort" not in tools.run(broker.bootstrap, OPEN)[1]:
            time.sleep(0.2)
        texts = {line: tools.run(broker.bootstrap, line) for line in (*ALIKE, *PARTS)}
    return Told(texts, broker.log_dir)


@pytest.fixture(scope="module")
def stopped(told: Told, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server over the log dir of the stopped broker."""
    with serving(told.log_dir, tmp_path_factory.mktemp("log")) as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(log_dir("current"), tmp_path_factory.mktemp("log")) as found:
        yield found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(log_dir("current"), tmp_path_factory.mktemp("log"), "--nodes") as found:
        yield found


def lines_of(text: str) -> list[str]:
    """The lines in no order, with single spaces, without the age of a transaction."""
    shown = (re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines())
    return sorted(re.sub(r"(\b\d{13}) \d+", r"\1", line) for line in shown if line)


# What is told


ALIKE = [
    "kafka-topics --list",
    "kafka-topics --list --exclude-internal",
    "kafka-topics --describe --unavailable-partitions",
    "kafka-consumer-groups --list",
    "kafka-consumer-groups --list --state",
    "kafka-consumer-groups --list --type classic",
    "kafka-consumer-groups --describe --all-groups",
    "kafka-consumer-groups --describe --all-groups --state",
    "kafka-consumer-groups --describe --all-groups --members",
    "kafka-groups --list",
    "kafka-get-offsets",
    "kafka-get-offsets --time earliest",
    "kafka-get-offsets --time max-timestamp --topic-partitions orders,weird:0",
    "kafka-transactions list",
    "kafka-transactions describe --transactional-id tx-1",
    "kafka-transactions describe --transactional-id nope",
    "kafka-transactions describe-producers --topic orders --partition 0",
    "kafka-transactions describe-producers --topic open-txn --partition 0",
    "kafka-transactions find-hanging --topic orders",
    "kafka-configs --describe --entity-type client-metrics",
    "kafka-configs --describe --entity-type users",
    "kafka-client-metrics --list",
    "kafka-cluster cluster-id",
    "kafka-reassign-partitions --list",
    "kafka-share-groups --list",
    "kafka-share-groups --describe --all-groups",
    "kafka-streams-groups --list",
]
OPEN = "kafka-transactions describe --transactional-id tx-0"
TOPICS = "kafka-topics --describe"
LOG_DIRS = "kafka-log-dirs --describe"
FEATURES = "kafka-features describe"
QUORUM = "kafka-metadata-quorum describe --status"
SETTINGS = "kafka-configs --describe --entity-type topics --entity-name compacted"
ALL_SETTINGS = f"{SETTINGS} --all"
BROKERS_SETTINGS = "kafka-configs --describe --entity-type brokers --entity-default"
PARTS = [TOPICS, LOG_DIRS, FEATURES, QUORUM, SETTINGS, ALL_SETTINGS, BROKERS_SETTINGS]
"""Command lines of which a part is compared."""


@pytest.mark.parametrize("line", ALIKE)
def test_a_tool_prints_what_it_printed_of_the_broker(tools, stopped, told, line):
    status, text = tools.run(stopped.bootstrap, line)
    assert lines_of(text) == lines_of(told.texts[line][1])
    assert status == told.texts[line][0]


IN_FILE = re.compile(r"STATIC_BROKER_CONFIG:[^,}]*(, )?")


def settings_of(text: str, broker: str) -> list[str]:
    """The settings with their sources, without values that the broker has from its properties file."""
    in_file = {line.split("=")[0] for line in lines_of(broker) if IN_FILE.search(line)}
    in_file.add("retention.ms")  # from log.retention.hours, which the tool does not show
    found = []
    for line in lines_of(text):
        name, _, rest = line.partition("=")
        kept = f"{name} {rest.partition(' ')[2]}" if name in in_file else line
        found.append(IN_FILE.sub("", kept))
    return found


def parts_of(line: str, text: str, broker: str) -> object:
    """What of a tool's text does not come from the broker's properties file or its run."""
    if line == TOPICS:
        return lines_of(re.sub(r"Configs:.*", "", text))
    if line == FEATURES:
        return lines_of(re.sub(r"Epoch: \d+", "", text))
    if line == QUORUM:
        stay = ("ClusterId", "LeaderId", "MaxFollowerLag:", "CurrentObservers")
        return [each for each in lines_of(text) if each.startswith(stay)]
    if line in (SETTINGS, ALL_SETTINGS, BROKERS_SETTINGS):
        return settings_of(text, broker)
    told = json.loads(next(each for each in text.splitlines() if each.startswith("{")))
    [log_dirs] = [each["logDirs"] for each in told["brokers"]]
    return sorted((each["partition"], each["size"], each["isFuture"]) for each in log_dirs[0]["partitions"])  # fmt: skip


@pytest.mark.parametrize("line", PARTS)
def test_a_part_of_what_a_tool_prints_is_that_of_the_broker(tools, stopped, told, line):
    theirs = told.texts[line][1]
    found = parts_of(line, tools.run(stopped.bootstrap, line)[1], theirs)
    assert found == parts_of(line, theirs, theirs)
    assert found


def test_an_open_transaction_and_its_producer_are_as_the_last_record_left_them(tools, served):
    _, text = tools.run(served.bootstrap, OPEN)
    assert "Ongoing" in text
    assert "open-txn-0" in text
    _, text = tools.run(served.bootstrap, "kafka-transactions describe-producers --topic open-txn --partition 0")  # fmt: skip
    assert text.splitlines()[-1].split() == ["0", "0", "-1", "19", "1700000100019", "50"]


def test_acls_are_listed(tools, served):
    status, text = tools.run(served.bootstrap, "kafka-acls --list")
    assert (status, text.strip()) == (0, "")


def test_nodes_and_eligible_leaders_are_those_of_the_metadata(tools, nodes):
    _, text = tools.run(nodes.bootstrap, "kafka-topics --describe --topic orders")
    rows = [line.split() for line in text.splitlines() if "Partition:" in line]
    leaders = [row[row.index("Leader:") + 1] for row in rows]
    assert leaders == ["1", "none", "none"]  # the source has one of three logs
    assert [row[row.index("Elr:") + 1] for row in rows] == ["1", "1", "1"]
    _, text = tools.run(nodes.bootstrap, "kafka-cluster list-endpoints --include-fenced-brokers")
    assert text.splitlines()[-1].split()[-2:] == ["fenced", "broker"]


def test_clients_read_from_brokers_that_are_all_this_server(tools, tmp_path):
    with serving(write_source(tmp_path), tmp_path, "--nodes") as three:
        _, text = tools.run(three.bootstrap, "kafka-topics --describe --topic here")
        rows = [line.split() for line in text.splitlines() if "Partition:" in line]
        assert [row[row.index("Leader:") + 1] for row in rows] == ["1", "none", "1", "2"]
        assert [row[row.index("Replicas:") + 1] for row in rows] == ["1,2", "1,2,3", "1,2", "1,2"]
        _, text = tools.run(three.bootstrap, "kafka-get-offsets --topic here")
        assert [line for line in text.splitlines() if line.startswith("here:")] == ["here:0:1", "here:2:1", "here:3:1"]  # fmt: skip
        with Reader(three.bootstrap, committed=False) as reader:
            for number in (0, 2, 3):
                assert [each.value for each in reader.records("here", number)] == [b"v"]


# What is refused


REFUSED = [
    ("kafka-topics --create --topic new --partitions 2", READ_ONLY),
    ("kafka-topics --delete --topic orders", READ_ONLY),
    ("kafka-topics --alter --topic orders --partitions 9", READ_ONLY),
    ("kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=1", READ_ONLY),
    ("kafka-configs --alter --entity-type users --entity-name bob --add-config SCRAM-SHA-256=[password=x]", READ_ONLY),
    ("kafka-configs --alter --entity-type users --entity-name bob --add-config producer_byte_rate=1", READ_ONLY),
    ("kafka-acls --add --allow-principal User:bob --operation Read --topic orders", READ_ONLY),
    ("kafka-acls --remove --force --allow-principal User:bob --operation Read --topic orders", READ_ONLY),
    ("kafka-features upgrade --feature group.version=1", READ_ONLY),
    ("kafka-cluster unregister --id 1", READ_ONLY),
    ("kafka-client-metrics --alter --name x --metrics a.b --interval 1000", READ_ONLY),
    ("kafka-leader-election --election-type preferred --all-topic-partitions", "not authorized"),
    ("kafka-consumer-groups --delete --group billing-0", "Group authorization failed"),
    ("kafka-consumer-groups --delete-offsets --group billing-0 --topic orders", "Group authorization failed"),
    ("kafka-transactions abort --topic open-txn --partition 0 --start-offset 50", "authorization"),
    ("kafka-producer-perf-test --topic orders --num-records 1 --record-size 9 --throughput -1 --transactional-id t", "authorization"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "sentence"), REFUSED)
def test_a_tool_that_writes_ends_with_a_sentence(tools, served, line, sentence):
    _, text = tools.run(served.bootstrap, line)
    assert sentence.lower() in text.lower()


def test_records_are_not_deleted(tools, served, tmp_path):
    path = tmp_path / "records.json"
    path.write_text('{"partitions":[{"topic":"orders","partition":0,"offset":3}],"version":1}')
    _, text = tools.run(served.bootstrap, f"kafka-delete-records --offset-json-file {path}")
    assert "Topic authorization failed" in text


# librdkafka


@pytest.fixture(scope="module")
def admin(served: Served) -> AdminClient:
    return AdminClient({"bootstrap.servers": served.bootstrap, "log_level": 0})


TOPIC = ConfigResource(ResourceType.TOPIC, "orders")
ACL = ("User:bob", "*", AclOperation.READ, AclPermissionType.ALLOW)
REQUESTS = {
    "create topics": (lambda admin: admin.create_topics([NewTopic("new", 1, 1)]), READ_ONLY),
    "delete topics": (lambda admin: admin.delete_topics(["orders"]), "policy violation"),
    "create partitions": (lambda admin: admin.create_partitions([NewPartitions("orders", 9)]), READ_ONLY),
    "alter configs": (
        lambda admin: admin.incremental_alter_configs([
            ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[
                ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)])]),
        READ_ONLY,
    ),
    "create ACLs": (
        lambda admin: admin.create_acls([AclBinding(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, *ACL)]),
        READ_ONLY,
    ),
    "delete ACLs": (
        lambda admin: admin.delete_acls([AclBindingFilter(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, *ACL)]),
        READ_ONLY,
    ),
    "alter credentials": (
        lambda admin: admin.alter_user_scram_credentials([
            UserScramCredentialUpsertion("bob", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"pass")]),
        READ_ONLY,
    ),
    "delete records": (lambda admin: admin.delete_records([TopicPartition("orders", 0, 3)]), "authorization"),
    "delete groups": (lambda admin: admin.delete_consumer_groups(["billing-0"]), "authorization"),
}  # fmt: skip


@pytest.mark.parametrize("request_of", REQUESTS)
def test_a_request_of_librdkafka_that_writes_is_refused(admin, request_of):
    ask, sentence = REQUESTS[request_of]
    for future in ask(admin).values():
        with pytest.raises(KafkaException) as error:
            future.result(SECONDS)
        assert sentence.lower() in error.value.args[0].str().lower()


def test_librdkafka_describes_the_cluster(admin):
    cluster = admin.describe_cluster().result(SECONDS)
    assert [node.id for node in cluster.nodes] == [1]
    topics = admin.describe_topics(TopicCollection(["orders"]))
    assert len(topics["orders"].result(SECONDS).partitions) == 3
    settings = admin.describe_configs([TOPIC])[TOPIC].result(SECONDS)
    assert settings["segment.index.bytes"].value == "65536"
    found = admin.describe_acls(AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY))  # fmt: skip
    assert found.result(SECONDS) == []
    assert admin.describe_user_scram_credentials().result(SECONDS) == {}
