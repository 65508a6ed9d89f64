"""Avro payloads: decoded as fastavro reads them, in the JSON form of record lines, and refused with a reason."""

from __future__ import annotations

import io
import json
import math
import struct
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings, strategies as st

from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.limits import MOST_BYTES
from kafkafs.schemas.errors import UndecodableError

NODE = '{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}'
TREE = '{"type":"record","name":"T","fields":[{"name":"l","type":"T"},{"name":"r","type":"T"}]}'


def written(schema: object, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def logical(base: object, name: str, **more: object) -> dict[str, object]:
    kind = base if isinstance(base, dict) else {"type": base}
    return {**kind, "logicalType": name, **more}


def fixed(size: int) -> dict[str, object]:
    return {"type": "fixed", "name": "F", "size": size}


# -- equal to fastavro -----------------------------------------------------------------------------

numbers = st.floats(allow_nan=False, allow_infinity=False)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": numbers,
    "string": st.text(),
}


@st.composite
def typed(draw: st.DrawFn, depth: int = 0, number: list[int] | None = None) -> tuple[Any, Any]:
    """A schema and a value of it, whose JSON is the value itself."""
    names = [0] if number is None else number
    kinds = [*PRIMITIVES, "enum", *(["array", "map", "record", "union"] if depth < 3 else [])]
    kind = draw(st.sampled_from(kinds))
    names[0] += 1
    name = f"n{names[0]}"
    if kind in PRIMITIVES:
        return kind, draw(PRIMITIVES[kind])
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B"]}, draw(st.sampled_from("AB"))
    if kind == "record":
        fields = [draw(typed(depth + 1, names)) for _ in range(draw(st.integers(0, 4)))]
        schema = [{"name": f"f{place}", "type": each} for place, (each, _) in enumerate(fields)]
        value = {f"f{place}": each for place, (_, each) in enumerate(fields)}
        return {"type": "record", "name": name, "fields": schema}, value
    schema, value = draw(typed(depth + 1, names))
    count = draw(st.integers(0, 3))
    if kind == "array":
        return {"type": "array", "items": schema}, [value] * count
    if kind == "map":
        return {"type": "map", "values": schema}, {f"k{place}": value for place in range(count)}
    if isinstance(schema, list) or schema == "null":
        return ["null", "string"], draw(st.none() | st.text())
    return ["null", schema], draw(st.sampled_from([None, value]))


@settings(max_examples=150)
@given(typed())
def test_values_are_those_of_fastavro(made: tuple[Any, Any]) -> None:
    schema, value = made
    data = written(schema, value)
    decoder = AvroDecoder(json.dumps(schema))
    assert fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema)) == value
    assert decoder.decode(data) == value
    text, left, _ = decoder.json(data)
    assert (json.loads(text), left) == (value, 0)


@settings(max_examples=100)
@given(typed(), st.binary(max_size=40))
def test_any_bytes_decode_or_give_a_reason(made: tuple[Any, Any], data: bytes) -> None:
    decoder = AvroDecoder(json.dumps(made[0]))
    for each in (data, written(*made)[:-1]):
        with suppress(UndecodableError):
            json.loads(decoder.json(each).text)


