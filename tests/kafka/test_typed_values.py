"""Types of keys and values are those of real clients: Kafka's serializers, a Kafka Streams application, MirrorMaker 2."""

from __future__ import annotations

import gzip
import json
import random
import struct
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cbor2
import msgpack
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer

from kafkafs.cli import cli
from kafkafs.schemas.topic_type import TopicType
from kafkafs.schemas.types.typed_field import key_bytes, typed_field
from tests.kafka import jars
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, now, producer
from tests.kafka.conftest import why_not

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

HARNESS = Path(__file__).with_name("TypedValues.java")
SECONDS = 120
MINUTE = 60_000
MAPPING = """
[topics.words]
value = { type = "int64" }
[topics.counts]
key = { type = "windowed/string" }
value = { type = "int64" }
[topics.sessions]
key = { type = "session/string" }
value = { type = "int64" }
[topics.counting-windows-changelog]
key = { type = "windowed-store/string" }
value = { type = "int64" }
[topics.counting-sessions-changelog]
key = { type = "session/string" }
value = { type = "int64" }
[topics.cbor]
key = { type = "int64" }
value = { type = "cbor" }
[topics.packed]
value = { type = "msgpack" }
[topics.zipped]
value = { type = "gzip/json" }
"""
MIRROR = """
clusters = a, b
a.bootstrap.servers = {0}
b.bootstrap.servers = {0}
a->b.enabled = true
a->b.topics = words
b->a.enabled = false
emit.checkpoints.interval.seconds = 1
emit.heartbeats.interval.seconds = 1
sync.topic.acls.enabled = false
offset.lag.max = 0
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""


def java(*arguments: str) -> list[str]:
    classes = f"{jars.mirror_jars()}/*:{jars.streams_jar()}"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ["java", jars.HEAP, "-XX:TieredStopAtLevel=1", quiet, "-cp", classes, *arguments]


def cases(random_: random.Random) -> Sequence[tuple[str, bool, Any]]:
    """Lines for the harness, whether they are about a key, and what is shown of the bytes."""
    start, end = random_.randrange(2**45), random_.randrange(2**62)
    number, few = random_.randrange(-(2**63), 2**63), random_.randrange(-(2**15), 2**15)
    real = struct.unpack(">f", struct.pack(">f", random_.uniform(-1e6, 1e6)))[0]
    name = str(uuid.UUID(int=random_.getrandbits(128)))
    group = random_.choice(["billing", "größer"])
    return [
        ("boolean true", False, True), ("boolean false", False, False), (f"int16 {few}", False, few),
        (f"int32 {few * 65537}", False, few * 65537), (f"int64 {number}", False, number),
        (f"float {real!r}", False, pytest.approx(real, rel=1e-6)), (f"double {real!r}", False, real),
        ("double NaN", False, "NaN"), ("float -Infinity", False, "-Infinity"), (f"uuid {name}", False, name),
        *((f"string Zürich {charset}", False, "Zürich") for charset in ("UTF-8", "UTF-16", "UTF-16LE", "ISO-8859-1", "IBM037")),
        (f"windowed {number} {start}", True, {"key": number, "start": start}),
        (f"windowed-store {group} {start} 3", True, {"key": group, "start": start, "sequence": 3}),
        (f"session {group} {start} {start + end % 1000}", True,
         {"key": group, "start": start, "end": start + end % 1000}),
        (f"mirror-checkpoint key {group} t 3 9 8 m", True, {"group": group, "topic": "t", "partition": 3}),
        (f"mirror-checkpoint value {group} t 3 {start} 8 m", False,
         {"version": 0, "upstreamOffset": start, "offset": 8, "metadata": "m"}),
        (f"mirror-heartbeat key a {group} 1", True, {"sourceClusterAlias": "a", "targetClusterAlias": group}),
        (f"mirror-heartbeat value a b {start}", False, {"version": 0, "timestamp": start}),
        (f"mirror-offset-sync key {group} {abs(few)} 9 8", True, {"topic": group, "partition": abs(few)}),
        (f"mirror-offset-sync value t 3 {start} 8", False, {"upstreamOffset": start, "offset": 8}),
    ]  # fmt: skip


INNER = {"windowed": "/int64", "windowed-store": "/string", "session": "/string"}
CHARSETS = {"IBM037": "cp037"}


def test_the_bytes_of_kafkas_own_serializers_are_read() -> None:
    wanted = [each for seed in range(30) for each in cases(random.Random(seed))]
    lines = "".join(f"{line}\n" for line, *_ in wanted)
    done = subprocess.run(
        java(str(HARNESS), "bytes"), input=lines.encode(), capture_output=True, check=True
    )
    for (line, is_key, value), found in zip(wanted, done.stdout.decode().split(), strict=True):
        name, text, *more = line.split()
        charset = CHARSETS.get(more[0], more[0]) if name == "string" else None
        kind = TopicType.parse(name + INNER.get(name, ""), charset)
        data = bytes.fromhex(found)
        field = typed_field(data, kind, lambda _: None, is_key=is_key)
        assert field.text is not None, (line, field.note)
        assert json.loads(field.text) == value, line
        if name.startswith("int"):
            assert key_bytes(text, kind) == data


def kafkafs(*arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(cli, list(arguments))
    is_made = "no partition matches" not in done.output and "has no topic" not in done.output
    assert done.exit_code in (0, 1) or not is_made, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def awaited(ask: Callable[[], list[dict[str, Any]]], logs: Sequence[Path]) -> dict[str, Any]:
    """The last line of the first answer that has one."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = ask()
        if found:
            return found[-1]
        time.sleep(0.5)
    raise AssertionError("\n".join(log.read_text()[-2000:] for log in logs))


