"""Compiled programs of Avro schemas: the JSON of the reader in Python byte for byte, and no value that the reader refuses."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from engine.kernel import compiled as kernel
from engine.lines.json_text import Values
from engine.lines.line_decoder import LineDecoder
from kafkafs.schemas.decoders import avro_program
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.avro_reader import double_json, float_json
from kafkafs.schemas.decoders.avro_schema import parse_avro
from kafkafs.schemas.decoders.cache import DecoderCache
from kafkafs.schemas.decoders.limits import MOST_BYTES
from kafkafs.schemas.decoders.value_decoder import DecodedJson, Payloads, ValueDecoder, json_bytes
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.fingerprint import fingerprint_of
from kafkafs.schemas.programs import compiled
from kafkafs.schemas.schema import Schema, SchemaKind
from kafkafs.schemas.store import SchemaStore
from kafkafs.schemas.topic_decoder import TopicSchemas
from tests import builders
from tests.builders import Rec
from tests.engine.kernel.kernels import table_of
from tests.kafkafs.schemas.decoders.test_avro import NODE, TREE, fixed, logical, typed, written

LOGICAL = [
    logical("int", "date"),
    logical("int", "time-millis"),
    logical("long", "time-micros"),
    *(logical("long", f"{zone}timestamp-{unit}") for zone in ("", "local-") for unit in ("millis", "micros", "nanos")),
    logical("bytes", "decimal", precision=30, scale=4),
    logical("bytes", "decimal", precision=5),
    logical(fixed(9), "decimal", precision=20, scale=20),
    logical("string", "uuid"),
    logical(fixed(16), "uuid"),
    logical(fixed(12), "duration"),
    fixed(0),
    fixed(5),
    "float",
    "double",
    "bytes",
]  # fmt: skip
HOSTILE = [
    NODE,
    TREE,
    '{"type":"array","items":"null"}',
    '{"type":"array","items":{"type":"record","name":"E","fields":[]}}',
    '{"type":"array","items":{"type":"enum","name":"E","symbols":["a","é\\u200b\\"",""]}}',
    '{"type":"map","values":{"type":"map","values":"int"}}',
    '["null",{"type":"array","items":["int","string"]}]',
    *(json.dumps(each) for each in LOGICAL),
]


def said(decoder: AvroDecoder, payload: bytes) -> DecodedJson | str:
    """What the reader in Python says."""
    try:
        return ValueDecoder.json(decoder, payload)
    except UndecodableError as error:
        return str(error)


def program_says(decoder: AvroDecoder, payload: bytes) -> DecodedJson | None:
    assert decoder._program is not None
    found = decoder._program.json(payload)
    return None if found is None else DecodedJson(*found)


def check_agreement(decoder: AvroDecoder, payload: bytes) -> None:
    """Both read the value alike, or both refuse it; the decoder has the reader's words."""
    reference, found = said(decoder, payload), program_says(decoder, payload)
    if isinstance(reference, str):
        assert found is None, (payload, reference, found)
        with pytest.raises(UndecodableError) as refused:
            decoder.json(payload)
        assert str(refused.value) == reference
    elif found is None:
        is_large_decimal = len(reference.text.strip(b'"-').replace(b".", b"")) >= 38
        assert b"{" in reference.text or is_large_decimal, (payload, reference)
    else:
        assert found == reference


# -- the same JSON ---------------------------------------------------------------------------------


@settings(max_examples=100)
@given(typed())
def test_a_program_writes_the_json_of_the_reader(made: tuple[Any, Any]) -> None:
    schema, value = made
    decoder, payload = AvroDecoder(json.dumps(schema)), written(schema, value)
    assert program_says(decoder, payload) == said(decoder, payload)


