"""Foreign clients log in to `kafkafs serve` over TLS, with the properties that it prints."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.fixtures_data import DATA, log_dir, truth_records
from tests.kafka import jars
from tests.kafkafs.serve.serving import Served, serving

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM)
NAME, PASSWORD = "alice", "s3cret: with, = and blanks"
TLS = DATA / "tls"
CERTIFICATE = ("--tls-cert", str(TLS / "server.pem"), "--tls-key", str(TLS / "server.key"))
SECONDS = 30


@pytest.fixture(scope="module")
def passwords(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("passwords") / "readers"
    path.write_text(f"{NAME}:{PASSWORD}\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture(scope="module")
def served(passwords: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    options = (*CERTIFICATE, "--password-file", passwords)
    with serving(log_dir("current"), tmp_path_factory.mktemp("log"), *options) as found:
        yield found


@pytest.fixture(scope="module")
def plaintext(passwords: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    options = ("--password-file", passwords)
    with serving(log_dir("current"), tmp_path_factory.mktemp("log"), *options) as found:
        yield found


def consumed(served: Served, **settings: object) -> list[int]:
    """The offsets of orders-0, as librdkafka reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": served.bootstrap, "group.id": "test", "check.crcs": True,
            "enable.auto.commit": False, "log_level": 0, **settings,
        }
    )  # fmt: skip
    try:
        consumer.list_topics(timeout=4)
        consumer.assign([TopicPartition("orders", 0, 0)])
        found: list[int] = []
        end = time.monotonic() + SECONDS
        while len(found) < len(truth_records("current", "orders-0")) and time.monotonic() < end:
            found += [each.offset() for each in consumer.consume(500, 1) if not each.error()]
        return found
    finally:
        consumer.close()


def offsets() -> list[int]:
    return [each.offset for each in truth_records("current", "orders-0")]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_over_tls_and_reads_every_record(served, mechanism):
    got = consumed(
        served,
        **{
            "security.protocol": "SASL_SSL", "ssl.ca.location": str(TLS / "server.pem"),
            "sasl.mechanism": mechanism, "sasl.username": NAME, "sasl.password": PASSWORD,
        },
    )  # fmt: skip
    assert got == offsets()


@pytest.mark.parametrize("mechanism", SCRAM)
def test_librdkafka_logs_in_without_tls(plaintext, mechanism):
    login = {"sasl.mechanism": mechanism, "sasl.username": NAME, "sasl.password": PASSWORD}
    assert consumed(plaintext, **{"security.protocol": "SASL_PLAINTEXT"}, **login) == offsets()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_with_a_wrong_password_reads_nothing(served, mechanism):
    with pytest.raises(KafkaException):
        consumed(
            served,
            **{
                "security.protocol": "SASL_SSL", "ssl.ca.location": str(TLS / "server.pem"),
                "sasl.mechanism": mechanism, "sasl.username": NAME, "sasl.password": "guess",
            },
        )  # fmt: skip
    assert served.warned("login failed: ", "wrong name or password: 'alice'")


def java(served: Served, folder: Path, mechanism: str, password: str) -> str:
    """What Kafka's console consumer says of orders-0, with the properties that the server prints for clients."""
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    properties = folder / "client.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={TLS / 'server.pem'}\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{kind}LoginModule required "
        f'username="{NAME}" password="{password}";\n'
    )
    command = [
        "java", jars.HEAP, "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp", f"{jars.jars()}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server", served.bootstrap, "--command-config", str(properties), "--topic", "orders",
        "--partition", "0", "--offset", "earliest", "--max-messages", "1000", "--timeout-ms", "20000",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stderr


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_java_consumer_logs_in_over_tls(served, tmp_path, mechanism):
    assert "Processed a total of 1000 messages" in java(served, tmp_path, mechanism, PASSWORD)


def test_the_java_consumer_with_a_wrong_password_says_so(served, tmp_path):
    told = java(served, tmp_path, "SCRAM-SHA-512", "guess")
    assert "Authentication failed with SASL mechanism SCRAM-SHA-512: invalid credentials" in told
    assert "Processed a total of 0 messages" in told


@pytest.mark.parametrize("topic", ["v0-none", "v0-lz4", "v1-gzip", "v1-append-time", "upgraded"])
@pytest.mark.parametrize("formats", ["as-is", "convert"])
def test_librdkafka_reads_old_formats_as_they_are_and_converted(tmp_path, topic, formats):
    wanted = truth_records("legacy", f"{topic}-0")
    with serving(log_dir("legacy"), tmp_path, "--old-formats", formats) as found:
        consumer = Consumer(
            {"bootstrap.servers": found.bootstrap, "group.id": "test", "check.crcs": True}
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        got: list[tuple[int, bytes | None, bytes | None]] = []
        end = time.monotonic() + SECONDS
        while len(got) < len(wanted) and time.monotonic() < end:
            for each in consumer.consume(500, 1):
                assert each.error() is None
                got.append((each.offset(), each.key(), each.value()))
        consumer.close()
    assert got == [(each.offset, each.key, each.value) for each in wanted]
