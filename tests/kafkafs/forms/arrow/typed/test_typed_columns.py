"""Typed columns: what fastavro and upb read with the newest schema, as PyArrow makes a column of it."""

from __future__ import annotations

import base64
import datetime
import io
import json
import pickle
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest

import kafkafs
from engine.lines.line_decoder import DecodedField
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.errors import SchemaFileError
from kafkafs.schemas.programs import extension
from tests.schema_truth import REGISTRIES, schema_log_dir, schema_topics

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")
pc = pytest.importorskip("pyarrow.compute")

from kafkafs.forms.arrow.typed.avro_column import AvroColumn  # noqa: E402
from kafkafs.forms.arrow.typed.avro_types import MOST_NESTED, arrow_type  # noqa: E402
from tests.kafkafs.forms.arrow.typed.reading import REFUSED, equal, read  # noqa: E402

CONFLUENT = schema_log_dir("schemas-confluent")
NOW = datetime.datetime(2024, 2, 29, 12, 30, 59, 123456, datetime.UTC)
LOCAL = NOW.replace(tzinfo=None)


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"F{size}", "size": size, **more}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
EACH_TYPE: list[tuple[Any, Any, list[Any]]] = [
    ("boolean", pa.bool_(), [True, False]),
    ("int", pa.int32(), [0, -(2**31), 2**31 - 1]),
    ("long", pa.int64(), [0, -(2**63), 2**63 - 1]),
    ("float", pa.float32(), [0.1, -0.0, 3.4e38, float("inf"), float("-inf")]),
    ("double", pa.float64(), [0.1, 5e-324, 1e308, float("inf")]),
    ("string", pa.string(), ["", "ü\x00\u2028\n"]),
    ("bytes", pa.binary(), [b"", b"\xff\x00"]),
    (["null", "int"], pa.int32(), [None, 5]),
    (["string", "null"], pa.string(), ["a", None]),
    (fixed(3), pa.binary(3), [b"abc"]),
    (ENUM, pa.string(), ["A", "B"]),
    ({"type": "array", "items": "long"}, pa.list_(pa.int64()), [[], [1, 2]]),
    (
        {"type": "map", "values": ["null", "double"]},
        pa.map_(pa.string(), pa.float64()),
        [{}, {"a": 1.5, "b": None}],
    ),
    (
        logical("bytes", "decimal", precision=9, scale=2),
        pa.decimal128(9, 2),
        [Decimal("-12.34"), Decimal("0.00")],
    ),
    (
        logical("bytes", "decimal", precision=60, scale=3),
        pa.decimal256(60, 3),
        [Decimal("9" * 50 + ".123")],
    ),
    (
        fixed(8, logicalType="decimal", precision=18, scale=0),
        pa.decimal128(18, 0),
        [Decimal(10**17)],
    ),
    (
        logical("int", "date"),
        pa.date32(),
        [datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)],
    ),
    (logical("int", "time-millis"), pa.time32("ms"), [datetime.time(23, 59, 59, 999000)]),
    (logical("long", "time-micros"), pa.time64("us"), [datetime.time(0, 0, 0, 1)]),
    (
        logical("long", "timestamp-millis"),
        pa.timestamp("ms", "UTC"),
        [NOW.replace(microsecond=5000)],
    ),
    (
        logical("long", "timestamp-micros"),
        pa.timestamp("us", "UTC"),
        [NOW, NOW.replace(year=4)],
    ),
    (logical("long", "local-timestamp-micros"), pa.timestamp("us"), [LOCAL]),
    (
        record({"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"]}),
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [{"x": 1, "y": None}, {"x": 2, "y": "b"}],
    ),
]


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decoded(schema: Any, payload: bytes) -> DecodedField:
    decoder = AvroDecoder(json.dumps(schema))
    return DecodedField(decoder.json(payload).text, made_by=decoder)


def column(schema: Any) -> AvroColumn:
    return AvroColumn(AvroDecoder(json.dumps(schema)).schema)