@pytest.mark.parametrize("schema", LOGICAL, ids=json.dumps)
def test_a_program_writes_each_logical_type_as_the_reader(schema: Any) -> None:
    chance = Random(7)
    decoder = AvroDecoder(json.dumps(schema))
    is_read = 0
    for _ in range(400):
        number = chance.choice(
            (chance.getrandbits(64), chance.getrandbits(chance.randrange(1, 60)))
        )
        payload = chance.choice((number_bytes(number), sized(chance), chance.randbytes(16)))
        check_agreement(decoder, payload)
        is_read += not isinstance(said(decoder, payload), str)
    assert is_read > 3


def number_bytes(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def sized(chance: Random) -> bytes:
    data = chance.randbytes(chance.randrange(17))
    return number_bytes(2 * len(data)) + data


def test_doubles_have_the_digits_of_python() -> None:
    chance = Random(1)
    numbers = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(5000)]
    numbers += [round(chance.uniform(-1e6, 1e6), chance.randrange(8)) for _ in range(5000)]
    numbers += [sign * 2.0**power for power in range(-1074, 1024) for sign in (1, -1)]
    numbers += [
        0.0,
        -0.0,
        1e16,
        9999999999999998.0,
        1e15,
        1e-4,
        9.9e-5,
        5e-324,
        1.7976931348623157e308,
    ]
    for number in numbers:
        assert compiled.float_text(number) == json_bytes(double_json(number)), number


def test_floats_have_the_fewest_digits_that_the_reader_finds() -> None:
    chance = Random(2)
    bits = [chance.getrandbits(32) for _ in range(5000)]
    bits += [(power << 23) + more & 0xFFFFFFFF for power in range(255) for more in range(-3, 4)]
    numbers = [struct.unpack("<f", struct.pack("<I", each))[0] for each in bits]
    numbers += [round(chance.uniform(-1000, 1000), chance.randrange(5)) for _ in range(5000)]
    for number in numbers:
        rounded = struct.unpack("<f", struct.pack("<f", number))[0]
        assert compiled.float_text(rounded, False) == json_bytes(float_json(rounded)), number


# -- hostile bytes ---------------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    typed(), st.binary(max_size=12), st.integers(0, 200), st.sampled_from(["cut", "flip", "put"])
)
def test_a_program_refuses_what_the_reader_refuses(
    made: tuple[Any, Any], more: bytes, place: int, how: str
) -> None:
    schema, value = made
    data = bytearray(written(schema, value))
    at = place % (len(data) + 1)
    if how == "cut":
        data = data[:at] + more
    elif how == "flip" and at < len(data):
        data[at] ^= 1 << place % 8
    else:
        data[at:at] = more
    check_agreement(AvroDecoder(json.dumps(schema)), bytes(data))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_program_and_the_reader_take_the_same_random_bytes(text: str) -> None:
    chance = Random(3)
    decoder = AvroDecoder(text)
    edges = (
        b"\x02",
        b"\x04",
        b"\x01",
        b"\x00",
        b"\x80",
        b"\xff" * 9 + b"\x01",
        b"\xff" * 10,
        b"\x08\xff",
    )
    for _ in range(100):
        parts = [
            chance.choice(edges) if chance.random() < 0.7 else chance.randbytes(2)
            for _ in range(chance.randrange(9))
        ]
        check_agreement(decoder, b"".join(parts))


@pytest.mark.parametrize("depth", [126, 127, 128, 129, 5000])
def test_a_program_stops_at_the_depth_of_the_reader(depth: int) -> None:
    check_agreement(AvroDecoder(NODE), b"\x02" * depth + b"\x00")
    items = '{"type":"array","items":' * 120 + '"int"' + "}" * 120
    check_agreement(AvroDecoder(items), b"\x02" * depth)


def test_a_program_pays_as_the_reader() -> None:
    decoder = AvroDecoder('{"type":"array","items":{"type":"record","name":"E","fields":[]}}')
    for count in (900_000, 980_000, 986_894, 986_895, 986_896, 990_000, 2**40, 2**62):
        check_agreement(decoder, number_bytes(2 * count) + b"\0")
    for count in (-(2**63), -(2**62)):
        check_agreement(decoder, number_bytes(-2 * count - 1) + b"\0\0")