# -- JSON form -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "data", "shown"),
    [
        ("float", struct.pack("<f", 0.1), 0.1),
        ("float", struct.pack("<f", 3.4028234663852886e38), 3.4028235e38),
        ("float", struct.pack("<f", 16777217.0), 16777216.0),
        ("float", struct.pack("<f", 1e-45), 1e-45),
        ("boolean", b"\x02", False),
        ("double", struct.pack("<d", math.nan), "NaN"),
        ("double", struct.pack("<d", math.inf), "Infinity"),
        ("float", struct.pack("<f", -math.inf), "-Infinity"),
        ("bytes", b"\x04\x00\xff", "AP8="),
        (fixed(3), b"abc", "YWJj"),
        (logical("bytes", "decimal", precision=4, scale=2), b"\x04\x04\xd2", "12.34"),
        (logical("bytes", "decimal", precision=4, scale=2), b"\x02\xff", "-0.01"),
        (logical("bytes", "decimal", precision=4), b"\x00", "0"),
        (logical(fixed(2), "decimal", precision=3, scale=1), b"\xff\x9c", "-10.0"),
        (logical("bytes", "decimal", precision=2, scale=3), b"\x02\x01", "AQ=="),
        (logical(fixed(1), "decimal", precision=3), b"\x01", "AQ=="),
        (logical("bytes", "big-decimal"), b"\x08\x04\x04\xd2\x04", "12.34"),
        (logical("int", "date"), b"\xb6\xb3\x02", "2023-11-14"),
        (logical("int", "date"), b"\x01", "1969-12-31"),
        (logical("long", "date"), b"\x02", 1),
        (logical("int", "time-millis"), b"\x02", "00:00:00.001"),
        (logical("int", "time-millis"), b"\x01", -1),
        (logical("long", "time-micros"), b"\x02", "00:00:00.000001"),
        (logical("long", "timestamp-millis"), b"\x02", "1970-01-01T00:00:00.001Z"),
        (logical("long", "timestamp-micros"), b"\x01", "1969-12-31T23:59:59.999999Z"),
        (logical("long", "timestamp-nanos"), b"\x02", "1970-01-01T00:00:00.000000001Z"),
        (logical("long", "local-timestamp-millis"), b"\x02", "1970-01-01T00:00:00.001"),
        (logical("long", "timestamp-millis"), b"\xff" * 9 + b"\x01", -(2**63)),
        (logical("string", "uuid"), b"\x04ab", "ab"),
        (logical(fixed(16), "uuid"), bytes(16), "00000000-0000-0000-0000-000000000000"),
        (
            logical(fixed(12), "duration"),
            b"\1\0\0\0\2\0\0\0\3\0\0\0",
            {"months": 1, "days": 2, "milliseconds": 3},
        ),
        (logical("int", "of-my-own"), b"\x02", 1),
        ({"type": {"type": "string", "avro.java.string": "String"}}, b"\x02a", "a"),
    ],
)
def test_a_type_has_its_json_form(schema: object, data: bytes, shown: object) -> None:
    decoder = AvroDecoder(json.dumps(schema))
    assert decoder.decode(data) == shown
    assert json.loads(decoder.json(data).text) == shown


def test_what_must_not_be_printed_is_escaped() -> None:
    text = AvroDecoder('"string"').json(b"\x0a" + "a\u202e\x7f".encode()).text
    assert text == b'"a\\u202e\\u007f"'


def test_names_are_found_by_namespace_and_in_references() -> None:
    money = (
        '{"type":"record","name":"Money","namespace":"com.x","fields":[{"name":"c","type":"int"}]}'
    )
    order = json.dumps(
        {"type": "record", "name": "com.x.Order", "fields": [
            {"name": "a", "type": "Money"}, {"name": "b", "type": "com.x.Money"},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X"]}},
            {"name": "f", "type": "com.x.E"},
        ]}
    )  # fmt: skip
    found = AvroDecoder(order, [money]).decode(b"\x02\x04\x00\x00")
    assert found == {"a": {"c": 1}, "b": {"c": 2}, "e": "X", "f": "X"}


def test_bytes_behind_the_value_are_counted() -> None:
    assert AvroDecoder('"int"').json(b"\x02rest").left == 4


def test_an_array_in_blocks_with_sizes_is_whole() -> None:
    assert AvroDecoder('{"type":"array","items":"int"}').decode(
        b"\x03\x04\x02\x04\x02\x06\x00"
    ) == [1, 2, 3]


# -- hostile bytes and schemas ---------------------------------------------------------------------