@pytest.mark.parametrize(("schema", "kind", "values"), EACH_TYPE, ids=lambda each: str(each)[:40])
def test_each_type_has_the_values_that_fastavro_reads(
    schema: Any, kind: Any, values: list[Any]
) -> None:
    payloads = [written(schema, value) for value in values]
    parsed = fastavro.parse_schema(schema)
    read: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in payloads
    ]
    found, notes = column(schema).array([decoded(schema, each) for each in payloads])
    expected = [list(each.items()) if pa.types.is_map(kind) else each for each in read]
    assert notes == {}
    assert found.type == kind
    assert found.equals(pa.array(expected, kind))
    found.validate(full=True)


def test_nanoseconds_a_uuid_and_a_duration_keep_all_their_digits() -> None:
    nanos = logical("long", "timestamp-nanos")
    found, _ = column(nanos).array([decoded(nanos, written("long", 1_700_000_000_123_456_789))])
    assert found.cast(pa.int64()).to_pylist() == [1_700_000_000_123_456_789]
    uuid = logical("string", "uuid")
    text = str(UUID(int=7))
    assert column(uuid).array([decoded(uuid, written("string", text))])[0].to_pylist() == [text]
    length = fixed(12, logicalType="duration")
    payload = b"\x01\0\0\0\x02\0\0\0\xff\xff\xff\xff"
    found, _ = column(length).array([decoded(length, payload)])
    assert found.to_pylist() == [{"months": 1, "days": 2, "milliseconds": 2**32 - 1}]


def enum(*symbols: str, **more: Any) -> Any:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def node(*fields: Any) -> Any:
    """A record that holds itself: what its own inner values become is JSON text in a column."""
    return record(*fields, {"name": "next", "type": ["null", "R"], "default": None})


X = {"name": "x", "type": "int"}
RESOLVED: list[tuple[Any, Any, Any]] = [
    ("int", "long", 5),
    ("int", "double", 5),
    ("long", "float", 2**60),
    ("float", "double", 0.5),
    ("string", "bytes", "abcd"),
    ("bytes", "string", b"abcd"),
    ("int", ["null", "long"], 5),
    (["null", "int"], ["null", "long"], None),
    (record(X), record(), {"x": 1}),
    (record(X), record(X, {"name": "y", "type": "string", "default": "new"}), {"x": 1}),
    (record(X), record({"name": "z", "type": "long", "aliases": ["x"]}), {"x": 1}),
    (
        record(X),
        record(X, {"name": "n", "type": ["null", "string"], "default": None}),
        {"x": 1},
    ),
    (
        record(X, {"name": "a", "type": "int"}),
        record({"name": "a", "type": "int"}, X),
        {"x": 1, "a": 2},
    ),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1, 2]),
    (enum("A", "NEW"), enum("A", "OTHER", default="OTHER"), "NEW"),
    (enum("A", "NEW"), enum("A", "OTHER", default="OTHER"), "A"),
    (enum("B", "A"), enum("A", "B"), "A"),
    (
        {"type": "map", "values": enum("A", "NEW")},
        {"type": "map", "values": enum("OTHER", default="OTHER")},
        {"k": "NEW"},
    ),
]


@pytest.mark.parametrize(("writer", "reader", "value"), RESOLVED)
def test_an_older_schemas_value_is_what_fastavro_resolves_it_to(
    writer: Any, reader: Any, value: Any
) -> None:
    payload = written(writer, value)
    expected = fastavro.schemaless_reader(
        io.BytesIO(payload), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )
    reading = column(reader)
    found, notes = reading.array([decoded(writer, payload)])
    assert notes == {}
    assert found.equals(pa.array([_items(expected)], reading.type))
    by_program(reading, AvroDecoder(json.dumps(writer)), payload, found)


def _items(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) and "k" in value else value


def by_program(
    reading: AvroColumn, decoder: AvroDecoder, payload: bytes, expected: pa.Array
) -> None:
    """The program of the schemas has the same value, or leaves it to its twin."""
    program = reading.program(decoder) if extension is not None else None
    if program is not None:
        made, states = read(reading, program, [payload])
        assert states == [REFUSED] or made.equals(expected)