def test_a_key_that_a_map_has_twice_is_left_to_the_reader() -> None:
    decoder = AvroDecoder('{"type":"map","values":"int"}')
    twice = written({"type": "map", "values": "int"}, {"a": 1, "b": 2}).replace(b"b", b"a")
    assert program_says(decoder, twice) is None
    assert decoder.json(twice) == DecodedJson(b'{"a":2}')
    many = written({"type": "map", "values": "int"}, {str(each): each for each in range(5000)})
    assert program_says(decoder, many) == said(decoder, many)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        '[["int"],"string"]',
        '{"type":"bytes","logicalType":"decimal","precision":4000,"scale":1001}',
        '{"type":"enum","name":"E","symbols":["\\ud800"]}',
    ],
)
def test_a_schema_that_programs_do_not_serve_has_none(text: str) -> None:
    assert avro_program.program_of(parse_avro(text)) is None
    check = AvroDecoder(text)
    assert check.texts(Payloads(b"\0", np.array([0]), np.array([1])), b"", 100) is None
    assert isinstance(said(check, b"\0\0\0\0"), (str, DecodedJson))


def test_a_program_that_leads_out_of_itself_is_not_run() -> None:
    step = struct.Struct("=6i")
    for wrong in (
        (10, 0, 0, 0, 1, 0),
        (8, 0, -1, 0, 0, 0),
        (23, 0, 0, 0, 0, 0),
        (15, 1, 10, 0, 0, 0),
        (11, 0, 0, 0, 0, 0),
    ):
        with pytest.raises(ValueError, match="leads out"):
            compiled.AvroProgram(step.pack(*wrong), b"", b"", 100)
    with pytest.raises(ValueError, match="leads out"):
        compiled.AvroProgram(step.pack(10, 0, 0, 0, 1, 0), struct.pack("=4i", 1, 0, 0, 0), b"", 100)
    with pytest.raises(ValueError, match="leads out"):
        compiled.AvroProgram(b"", b"", b"", 100)


# -- many values at once ---------------------------------------------------------------------------

LONG = '{"type":"record","name":"R","fields":[{"name":"n","type":"long"},{"name":"s","type":["null","string"]}]}'


def test_many_values_have_their_texts_until_there_is_enough() -> None:
    decoder = AvroDecoder('"string"')
    arena = b"\x02a|\x04bc|\x02\xff|\x02d"
    starts, sizes = np.array([0, 3, 7, 9, 10, 0]), np.array([2, 3, 2, 0, 2, -1])
    made = decoder.texts(Payloads(arena, starts, sizes), b"!", 10**6)
    assert made is not None
    assert made.text == b'"a"!"bc"!"d"!'
    assert made.places.tolist() == [[0, 4], [4, 5], [9, -1], [9, -1], [9, 4], [13, -1]]
    made = decoder.texts(Payloads(arena, starts, sizes), b"!", 5)
    assert made is not None
    assert len(made.places) == 2
    made = decoder.texts(Payloads(arena, starts, sizes), b"!", 0)
    assert made is not None
    assert len(made.places) == 1


@pytest.mark.parametrize(("start", "size"), [(-1, 2), (0, 99), (13, 0), (2**62, 5)])
def test_a_value_outside_of_the_buffer_is_refused(start: int, size: int) -> None:
    decoder = AvroDecoder('"string"')
    with pytest.raises(ValueError, match="outside"):
        decoder.texts(Payloads(b"\x02a|\x04bc", np.array([start]), np.array([size])), b"", 9)


def schema(id_: int, text: str = LONG, subject: str = "", version: int = 1) -> Schema:
    return Schema(
        SchemaKind.AVRO, text, subject=subject or f"s{id_}-value", version=version, id=id_
    )


STORE = SchemaStore(
    [
        schema(1),
        schema(2, '"string"'),
        schema(3, '"bytes"'),
        schema(4, "no schema"),
        schema(5, '"int"', "t-value"),
        schema(5, '"int"', "u-value"),
        schema(6, '"int"', "a"),
        schema(6, '"int"', "b"),
        schema(7, '{"type":"map","values":"long"}'),
    ]
)


