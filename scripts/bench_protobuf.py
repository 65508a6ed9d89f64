"""Protobuf values as JSON, as record lines and as typed columns, beside google.protobuf, confluent-kafka and ptars."""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import Any

import numpy as np
import orjson
import ptars
import pyarrow as pa
from bench_report import Report, timed
from bench_schemas import Dump, RecordLines, column_of
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from kafkafs.forms.arrow.typed.protobuf_column import ProtobufColumn
from kafkafs.schemas.decoders.protobuf import ProtobufDecoder
from kafkafs.schemas.decoders.value_decoder import Payloads
from kafkafs.schemas.schema import SchemaKind

_ORDER = """
    syntax = "proto3";
    import "google/protobuf/timestamp.proto";
    message Order {
      int64 id = 1; string customer = 2; double amount = 3; Status status = 4; optional string note = 5;
      google.protobuf.Timestamp created = 6; repeated Item items = 7;
    }
    message Item { string sku = 1; int32 count = 2; }
    enum Status { NEW = 0; PAID = 1; SENT = 2; }
"""
_HEAD = b"\0"
"""Message indexes of the first message."""
_SLOWEST_OF_PTARS = "wall 0.67"
"""We may take 1.5 times the time of ptars."""


def run(report: Report, megabytes: int) -> None:
    """Decode payloads, and write record lines."""
    decoder = ProtobufDecoder(_ORDER)
    kind = GetMessageClass(decoder.descriptor())
    values = _values(kind, 250 * megabytes)
    count = len(values) / 1000
    framed = [_HEAD + value for value in values]
    sizes = np.array([len(value) for value in framed])
    payloads = Payloads(b"".join(framed), np.cumsum(sizes) - sizes, sizes)

    def read(value: bytes) -> dict[str, Any]:
        return MessageToDict(kind.FromString(value))

    lines = RecordLines(values, SchemaKind.PROTOBUF, _ORDER, _HEAD, read)
    for value in values[:9]:
        own = MessageToDict(kind.FromString(value), always_print_fields_with_no_presence=True)
        if json.loads(decoder.json(value).text) != own:
            raise RuntimeError("google.protobuf reads the values otherwise")
    dumps: tuple[tuple[str, Dump, str], ...] = (
        ("json", json.dumps, "wall 8"),
        ("orjson", orjson.dumps, ""),
    )
    for name, dump, target in dumps:
        report.compare(
            *("protobuf", f"Protobuf values as JSON, MessageToDict + {name}", count, "kvalue/s"),
            lambda: timed(lambda: decoder.texts(payloads, b"", 2**62)),
            lambda dump=dump: timed(lambda: [dump(read(value)) for value in values]),
            target=target,
        )
        report.compare(
            *("protobuf", f"Protobuf record lines, MessageToDict + {name}", count, "krecord/s"),
            lambda: timed(lines.ours),
            lambda dump=dump: timed(partial(lines.theirs, dump)),
            target=target,
            note="the peer gets decoded batches from our kernel",
        )
    confluent = ProtobufDeserializer(kind, {"use.deprecated.format": False})
    context = SerializationContext("orders", MessageField.VALUE)
    prefixed = [b"\0\0\0\0\7" + value for value in framed]
    report.compare(
        *("protobuf", "Protobuf values as JSON, confluent-kafka's deserializer + MessageToDict"),
        *(count, "kvalue/s"),
        lambda: timed(lambda: decoder.texts(payloads, b"", 2**62)),
        lambda: timed(
            lambda: [json.dumps(MessageToDict(confluent(each, context))) for each in prefixed]
        ),
        target="wall 8",
    )
    _compare_columns(report, values, decoder, kind)


def _compare_columns(
    report: Report, values: list[bytes], decoder: ProtobufDecoder, kind: type[Message]
) -> None:
    """Make typed columns of payloads; the framing of records is on no side."""
    column = ProtobufColumn(decoder, nanoseconds=True)  # as ptars has them
    handler = ptars.HandlerPool([kind.DESCRIPTOR.file]).get_for_message(kind.DESCRIPTOR)
    data = pa.array(values, pa.binary())

    def ours() -> pa.Array:
        return column_of(column, column.program, values)

    def dicts() -> pa.Array:
        return pa.array(
            [
                MessageToDict(kind.FromString(value), preserving_proto_field_name=True)
                for value in values
            ]
        )

    theirs, made = handler.array_to_record_batch(data), ours()
    names = [each.name for each in made.type if each.name not in ("status", "items")]
    if not all(theirs[name].equals(made.field(name)) for name in names):
        raise RuntimeError("ptars reads other columns")
    for form, read in (
        ("a list", partial(handler.list_to_record_batch, values)),
        ("an array", partial(handler.array_to_record_batch, data)),
    ):
        report.compare(
            *("protobuf", f"Protobuf values as typed columns, ptars of {form}"),
            *(len(values) / 1000, "kvalue/s"),
            partial(timed, ours),
            lambda read=read: timed(read),
            target=_SLOWEST_OF_PTARS,
            note="ptars has the numbers of enums",
        )
    report.compare(
        *("protobuf", "Protobuf values as typed columns, MessageToDict + PyArrow"),
        *(len(values) / 1000, "kvalue/s"),
        partial(timed, ours),
        partial(timed, dicts),
        target="wall 8",
    )


def _values(kind: type[Message], count: int) -> list[bytes]:
    """Return orders of about 80 bytes."""
    chance, made = Random(1), []
    for number in range(count):
        order = kind(
            id=number * 7919,
            customer=f"customer-{chance.randrange(10_000)}",
            amount=round(chance.uniform(1, 1000), 2),
            status=chance.randrange(3),
        )
        if chance.random() < 0.5:
            order.note = "leave at the door"
        order.created.FromMilliseconds(1_700_000_000_000 + number)
        for _ in range(2):
            order.items.add(sku=f"sku-{chance.randrange(1000)}", count=chance.randrange(9))
        made.append(order.SerializeToString())
    return made