IN_TEXT: list[tuple[str, Any, Any, Any]] = [
    ("a new name", X, {"name": "z", "type": "int", "aliases": ["x"]}, 1),
    ("a wider type", X, {"name": "x", "type": "double"}, 1),
    ("bytes as text", {"name": "x", "type": "bytes"}, {"name": "x", "type": "string"}, b"ab"),
    ("text as bytes", {"name": "x", "type": "string"}, {"name": "x", "type": "bytes"}, "ab"),
    ("a symbol that is gone", {"name": "x", "type": enum("A", "NEW")},
     {"name": "x", "type": enum("A", "OLD", default="OLD")}, "NEW"),
    ("a union of one more", {"name": "x", "type": ["null", "int"]},
     {"name": "x", "type": ["null", "long", "string"]}, 1),
    ("a union of others", {"name": "x", "type": ["int", "string"]},
     {"name": "x", "type": ["string", "double"]}, 1),
    ("an array", {"name": "x", "type": {"type": "array", "items": "int"}},
     {"name": "x", "type": {"type": "array", "items": "double"}}, [1, 2]),
    ("a map", {"name": "x", "type": {"type": "map", "values": "int"}},
     {"name": "x", "type": {"type": "map", "values": "double"}}, {"k": 1}),
    ("the same", X, X, 1),
]  # fmt: skip
"""Fields of a record that holds itself, of a writer and of a reader, and a value."""


@pytest.mark.parametrize(
    "more", [None, {"name": "new", "type": "bytes", "default": "\u00ff"}], ids=str
)
@pytest.mark.parametrize(("change", "old", "new", "value"), IN_TEXT)
def test_what_is_text_in_a_column_has_the_readers_names_symbols_and_defaults_as_fastavro(
    change: str, old: Any, new: Any, value: Any, more: Any
) -> None:
    # Each in a record inside of itself, and in a union of several types.
    inner = {"x": value, "next": {"x": value, "next": None}}
    for writer, reader, data, path in (
        (node(old), node(new, *([more] if more else [])), {"x": value, "next": inner}, "next"),
        (
            record({"name": "u", "type": ["int", node(old)]}) | {"name": "Outer"},
            record({"name": "u", "type": ["string", node(new)]}) | {"name": "Outer"},
            {"u": inner},
            "u",
        ),
    ):
        payload = written(writer, data)
        expected = fastavro.schemaless_reader(
            io.BytesIO(payload), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
        )
        reading = column(reader)
        found, notes = reading.array([decoded(writer, payload)])
        assert notes == {}, change
        shown = json.loads(found.to_pylist()[0][path])
        assert shown == _as_json(expected[path]), change
        by_program(reading, AvroDecoder(json.dumps(writer)), payload, found)


