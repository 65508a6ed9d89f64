"""The golden topics of a real Schema Registry, served by a real broker and read by Confluent's own deserializers.

Each key and value that they decode is what kafkafs shows. The two are compared like this:

- JSON Schema: the same JSON value.
- Protobuf: the JSON that kafkafs shows, read by Google's JSON parser, is the message of the deserializer: the same bytes
  when both are serialized again. Fields that the type does not have are left out, and proto2's defaults are filled in,
  which kafkafs shows as Java does.
- Avro: the same structure; bytes are base64, durations an object of their three numbers, decimals have the same digits,
  UUIDs their text; dates, times and timestamps are the same moment, and a timestamp has UTC where Python has it; a float is
  the same number of its size, NaN and infinities have the names that Java gives them. fastavro leaves timestamps of
  nanoseconds numbers, and UUIDs in 16 bytes as they are.

OTHERWISE lists the records of which Python's deserializers make something else than Java's.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import struct
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest
from confluent_kafka.schema_registry import topic_subject_name_strategy
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
from tests.schema_truth import (
    SchemaRecord,
    SideTruth,
    registered,
    schema_log_dir,
    schema_records,
    schema_topics,
)

KIND = "schemas-confluent"
TOPICS = schema_topics(KIND)
LARGEST_FLOAT = 3.4028234663852886e38
SETTINGS = {"subject.name.strategy": topic_subject_name_strategy}
NEWER = {("reused-id", offset) for offset in (3, 4, 5)}
"""Records whose id belongs to a schema that was registered after the deletes."""

DURATION = ("months", "days", "milliseconds")
NANOSECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z?")
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
    "proto-any": {(3, "value"): "Python's deserializer does not look into an Any, whose type the schema does not have"},
    "proto2": {(3, "value"): "Python's deserializer takes a message without its required field, Java refuses it"},
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
    with kafkafs.open(schema_log_dir(KIND)) as tree:
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


def official(side: Side) -> Any:
    """What the official deserializer makes of a key or value; raises what the deserializer raises."""
    topic, _, name = side.where
    field = MessageField.KEY if name == "key" else MessageField.VALUE
    context = SerializationContext(topic, field, side.headers)
    client = registry_of(side)
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


# -- the same value --------------------------------------------------------------------------------


def is_same_message(message: Any, shown: Any) -> bool:
    """Whether JSON is a Protobuf message, for Google's parser."""
    pool = message.DESCRIPTOR.file.pool
    parsed = json_format.ParseDict(plain_numbers(shown), type(message)(), descriptor_pool=pool)
    message.DiscardUnknownFields()
    return serialized(parsed) == serialized(message)


def plain_numbers(value: Any) -> Any:
    """JSON with floats; Google's parser takes the largest one of 32 bits only with all digits of a double."""
    if isinstance(value, dict):
        return {name: plain_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain_numbers(each) for each in value]
    if isinstance(value, Decimal):
        number = float(value)
        return math.copysign(LARGEST_FLOAT, number) if abs(number) == 3.4028235e38 else number
    return value


def serialized(message: Any) -> bytes:
    """A message's bytes, after the defaults that a member of no oneof has were filled in."""
    fill(message)
    found: bytes = message.SerializePartialToString(deterministic=True)
    return found


def fill(message: Any) -> None:
    """Set the fields that have a default, in the message and in those inside it."""
    for field in message.DESCRIPTOR.fields:
        is_message = field.message_type is not None
        if not is_message and field.has_presence and field.containing_oneof is None:
            setattr(message, field.name, getattr(message, field.name))
        elif is_message and not field.is_repeated and message.HasField(field.name):
            fill(getattr(message, field.name))
        elif is_message and field.is_repeated and not field.message_type.GetOptions().map_entry:
            for each in getattr(message, field.name):
                fill(each)


def is_same(value: Any, shown: Any) -> bool:
    """Whether a value of Python, out of JSON or Avro, is the JSON that kafkafs shows."""
    if isinstance(value, dict):
        return (
            isinstance(shown, dict)
            and value.keys() == shown.keys()
            and all(is_same(value[name], shown[name]) for name in value)
        )
    if isinstance(value, list):
        return (
            isinstance(shown, list) and len(value) == len(shown) and all(map(is_same, value, shown))
        )
    if isinstance(value, float):
        return is_same_float(value, shown)
    if isinstance(value, bytes) and isinstance(shown, dict):
        return dict(zip(DURATION, struct.unpack("<3I", value), strict=True)) == shown
    if isinstance(value, bytes) and len(value) == 16:
        return shown in (str(UUID(bytes=value)), plain(value))
    if isinstance(value, (datetime, time)):
        return isinstance(shown, str) and type(value).fromisoformat(shown) == value
    if isinstance(value, int) and isinstance(shown, str):
        return is_same_nanosecond(value, shown)
    return type(shown) is type(plain(value)) and bool(shown == plain(value))


def plain(value: Any) -> Any:
    """A value that is a string in JSON, as the string."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def is_same_float(value: float, shown: Any) -> bool:
    if not math.isfinite(value):
        return bool(shown == {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)])
    if not isinstance(shown, (Decimal, int)):
        return False
    with np.errstate(over="ignore"):
        is_float = np.float32(value) == value
        return float(shown) == value or bool(is_float and np.float32(float(shown)) == value)


def is_same_nanosecond(value: int, shown: str) -> bool:
    """Whether a text is the moment so many nanoseconds after 1970."""
    if not NANOSECONDS.fullmatch(shown):
        return False
    moment = datetime.fromisoformat(shown[:19]) - datetime(1970, 1, 1)  # noqa: DTZ001 - of a local time too
    return (moment.days * 86_400 + moment.seconds) * 10**9 + int(shown[20:29]) == value


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
    return None if same(value, side.shown) else f"{value!r} is shown as {side.shown!r}"


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
