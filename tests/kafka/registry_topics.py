"""Topics with schemas of a registry: written by the official serializers, read back by the official deserializers.

Schemas of all three kinds refer to others; versions are deleted softly and for good, and a subject is registered again.
The registry is any that answers as Confluent's does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tests.kafka import clients

TOPICS = ("avro-orders", "proto-orders", "json-orders", "avro-gone", "avro-again")
ITEM = "shop.Item"
AVRO_ITEM = json.dumps(
    {
        "type": "record",
        "name": "Item",
        "namespace": "shop",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "USED"]}},
            {"name": "picture", "type": ["null", "bytes"], "default": None},
        ],
    }
)
_PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
AVRO_ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": _PRICE},
            {"name": "items", "type": {"type": "array", "items": ITEM}},
        ],
    }
)
AVRO_NEWER = AVRO_ORDER.replace(
    '{"name": "id"', '{"name": "note", "type": ["null", "string"], "default": null}, {"name": "id"'
)
AVRO_OTHER = json.dumps(
    {"type": "record", "name": "Other", "fields": [{"name": "total", "type": "double"}]}
)
_TEXT_OTHER = AVRO_OTHER.replace('"double"', '"string"')
PROTO = {
    "shop/item.proto": """
        syntax = "proto3";
        package shop;
        enum Kind { NEW = 0; USED = 1; }
        message Item { string name = 1; Kind kind = 2; bytes picture = 3; }
    """,
    "shop/order.proto": """
        syntax = "proto3";
        package shop;
        import "shop/item.proto";
        message Note { string text = 1; }
        message Order {
          int64 id = 1;
          repeated Item items = 2;
          oneof extra { Note note = 4; bool urgent = 5; }
        }
    """,
}
JSON_ITEM = json.dumps(
    {
        "$id": "item.json",
        "title": "Item",
        "type": "object",
        "properties": {"name": {"type": "string"}},
    }
)
JSON_ORDER = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "items": {"type": "array", "items": {"$ref": "item.json"}},
        },
    }
)

Sides = dict[tuple[str, int, str], Any]
"""What the deserializers read, by topic, offset, and "key" or "value"."""


class RegistryTopics:
    """Writes the topics through a broker and a registry.

    Args:
        client: a client of the registry.
        bootstrap: of the broker.
        folder: for files of the Protobuf compiler.
        references: the kinds besides Protobuf that the registry takes references of.

    Attributes:
        read: what the official deserializers read, while the schemas were in the registry.
    """

    def __init__(
        self,
        client: SchemaRegistryClient,
        bootstrap: str,
        folder: Path,
        references: Collection[str] = ("AVRO", "JSON"),
    ) -> None:
        self._references = references
        self._client = client
        self.read: Sides = {}
        self._bootstrap = bootstrap
        self._order = _message_class(folder, "shop.Order")

    def write(self) -> None:
        """Write and read records of all kinds."""
        for topic in TOPICS:
            clients.create_topic(self._bootstrap, topic)
        key = AvroSerializer(self._client, '"long"')
        for text, more in ((AVRO_ORDER, {}), (AVRO_NEWER, {"note": "later"})):
            schema = self._schema("AVRO", text, ITEM, AVRO_ITEM)
            self._produce("avro-orders", key, AvroSerializer(self._client, schema), _orders(more))
        conf = {"use.deprecated.format": False}
        protobuf = ProtobufSerializer(self._order, self._client, conf)
        self._produce("proto-orders", None, protobuf, self._messages())
        schema = self._schema("JSON", JSON_ORDER, "item.json", JSON_ITEM)
        items = [{"name": "café"}, {"name": "\u0000"}]
        pairs = [(None, {"id": 2**53, "items": items}), (None, {"items": []})]
        self._produce("json-orders", None, JSONSerializer(schema, self._client), pairs)
        for topic, texts in (
            ("avro-gone", (AVRO_OTHER, _TEXT_OTHER)),
            ("avro-again", (AVRO_OTHER,)),
        ):
            for text, total in zip(texts, (0.5, "half"), strict=False):
                other = AvroSerializer(self._client, text)
                self._produce(topic, None, other, [(None, {"total": total})])
        self._read_new()

    def delete(self) -> None:
        """Delete a version softly, another and a subject for good."""
        self._client.delete_version("avro-orders-value", 1)
        self._client.delete_version("avro-gone-value", 1)
        self._client.delete_version("avro-gone-value", 1, permanent=True)
        self._client.delete_subject("avro-again-value")
        self._client.delete_subject("avro-again-value", permanent=True)

    def write_again(self) -> None:
        """Register the deleted subject again with another schema, and write and read a record."""
        pairs = [(None, {"total": "half"})]
        self._produce("avro-again", None, AvroSerializer(self._client, _TEXT_OTHER), pairs)
        self._read_new()

    def _schema(self, kind: str, text: str, name: str, item: str) -> Schema:
        """Return a schema that refers to an item's, or has it inside where the registry knows no such references."""
        if kind not in self._references:
            inside = {"AVRO": f'"{name}"', "JSON": f'{{"$ref": "{name}"}}'}[kind]
            return Schema(text.replace(inside, item), kind)
        self._client.register_schema(name, Schema(item, kind))
        return Schema(text, kind, [SchemaReference(name, name, 1)])

    def _messages(self) -> list[tuple[None, Any]]:
        full = self._order(id=-(2**63), urgent=True)
        full.items.add(name="café", kind=1, picture=b"\xff\x00")
        full.items.add()
        return [(None, full), (None, self._order()), (None, self._order(note={"text": "n"}))]

    def _produce(self, topic: str, key: Any, value: Any, pairs: list[tuple[Any, Any]]) -> None:
        sender = clients.producer(self._bootstrap)
        for key_data, value_data in pairs:
            sides = []
            for part, serializer, data in (
                (MessageField.KEY, key, key_data),
                (MessageField.VALUE, value, value_data),
            ):
                context = SerializationContext(topic, part)
                sides.append(None if serializer is None else serializer(data, context))
            sender.produce(topic, sides[1], sides[0], 0)
        assert sender.flush(clients.ANSWER_SECONDS) == 0

    def _read_new(self) -> None:
        """Read the records that were not read yet."""
        avro = AvroDeserializer(self._client)
        readers = {
            "avro-orders": (avro, avro),
            "avro-gone": (None, avro),
            "avro-again": (None, avro),
            "proto-orders": (
                None,
                ProtobufDeserializer(self._order, {"use.deprecated.format": False}),
            ),
            "json-orders": (None, JSONDeserializer(None, schema_registry_client=self._client)),
        }
        with clients.Reader(self._bootstrap) as reader:
            for topic, sides in readers.items():
                for record in reader.records(topic, 0):
                    for part, read, data in (
                        (MessageField.KEY, sides[0], record.key),
                        (MessageField.VALUE, sides[1], record.value),
                    ):
                        where = (topic, record.offset, part)
                        if read is not None and where not in self.read:
                            self.read[where] = read(data, SerializationContext(topic, part))


def _orders(more: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    item = {"name": "café", "kind": "USED", "picture": b"\xff\x00"}
    plain = {"name": "", "kind": "NEW", "picture": None}
    return [
        (7, {"id": 7, "price": Decimal("-12.50"), "items": [item, plain], **more}),
        (-1, {"id": -(2**63), "price": Decimal("0.01"), "items": [], **more}),
    ]


def _message_class(folder: Path, name: str) -> Any:
    """Return the class of a Protobuf message, as Google's compiler describes it."""
    for path, text in PROTO.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    out = folder / "described"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
    subprocess.run([*command, f"--descriptor_set_out={out}", *PROTO], check=True)
    pool = DescriptorPool()
    for each in FileDescriptorSet.FromString(out.read_bytes()).file:
        pool.Add(each)
    return GetMessageClass(pool.FindMessageTypeByName(name))