def field_of(chance: Random) -> bytes | None:
    value = written(
        json.loads(LONG),
        {"n": chance.getrandbits(40), "s": chance.choice((None, "é\u200b", "x" * 300))},
    )
    value = chance.choice((value, value[:-1], value + b"!", b"\x02a", b"\x08", chance.randbytes(6)))
    id_ = chance.choice((1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8)).to_bytes(4, "big")
    fingerprint = fingerprint_of(STORE.schemas[0])
    assert fingerprint is not None
    forms = (
        b"\0" + id_ + value, b"\0" + id_ + value, b"\0\0", b"Objects", b"Obj\1abc", b"text", None, b"", b"{}",
        b"\xc3\x01" + fingerprint.to_bytes(8, "little") + value, b"\xc3\xa9", b"\3\0" + bytes(16) + value,
    )  # fmt: skip
    return chance.choice(forms)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.sampled_from([1, 200, 10**6]), st.booleans())
def test_lines_of_many_records_are_those_of_each_record(
    chance: Random, enough: int, mapped: bool
) -> None:
    records = [
        Rec(field_of(chance), field_of(chance), chance.choice((-1, 0, 10**12)), [(b"__value_schema_id", b"\0\0\0\0\1")] if chance.random() < 0.1 else [(b"h", b"1")])
        for _ in range(chance.randrange(1, 60))
    ]  # fmt: skip
    data = builders.batch(records)
    columns = kernel.decode(data, table_of(data), 0, 1, start_position=0)
    topic = TopicSchemas("t", lambda: STORE, DecoderCache(), is_mapped=mapped)
    whole = LineDecoder.texts(topic, columns, Values.AUTO, 10**9)
    made = topic.texts(columns, Values.AUTO, enough)
    assert 1 <= len(made.places) <= len(columns)
    assert [made.of(row) for row in range(len(made.places))] == [
        whole.of(row) for row in range(len(made.places))
    ]
    if enough == 10**6:
        assert len(made.places) == len(columns)
        assert not made.is_plain or (whole.places[:, 1::2] < 0).all()


def test_values_of_one_schema_are_not_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    value = b"\0\0\0\0\1" + written(json.loads(LONG), {"n": 5, "s": "x"})
    data = builders.batch([Rec(value, value)] * 500)
    columns = kernel.decode(data, table_of(data), 0, 1, start_position=0)
    topic = TopicSchemas("t", lambda: STORE, DecoderCache())
    monkeypatch.delattr(TopicSchemas, "field")
    texts = topic.texts(columns, Values.AUTO, 10**9)
    expected = (
        b'{"n":5,"s":"x"},"valueEncoding":"avro","schema":{"id":1,"subject":"s1-value","version":1}'
    )
    assert {texts.of(row)[1] for row in range(500)} == {expected}


def test_without_the_extension_lines_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(4)
    data = builders.batch([Rec(field_of(chance), field_of(chance)) for _ in range(200)])
    columns = kernel.decode(data, table_of(data), 0, 1, start_position=0)

    def lines() -> list[tuple[bytes | None, bytes | None]]:
        topic = TopicSchemas("t", lambda: STORE, DecoderCache())
        made = topic.texts(columns, Values.AUTO, 10**9)
        return [made.of(row) for row in range(200)]

    with_it = lines()
    monkeypatch.setattr(avro_program, "extension", None)
    monkeypatch.setattr("kafkafs.schemas.topic_decoder.extension", None)
    assert AvroDecoder(LONG)._program is None
    assert lines() == with_it


def test_a_value_above_the_limit_is_left_to_the_reader() -> None:
    decoder = AvroDecoder('"bytes"')
    arena = bytes(MOST_BYTES + 1)
    made = decoder.texts(Payloads(arena, np.array([0]), np.array([MOST_BYTES + 1])), b"", 100)
    assert made is not None
    assert made.places.tolist() == [[0, -1]]