@pytest.mark.timeout(600)
def test_topics_of_streams_and_of_mirror_maker_are_read_while_they_are_written(
    tmp_path: Path,
) -> None:
    types = tmp_path / "types.toml"
    types.write_text(MAPPING)
    document = {"id": 7, "city": "Zürich"}
    start = now() // MINUTE * MINUTE  # retention would take older windows out of a changelog
    with Broker(tmp_path / "broker") as broker:
        for topic in ("words", "counts", "sessions", "cbor", "packed", "zipped"):
            create_topic(broker.bootstrap, topic)
        writer = producer(broker.bootstrap)
        for word, after in (("alice", 0), ("alice", 1000), ("bob", 2000)):
            writer.produce("words", struct.pack(">q", after), word, timestamp=start + after)
        writer.produce("cbor", cbor2.dumps(document), struct.pack(">q", 42))
        writer.produce("packed", msgpack.packb(document), "k")
        writer.produce("zipped", gzip.compress(json.dumps(document).encode()), "k")
        writer.flush()
        group = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
            }
        )
        group.subscribe(["words"])
        group.consume(3, SECONDS)
        group.commit(asynchronous=False)
        group.close()
        (tmp_path / "mm2.properties").write_text(MIRROR.format(broker.bootstrap))
        commands = {
            "streams": java(str(HARNESS), "streams", broker.bootstrap),
            "mm2": java(
                "org.apache.kafka.connect.mirror.MirrorMaker", str(tmp_path / "mm2.properties")
            ),
        }
        logs = [tmp_path / f"{name}.log" for name in commands]
        running = []
        try:
            for log, command in zip(logs, commands.values(), strict=True):
                with log.open("w") as out:
                    running.append(
                        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)
                    )
            data, given = str(broker.log_dir), ["--schemas", str(types)]

            def get(topic: str, key: object) -> dict[str, Any]:
                text = key if isinstance(key, str) else json.dumps(key)
                return awaited(lambda: kafkafs("get", data, topic, text, *given), logs)

            def where(topic: str, condition: str) -> dict[str, Any]:
                asked = ("grep", "--where", condition, data, "--topic", topic, *given)
                return awaited(lambda: kafkafs(*asked), logs)

            window = {"key": "alice", "start": start}
            assert where("counts", ".value == 2")["key"] == window
            assert get("counts", window)["value"] == 2
            stored = {**window, "sequence": 0}
            found = where("counting-windows-changelog", '.key.key == "alice"')
            assert found["key"] == stored
            assert get("counting-windows-changelog", stored)["value"] == found["value"]
            session = {"key": "alice", "start": start, "end": start + 1000}
            assert get("sessions", session)["value"] == 2
            assert get("counting-sessions-changelog", session)["value"] == 2
            sync = where("mm2-offset-syncs.b.internal", '.key.topic == "words"')
            assert sync["key"] == {"topic": "words", "partition": 0}
            assert sync["valueEncoding"] == "mirror-offset-sync"
            assert sync["value"]["upstreamOffset"] <= 3
            checkpoint = where("a.checkpoints.internal", '.key.group == "g"')
            assert checkpoint["key"] == {"group": "g", "topic": "a.words", "partition": 0}
            assert checkpoint["value"]["version"] == 0
            assert checkpoint["value"]["upstreamOffset"] == 3
            beat = where("heartbeats", ".value.timestamp > 0")
            assert sorted(beat["key"].items()) in (
                [("sourceClusterAlias", "a"), ("targetClusterAlias", "b")],
                [("sourceClusterAlias", "b"), ("targetClusterAlias", "a")],
            )
            assert abs(beat["value"]["timestamp"] - beat["timestamp"]) < MINUTE
            for topic in ("mm2-configs.a.internal", "mm2-status.a.internal"):  # Connect's own
                assert where(topic, ".value != null")["valueEncoding"] == "json"
        finally:
            for each in running:
                each.kill()
                each.communicate()
        for topic, key in (("cbor", "42"), ("packed", "k"), ("zipped", "k")):
            assert get(topic, key)["value"] == document
            assert where(topic, '.value.city == "Zürich"')["offset"] == 0
