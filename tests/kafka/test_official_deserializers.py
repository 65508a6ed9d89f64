"""The golden topics of a real Schema Registry, served by a real broker and read by Confluent's own deserializers.

Each key and value that they decode is what kafkafs shows, as `same_value` compares them.

OTHERWISE lists the records of which Python's deserializers make something else than Java's.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

import kafkafs
from tests.fixtures_data import TruthRecord
from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.official_registry import FileRegistry
from tests.kafka.same_value import is_same, is_same_message
from tests.kafkafs.serve.serving import serving
from tests.schema_truth import (
    SchemaRecord,
    SideTruth,
    registered,
    schema_log_dir,
    schema_paths,
    schema_records,
    schema_topics,
)

KIND = "schemas-confluent"
TOPICS = schema_topics(KIND)
SETTINGS = {"subject.name.strategy": topic_subject_name_strategy}
NEWER = {("reused-id", offset) for offset in (3, 4, 5)}
"""Records whose id belongs to a schema that was registered after the deletes."""

ASKED_OVER_HTTP = (
    "avro-references", "context-west", "context-west-proto", "hard-deleted-version", "json-references",
    "proto-references", "python-avro-headers", "reused-id",
)  # fmt: skip
"""Topics with all ways to name a schema: the id, the GUID, references, contexts, deleted versions."""

SHORT = "Python's deserializer refuses 5 bytes and less, though the schema is named in a header"
ROUNDED = "fastavro rounds a decimal that has more digits than its precision"
OTHERWISE: dict[str, dict[tuple[int, str], str]] = {
    "avro-garbage": {(22, "value"): "the boolean is the byte 2: true for fastavro, false for Java and kafkafs"},
    "avro-headers": {
        (0, "key"): SHORT, (0, "value"): SHORT, (1, "key"): SHORT, (1, "value"): SHORT, (2, "key"): SHORT,
        (3, "value"): SHORT,
    },
    "avro-logical": {(3, "value"): ROUNDED, (4, "value"): ROUNDED},
    "avro-logical-unknown": {(0, "value"): "fastavro refuses a decimal with a scale above its precision, Java takes bytes"},
    "avro-primitives": {(8, "value"): "Python's deserializer leaves the bytes of a decimal as they are"},
    "proto-any": {(3, "value"): "Google's JSON parser knows no Any whose type the schema does not have; kafkafs shows its bytes"},
    "python-avro-headers": {(0, "key"): SHORT, (1, "key"): SHORT, (2, "key"): SHORT},
}  # fmt: skip
"""What Python's deserializers make otherwise than kafkafs, by offset and part: kafkafs goes with Java's."""


class Side(NamedTuple):
    """A key or value of a record.

    Attributes:
        where: topic, offset, and key or value.
        data: its bytes, as the broker served them.
        headers: headers of the record.
        truth: what Java's deserializer made of it.
        shown: what kafkafs shows, and the encoding that kafkafs names.
    """

    where: tuple[str, int, str]
    data: bytes
    headers: list[tuple[str, bytes | None]]
    truth: SideTruth
    shown: Any
    encoding: str | None


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[TruthRecord]]]:
    """The records of each topic, as a broker serves them that got the topics' folders."""
    broker = Broker(tmp_path_factory.mktemp("registry"), settings={"log.cleaner.enable": "false"})
    with broker:
        for topic in TOPICS:
            clients.create_topic(broker.bootstrap, topic)
    for topic in TOPICS:
        target = broker.log_dir / f"{topic}-0"
        for file in (schema_log_dir(KIND) / f"{topic}-0").iterdir():
            if file.name != "partition.metadata":  # has the topic's id
                shutil.copy(file, target / file.name)
    broker.forget_checkpoints()
    with broker, clients.Reader(broker.bootstrap) as reader:
        yield {topic: reader.records(topic, 0) for topic in TOPICS}


@cache
def lines(topic: str) -> list[dict[str, Any]]:
    """The topic's records as kafkafs shows them."""
    with kafkafs.open(schema_log_dir(KIND), schemas=schema_paths(KIND)) as tree:
        text = tree.read(f"{topic}-0/offset/0..")
    return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


def sides(topic: str, served: list[TruthRecord]) -> Iterator[Side]:
    """The keys and values that have a schema."""
    known = schema_records(KIND, topic)
    assert [each.offset for each in served] == [each.offset for each in known]
    for record, golden, line in zip(served, known, lines(topic), strict=True):
        for name, data, truth in parts(record, golden):
            if truth is not None and data is not None:
                where = (topic, record.offset, name)
                encoding = line.get(f"{name}Encoding")
                yield Side(where, data, list(record.headers), truth, line[name], encoding)


def parts(
    record: TruthRecord, golden: SchemaRecord
) -> tuple[tuple[str, bytes | None, SideTruth | None], ...]:
    return ("key", record.key, golden.key_truth), ("value", record.value, golden.value_truth)


# -- the deserializers -----------------------------------------------------------------------------


