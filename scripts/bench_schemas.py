"""Avro values as JSON, as record lines and as typed columns, beside fastavro and confluent-kafka's deserializer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import partial
from random import Random

import fastavro
import numpy as np
import orjson
import pyarrow as pa
from bench_report import Report, timed
from confluent_kafka.schema_registry import Schema as RegistrySchema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from engine import kernel
from engine.columns.batch_table import BATCH_ROW
from engine.lines.record_line import LineOptions
from kafkafs.forms.arrow.typed.avro_column import AvroColumn
from kafkafs.forms.arrow.typed.typed_column import TypedColumn
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.cache import DecoderCache
from kafkafs.schemas.decoders.limits import MOST_COST
from kafkafs.schemas.decoders.value_decoder import Payloads
from kafkafs.schemas.programs import compiled
from kafkafs.schemas.schema import Schema, SchemaKind
from kafkafs.schemas.store import SchemaStore
from kafkafs.schemas.topic_decoder import TopicSchemas
from tests import builders
from tests.builders import Rec

_ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
}
_FIELDS = {
    "id": "long",
    "customer": "string",
    "amount": "double",
    "status": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID", "SENT"]},
    "note": ["null", "string"],
    "created": {"type": "long", "logicalType": "timestamp-millis"},
    "items": {"type": "array", "items": _ITEM},
}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": name, "type": kind} for name, kind in _FIELDS.items()],
}
_PARSED = fastavro.parse_schema(ORDER)
PREFIX = b"\0\0\0\0\7"
_PER_BATCH = 200
_AT_ONCE = 1024 * 1024

Dump = Callable[..., bytes | str]


def run(report: Report, megabytes: int) -> None:
    """Decode bare values, and write record lines."""
    values = order_values(250 * megabytes)
    arena = b"".join(values)
    sizes = np.array([len(value) for value in values])
    payloads = Payloads(arena, np.cumsum(sizes) - sizes, sizes)
    decoder = AvroDecoder(json.dumps(ORDER))
    lines = RecordLines(values, SchemaKind.AVRO, json.dumps(ORDER), b"", read_order)
    expected = [json.loads(_json(json.dumps, value)) for value in values[:3]]
    shown = [json.loads(decoder.json(value).text) for value in values[:3]]
    if [each["items"] for each in shown] != [each["items"] for each in expected]:
        raise RuntimeError("fastavro reads the values otherwise")
    count = len(values) / 1000
    for name, dump, target in (("json", json.dumps, "wall 8"), ("orjson", orjson.dumps, "")):
        report.compare(
            *("schemas", f"Avro values as JSON, fastavro + {name}", count, "kvalue/s"),
            lambda: timed(lambda: decoder.texts(payloads, b"", 2**62)),
            lambda dump=dump: timed(lambda: [_json(dump, value) for value in values]),
            target=target,
        )
        report.compare(
            *("schemas", f"Avro record lines, fastavro + {name}", count, "krecord/s"),
            lambda: timed(lines.ours),
            lambda dump=dump: timed(partial(lines.theirs, dump)),
            target=target,
            note="the peer gets decoded batches from our kernel",
        )
    _compare_columns(report, values, decoder)


def _compare_columns(report: Report, values: list[bytes], decoder: AvroDecoder) -> None:
    """Make typed columns of payloads; the framing of records is on neither side."""
    column = AvroColumn(decoder.schema)

    def ours() -> pa.Array:
        return column_of(column, column.program(decoder), values)

    def theirs() -> pa.Array:
        found = [fastavro.schemaless_reader(io.BytesIO(each), _PARSED, None) for each in values]
        return pa.array(found, column.type)

    if not ours().equals(theirs()):
        raise RuntimeError("fastavro reads other columns")
    report.compare(
        *("schemas", "Avro values as typed columns, fastavro + PyArrow", len(values) / 1000),
        "kvalue/s",
        partial(timed, ours),
        partial(timed, theirs),
        target="wall 8",
    )
    client = SchemaRegistryClient.new_client({"url": "mock://bench"})
    number = client.register_schema("orders-value", RegistrySchema(json.dumps(ORDER), "AVRO"))
    framed = [b"\0" + number.to_bytes(4, "big") + value for value in values]
    read, context = AvroDeserializer(client), SerializationContext("orders", MessageField.VALUE)
    report.compare(
        *("schemas", "Avro values as typed columns, confluent-kafka's deserializer + PyArrow"),
        *(len(values) / 1000, "kvalue/s"),
        partial(timed, ours),
        lambda: timed(lambda: pa.array([read(each, context) for each in framed], column.type)),
        target="wall 8",
    )


def column_of(
    column: TypedColumn, program: compiled.ColumnProgram | None, values: list[bytes]
) -> pa.Array:
    """Return the column that a program makes of values, which it all reads."""
    assert program is not None
    sizes = np.array([len(value) for value in values])
    which = np.zeros(len(values), np.int32)
    starts = np.cumsum(sizes) - sizes
    parts, states = compiled.read_columns(
        *(column.shapes, [program], which, b"".join(values), starts, sizes, MOST_COST, 2**62)
    )
    assert not states.any()
    return column.tree.array(parts)


def read_order(value: bytes) -> object:
    return fastavro.schemaless_reader(io.BytesIO(value), _PARSED, None)


def _json(dump: Dump, value: bytes) -> bytes | str:
    return dump(read_order(value), default=str)


def order_values(count: int) -> list[bytes]:
    """Return orders of about 70 bytes."""
    chance, made = Random(1), []
    for number in range(count):
        out = io.BytesIO()
        items = [
            {"sku": f"sku-{chance.randrange(1000)}", "count": chance.randrange(9)} for _ in range(2)
        ]
        order = {
            "id": number * 7919,
            "customer": f"customer-{chance.randrange(10_000)}",
            "amount": round(chance.uniform(1, 1000), 2),
            "status": chance.choice(("NEW", "PAID", "SENT")),
            "note": chance.choice((None, "leave at the door")),
            "created": 1_700_000_000_000 + number,
            "items": items,
        }
        fastavro.schemaless_writer(out, _PARSED, order)
        made.append(out.getvalue())
    return made


class RecordLines:
    """The batches of a topic, as record lines.

    Args:
        values: payloads.
        kind, text: the schema.
        head: what stands between the schema's id and a payload.
        read: reads a payload as the peer does.
    """

    def __init__(
        self,
        values: list[bytes],
        kind: SchemaKind,
        text: str,
        head: bytes,
        read: Callable[[bytes], object],
    ) -> None:
        self._read = read
        self._prefix = PREFIX + head
        self._data = b"".join(
            builders.batch(
                [Rec(self._prefix + each, b"key") for each in values[at : at + _PER_BATCH]], at
            )
            for at in range(0, len(values), _PER_BATCH)
        )
        self._table = np.empty(len(values) // _PER_BATCH + 1, BATCH_ROW.dtype)
        filled, _, _ = kernel.walk(self._data, self._table, 0, 0, False)
        self._table = self._table[:filled]
        schema = Schema(kind, text, subject="orders-value", version=1, id=7)
        store = SchemaStore([schema])
        topic = TopicSchemas("orders", lambda: store, DecoderCache())
        self._options = LineOptions("orders", 0, decode_with=topic)

    def ours(self) -> None:
        """Write lines, a MiB at once."""
        row = record = 0
        while row < len(self._table):
            made = kernel.lines(
                self._data, self._table, row, len(self._table), start_position=0,
                options=self._options, enough=_AT_ONCE, first_record=record,
            )  # fmt: skip
            row, record = row + made.rows_done, made.next_record

    def theirs(self, dump: Dump) -> None:
        """Write a line of JSON for each record, with fewer fields than ours."""
        columns = kernel.decode(
            self._data, self._table, 0, len(self._table), start_position=0, enough=2**62
        )
        offsets, timestamps = columns.offset.tolist(), columns.timestamp.tolist()
        for row, (offset, timestamp) in enumerate(zip(offsets, timestamps, strict=True)):
            value, key = columns.value(row), columns.key(row)
            assert value is not None
            assert key is not None
            found = self._read(value[len(self._prefix) :])
            line = {"offset": offset, "timestamp": timestamp, "key": key.decode(), "value": found}
            dump({"topic": "orders", "partition": 0, **line}, default=str)