ARRAY = '{"type":"array","items":"%s"}'
LARGEST = b"\xfe" + b"\xff" * 8 + b"\x01"
LEAST = b"\xff" * 9 + b"\x01"


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        ('"long"', b"", "the bytes end before the value does"),
        ('"long"', b"\x80", "the bytes end before the value does"),
        ('"double"', b"1234567", "the bytes end before the value does"),
        ('"long"', b"\xff" * 10, "a number has more than 10 bytes"),
        ('"long"', b"\xff" * 9 + b"\x02", "a number has more than 64 bits"),
        ('"int"', b"\xff" * 5, "a number has more than 5 bytes"),
        ('"int"', b"\x80\x80\x80\x80\x10", "an int has more than 32 bits"),
        ('"string"', b"\x02\xff", "a string is not UTF-8"),
        ('"string"', b"\x06ab", "3 bytes are stated, 2 are left"),
        ('"bytes"', b"\x01", "a size is -1"),
        ('"bytes"', LARGEST, "9223372036854775807 bytes are stated, 0 are left"),
        ('["null","int"]', b"\x04", "a union has no branch 2, only 2"),
        ('["null","int"]', b"\x01", "a union has no branch -1, only 2"),
        ('[]', b"\x00", "a union has no branch 0, only 0"),
        ('{"type":"enum","name":"E","symbols":["A"]}', b"\x02", "an enum has no symbol 1, only 1"),
        (ARRAY % "int", LARGEST, "9223372036854775807 items are stated, 0 bytes are left"),
        (ARRAY % "int", b"\x03\x7f", "2 items are stated, 0 bytes are left"),
        (ARRAY % "int", LEAST + b"\0", "9223372036854775808 items are stated, 0 bytes are left"),
        ('{"type":"map","values":"int"}', LEAST + LEAST, "9223372036854775808 items are stated, 0"),
        (ARRAY % "null", LARGEST, "the value takes more than 67108864 bytes of JSON"),
        ('{"type":"map","values":"null"}', LARGEST, "9223372036854775807 items are stated, 0"),
        (NODE, b"\x02" * 3_000_000, "the value is nested deeper than 128 levels"),
        (TREE, b"", "the value is nested deeper than 128 levels"),
        ('"bytes"', b"\0" * (MOST_BYTES + 1), "bytes are not decoded, the limit is"),
        ('{"type":"bytes","logicalType":"decimal","precision":9}',
         b"\xd0\x0f" + b"\x7f" * 1000 + b"\xd0\x0f" + b"\0" * 1000, ""),
    ],
    ids=range(25),
)  # fmt: skip
def test_hostile_bytes_give_a_reason(schema: str, data: bytes, reason: str) -> None:
    decoder = AvroDecoder(schema)
    if not reason:
        assert decoder.json(data).left == 1002
        return
    with pytest.raises(UndecodableError) as caught:
        decoder.json(data)
    assert reason in caught.value.reason


def test_values_of_no_bytes_cost_all_the_same() -> None:
    levels = [f'{{"type":"record","name":"R{n}","fields":[{{"name":"a","type":%s}},{{"name":"b","type":"R{n + 1}"}}]}}' for n in range(40)]  # fmt: skip
    schema: str = '{"type":"record","name":"R40","fields":[]}'
    for level in reversed(levels):
        schema = level % schema
    with pytest.raises(UndecodableError, match="more than 67108864 bytes of JSON"):
        AvroDecoder(schema).json(b"")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("no JSON", "the schema is not JSON"),
        ("[" * 100_000, "the schema is not JSON"),
        ("7", "no Avro type: 7"),
        ('"Unknown"', "the schema has no type 'Unknown'"),
        ('{"type":7}', "a schema has no type"),
        ('{"type":"record","name":"R"}', "a schema has no fields"),
        ('{"type":"record","name":"R","fields":[7]}', "a field of 'R' has no name"),
        ('{"type":"record","fields":[]}', "a schema has no name"),
        ('{"type":"fixed","name":"F","size":-1}', "the size of 'F' is -1"),
        ('{"type":"fixed","name":"F","size":1e9}', "the size of 'F' is 1000000000.0"),
        ('{"type":"enum","name":"E","symbols":[1]}', "the symbols of 'E' are no list of strings"),
        ('{"type":"array"}', "a schema has no items"),
        ('{"type":"array","items":' * 200 + '"int"' + "}" * 200, "nested deeper than 128 levels"),
        ('"' + "x" * 5_000_000 + '"', "the schema has 5000002 characters"),
    ],
    ids=range(14),
)
def test_hostile_schemas_give_a_reason(schema: str, reason: str) -> None:
    with pytest.raises(UndecodableError) as caught:
        AvroDecoder(schema)
    assert reason in caught.value.reason


def test_a_record_of_very_many_fields_is_read() -> None:
    fields = ",".join(f'{{"name":"f{n}","type":"int"}}' for n in range(100_000))
    decoder = AvroDecoder(f'{{"type":"record","name":"R","fields":[{fields}]}}')
    assert len(decoder.decode(b"\x02" * 100_000)) == 100_000