def _as_json(value: Any) -> Any:
    """A value of fastavro as our JSON: bytes in base64; fastavro leaves the default of bytes as text."""
    if isinstance(value, dict):
        return {name: "/w==" if name == "new" else _as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(
    ("writer", "reader", "value", "reason"),
    [
        ("long", "int", 5, "type long is not read as int"),
        ("string", "long", "5", "type string is not read as long"),
        (record(X), record({"name": "y", "type": "int"}), {"x": 1}, "no field y"),
        (record(X), record({"name": "x", "type": "string"}), {"x": 1}, "field x: type int"),
        (fixed(3), fixed(4), b"abc", "is not read as"),
    ],
)
def test_a_value_that_fastavro_does_not_resolve_is_null_with_a_note(
    writer: Any, reader: Any, value: Any, reason: str
) -> None:
    payload = written(writer, value)
    with pytest.raises(fastavro.read.SchemaResolutionError):
        fastavro.schemaless_reader(
            io.BytesIO(payload), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
        )
    found, notes = column(reader).array([decoded(writer, payload)])
    assert found.to_pylist() == [None]
    assert reason in notes[0]


def test_a_default_of_bytes_has_a_byte_for_each_character_as_the_specification_says() -> None:
    # fastavro leaves the text.
    cents = logical("bytes", "decimal", precision=4, scale=2)
    reader = record(
        X,
        {"name": "b", "type": "bytes", "default": "\u00ff"},
        {"name": "d", "type": cents, "default": "\u0001"},
    )
    found, notes = column(reader).array([decoded(record(X), written(record(X), {"x": 1}))])
    assert notes == {}
    assert found.to_pylist() == [{"x": 1, "b": b"\xff", "d": Decimal("0.01")}]


def test_a_misfit_leaves_the_values_beside_it() -> None:
    kind = logical("bytes", "decimal", precision=3, scale=1)
    wide = logical("bytes", "decimal", precision=9, scale=1)
    fields: list[DecodedField | None] = [
        decoded(wide, written(wide, Decimal(text))) for text in ("12.3", "12345.6", "-99.9")
    ]
    found, notes = column(kind).array(fields)
    assert found.to_pylist() == [Decimal("12.3"), None, Decimal("-99.9")]
    assert list(notes) == [1]
    late = logical("int", "time-millis")
    found, notes = column(late).array(
        [decoded(late, written("int", each)) for each in (0, 86_400_000, -1)]
    )
    assert found.to_pylist() == [datetime.time(0), None, None]
    assert list(notes) == [1, 2]


def test_unions_and_recursion_are_json_text() -> None:
    several = ["null", "int", "string", {"type": "array", "items": "int"}]
    values = [None, 5, "a", [1]]
    found, _ = column(several).array([decoded(several, written(several, each)) for each in values])
    assert found.to_pylist() == [None, "5", '"a"', "[1]"]
    node = record({"name": "v", "type": "int"}, {"name": "next", "type": ["null", "R"]})
    value = {"v": 1, "next": {"v": 2, "next": None}}
    found, _ = column(node).array([decoded(node, written(node, value))])
    assert found.to_pylist() == [{"v": 1, "next": '{"v":2,"next":null}'}]


def test_deep_and_wide_schemas_are_bounded() -> None:
    deep: Any = "int"
    for _ in range(MOST_NESTED + 5):
        deep = {"type": "array", "items": deep}
    assert str(column(deep).type).count("list") == MOST_NESTED
    kind: Any = "int"
    for level in range(20):
        again = kind if kind == "int" else kind["name"]
        kind = record({"name": "a", "type": kind}, {"name": "b", "type": again})
        kind["name"] = f"T{level}"
    with pytest.raises(ValueError, match="more than 10000 columns"):
        arrow_type(AvroDecoder(json.dumps(kind)).schema)


def test_a_scan_has_the_columns_of_the_newest_schema_and_notes_on_misfits() -> None:
    with kafkafs.open(CONFLUENT) as source:
        table = source.scan("deleted-version", decode="columns").to_arrow()
        texts = source.scan("deleted-version", columns=["decodedValue"]).to_arrow()
    assert table.schema.field("value").type == pa.struct(
        [("id", pa.int32()), ("more", pa.string())]
    )
    seen = set()
    for row, text in zip(table.to_pylist(), texts["decodedValue"].to_pylist(), strict=True):
        written_value = json.loads(text)
        fits = "more" in written_value
        seen.add(fits)
        assert row["value"] == (written_value if fits else None)
        assert (row["valueNote"] is None) == fits
        assert fits or "no field more" in row["valueNote"]
    assert seen == {True, False}


def test_a_scan_filters_on_fields_and_travels_to_other_processes() -> None:
    with kafkafs.open(CONFLUENT) as source:
        scan = source.scan(
            "python-avro",
            columns=["value", "offset"],
            decode="columns",
            where=pc.field("value", "amount") > Decimal("10.00"),
        )
        found = scan.to_arrow()
        again = pickle.loads(pickle.dumps(scan)).to_arrow()
        everything = source.scan("python-avro", columns=["value"], decode="columns").to_arrow()
    amounts = [row["amount"] for row in found["value"].to_pylist()]
    every = [row["amount"] for row in everything["value"].to_pylist()]
    assert amounts == [each for each in every if each > 10]
    assert len(amounts) < len(every)
    assert again.equals(found)


@pytest.mark.parametrize("registry", REGISTRIES)
def test_columns_are_the_same_without_the_compiled_programs(
    registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafkafs.open(schema_log_dir(registry)) as source:

        def tables() -> dict[str, Any]:
            found = {}
            for topic in schema_topics(registry):
                with suppress(ValueError):  # no schema of it has columns
                    found[topic] = source.scan(topic, decode="columns").to_arrow()
            return found

        compiled = tables()
        monkeypatch.setattr("kafkafs.forms.arrow.typed.typed_columns.extension", None)
        reference = tables()
    assert len(compiled) > 5
    assert compiled.keys() == reference.keys()
    for topic, table in reference.items():
        found = compiled[topic].combine_chunks()
        assert found.schema == table.schema
        for name, column in zip(table.schema.names, table.combine_chunks().columns, strict=True):
            assert equal(found[name].combine_chunks(), column.combine_chunks()), (topic, name)


def test_protobuf_topics_have_the_columns_of_their_newest_schema() -> None:
    with kafkafs.open(CONFLUENT) as source:
        table = source.scan("proto-keys", decode="columns").to_arrow()
        texts = source.scan("proto-keys", columns=["decodedKey", "decodedValue"]).to_arrow()
    assert table.schema.field("value").type == pa.struct(
        [("name", pa.string()), ("age", pa.int32())]
    )
    fits = [note is None for note in table["valueNote"].to_pylist()]
    assert fits.count(True) == 4
    for row, shown, is_there in zip(table.to_pylist(), texts.to_pylist(), fits, strict=True):
        assert row["key"] == json.loads(shown["decodedKey"])
        if is_there:
            assert row["value"] == {"age": 0, **json.loads(shown["decodedValue"])}
        else:
            assert row["value"] is None
            assert "it is a message NoPackage.In, not NoPackage" in row["valueNote"]


def mapping_to(folder: Path, message: str) -> str:
    path = folder / "messages.toml"
    path.write_text(f"[topics.proto-keys]\nvalue = {{ message = '{message}' }}\n")
    return str(path)


@pytest.mark.parametrize("message", ["NoPackage.In", "In"])
def test_a_mapping_chooses_the_message_of_columns(message: str, tmp_path: Path) -> None:
    with kafkafs.open(CONFLUENT) as source:
        usual = source.scan("proto-keys", decode="columns").to_arrow()
        texts = source.scan("proto-keys", columns=["decodedValue"]).to_arrow()
    with kafkafs.open(CONFLUENT, schemas=["auto", mapping_to(tmp_path, message)]) as source:
        chosen = source.scan("proto-keys", decode="columns").to_arrow()
        again = source.scan("proto-keys", columns=["decodedValue"]).to_arrow()
    assert again == texts
    assert chosen["key"] == usual["key"]
    rows = zip(
        usual.to_pylist(), chosen.to_pylist(), texts["decodedValue"].to_pylist(), strict=True
    )
    for row, other, text in rows:
        assert (row["value"] is None) != (other["value"] is None)
        if other["value"] is None:
            assert "it is a message NoPackage, not NoPackage.In" in other["valueNote"]
        else:
            assert other["value"].items() >= json.loads(text).items()


def test_a_message_that_the_schema_lacks_is_refused(tmp_path: Path) -> None:
    said = (
        r"proto-keys-value version 2 \(id [0-9]+\): the schema has no message Out, which a mapping"
    )
    with (
        kafkafs.open(CONFLUENT, schemas=["auto", mapping_to(tmp_path, "Out")]) as source,
        pytest.raises(SchemaFileError, match=said),
    ):
        source.scan("proto-keys", decode="columns")


def test_nanoseconds_refuse_the_times_that_microseconds_hold() -> None:
    with kafkafs.open(CONFLUENT) as source:
        usual = source.scan("proto-known", decode="columns")
        finer = pickle.loads(
            pickle.dumps(source.scan("proto-known", decode="columns", nanoseconds=True))
        )
        with pytest.raises(ValueError, match="nanoseconds are for decode"):
            source.scan("proto-known", nanoseconds=True)
        for scan, unit, notes in ((usual, "us", set()), (finer, "ns", {1, 7})):
            table = scan.to_arrow()
            assert table.schema.field("value").type.field("at").type == pa.timestamp(unit, "UTC")
            found = zip(table["offset"].to_pylist(), table["valueNote"].to_pylist(), strict=True)
            assert {offset for offset, note in found if note is not None} == notes


def test_only_one_topic_with_a_schema_of_columns_has_them() -> None:
    with kafkafs.open(CONFLUENT) as source:
        with pytest.raises(ValueError, match="one topic, not of 0"):
            source.scan(decode="columns")
        with pytest.raises(
            ValueError, match="no Avro or Protobuf schema of keys or values of 'json-types'"
        ):
            source.scan("json-types", decode="columns")
        with pytest.raises(ValueError, match='decode is "none", "json", "columns"'):
            source.scan("proto2", decode="struct")