@cache
def registry(context: str, *, is_newer: bool) -> FileRegistry:
    """The registry before the deletes or, where the golden records are newer, after them."""
    before, after = registered(KIND, "before"), registered(KIND, "after")
    return FileRegistry((*after, *before) if is_newer else (*before, *after), context)


def registry_of(side: Side) -> FileRegistry:
    """The registry, in the context that the topic's name tells."""
    topic, offset, _ = side.where
    context = f".{topic.split('-')[1]}" if topic.startswith("context-") else ""
    return registry(context, is_newer=(topic, offset) in NEWER)


def official(side: Side, client: SchemaRegistryClient | None = None) -> Any:
    """What the official deserializer makes of a key or value, with the registry that once was or another one.

    Raises what the deserializer raises.
    """
    topic, _, name = side.where
    field = MessageField.KEY if name == "key" else MessageField.VALUE
    context = SerializationContext(topic, field, side.headers)
    client = client or registry_of(side)
    if side.truth.kind == "avro":
        return AvroDeserializer(client, conf=SETTINGS)(side.data, context)
    if side.truth.kind == "json-schema":
        conf = {**SETTINGS, "validate": False}
        return JSONDeserializer(None, schema_registry_client=client, conf=conf)(side.data, context)
    conf = {**SETTINGS, "use.deprecated.format": False}
    kind = GetMessageClass(type_of(side))
    return ProtobufDeserializer(kind, conf, client)(side.data, context)


def type_of(side: Side) -> Any:
    """The type of a Protobuf message; of bytes that no deserializer reads the first one of the topic's schema."""
    truth, client = side.truth, registry_of(side)
    if truth.message is None:
        topic, _, name = side.where
        return client.message_type(None, subject=f"{topic}-{name}", version=1)
    asked = {"id": truth.id} if truth.guid is None else {"guid": truth.guid}
    return client.message_type(truth.message, **asked)


def difference(side: Side) -> str | None:
    """What differs between the deserializer and kafkafs; None for nothing."""
    is_shown = side.encoding == side.truth.kind
    try:
        value = official(side)
    except Exception as error:  # noqa: BLE001 - the deserializers raise errors of many libraries
        return f"the deserializer refuses it: {error!r}" if is_shown else None
    if not is_shown:
        return f"only the deserializer reads it: {value!r}"
    same = is_same_message if side.truth.kind == "protobuf" else is_same
    try:
        is_equal = same(value, side.shown)
    except json_format.ParseError:  # the bytes of an Any whose type the schema does not have
        is_equal = False
    return None if is_equal else f"{value!r} is shown as {side.shown!r}"


@pytest.mark.parametrize("topic", TOPICS)
def test_each_key_and_value_is_shown_as_the_official_deserializer_reads_it(
    topic: str, served: dict[str, list[TruthRecord]]
) -> None:
    differences = {side.where[1:]: difference(side) for side in sides(topic, served[topic])}
    found = {where: what for where, what in differences.items() if what is not None}
    assert found.keys() == OTHERWISE.get(topic, {}).keys(), found


def test_the_official_deserializers_read_most_keys_and_values(
    served: dict[str, list[TruthRecord]],
) -> None:
    """So that a deserializer that refuses everything is found."""
    read: Counter[str] = Counter()
    for topic in TOPICS:
        for side in sides(topic, served[topic]):
            with suppress(Exception):
                official(side)
                read[side.truth.kind] += 1
    assert read["avro"] > 150
    assert read["protobuf"] > 60
    assert read["json-schema"] > 20


def test_another_value_than_the_deserializers_is_found(
    served: dict[str, list[TruthRecord]],
) -> None:
    for topic in ("avro-types", "proto-types", "json-types"):
        side = next(each for each in sides(topic, served[topic]) if difference(each) is None)
        name = next(name for name, value in side.shown.items() if isinstance(value, (int, str)))
        other = {**side.shown, name: 7 if isinstance(side.shown[name], int) else "7"}
        assert difference(side._replace(shown=other)) is not None
        assert difference(side._replace(encoding="base64")) is not None


def outcome(side: Side, client: SchemaRegistryClient) -> str:
    """What a deserializer says of a key or value."""
    try:
        return repr(official(side, client))
    except Exception:  # noqa: BLE001 - the deserializers raise errors of many libraries
        return "refused"


def test_the_deserializers_read_the_same_with_the_registry_of_kafkafs(
    tmp_path: Path,
) -> None:
    """The registry after the deletes; kafkafs has the schemas that are deleted for good besides."""
    seen: Counter[str] = Counter()
    with (
        serving(schema_log_dir(KIND), tmp_path, "--schema-registry", "127.0.0.1:0") as server,
        SchemaRegistryClient({"url": server.schema_registry}) as client,
    ):
        for topic in ASKED_OVER_HTTP:
            context = f".{topic.split('-')[1]}" if topic.startswith("context-") else ""
            once = registry(context, is_newer=True)
            for side in sides(topic, schema_records(KIND, topic)):
                expected = outcome(side, once)
                assert outcome(side, client) == expected, side
                seen[side.truth.kind or "?"] += expected != "refused"
    assert all(seen[kind] for kind in ("avro", "protobuf", "json-schema")), seen
