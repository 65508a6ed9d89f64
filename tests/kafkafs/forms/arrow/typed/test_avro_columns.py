"""Programs that read Avro into columns: what the twin makes of each value's JSON, and nothing that the twin refuses."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from engine.lines.line_decoder import DecodedField
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.errors import UndecodableError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")

from kafkafs.forms.arrow.typed.avro_column import AvroColumn  # noqa: E402
from tests.kafkafs.forms.arrow.typed.avro_values import (  # noqa: E402
    FIXED,
    SCALARS,
    Maker,
    number,
    sized,
)
from tests.kafkafs.forms.arrow.typed.reading import (  # noqa: E402
    NULL,
    READ,
    REFUSED,
    TOO_LARGE,
    equal,
    read,
)


def decoder_of(schema: Any) -> AvroDecoder:
    return AvroDecoder(json.dumps(schema))


def by_twin(column: AvroColumn, decoder: AvroDecoder, payload: bytes) -> Any:
    """The array of one value by its twin; None if the value is refused, or does not fit."""
    try:
        text, left, _ = decoder.json(payload)
    except UndecodableError:
        return None
    array, notes = column.array([DecodedField(text, made_by=decoder)])
    return None if notes or left else array


def check(writer: Any, reader: Any, payloads: list[bytes]) -> int:
    """Check that a program and its twin agree; return how many payloads the program read."""
    decoder, column = decoder_of(writer), AvroColumn(decoder_of(reader).schema)
    program = column.program(decoder)
    expected = [by_twin(column, decoder, payload) for payload in payloads]
    if program is None:
        return 0
    array, states = read(column, program, payloads)
    for place, (state, twin) in enumerate(zip(states, expected, strict=True)):
        assert state in (READ, REFUSED)
        if state == READ:
            assert twin is not None, payloads[place]
            assert equal(array.slice(place, 1), twin), payloads[place]
        else:
            assert array[place].as_py() is None
    return states.count(READ)


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_program_has_the_columns_of_its_twin(chance: Random) -> None:
    maker = Maker(chance)
    writer = maker.schema()
    payloads = [maker.payload(writer) for _ in range(4)]
    check(writer, writer, payloads)
    check(writer, maker.newer(writer), payloads)


@settings(max_examples=80, deadline=None)
@given(st.randoms(use_true_random=False), st.binary(max_size=12))
def test_a_program_reads_no_bytes_that_its_twin_refuses(chance: Random, more: bytes) -> None:
    maker = Maker(chance)
    writer = maker.schema()
    good = maker.payload(writer)
    at = chance.randrange(len(good) + 1)
    flipped = bytearray(good)
    if at < len(good):
        flipped[at] ^= 1 << chance.randrange(8)
    payloads = [good, good[:at] + more, bytes(flipped), good[:at] + more + good[at:], good, more]
    check(writer, maker.newer(writer), payloads)


TWIN_ONLY = ("big-decimal", 80)
"""A logical type, and the digits of a decimal, that programs leave to the twin."""


@pytest.mark.parametrize(
    "schema", [*SCALARS, *({**each, "name": "F"} for each in FIXED)], ids=json.dumps
)
def test_a_program_reads_each_scalar_that_its_twin_reads(schema: Any) -> None:
    maker = Maker(Random(5))
    payloads = [maker.payload(schema) for _ in range(40)]
    decoder = decoder_of(schema)
    column = AvroColumn(decoder.schema)
    found = [by_twin(column, decoder, payload) is not None for payload in payloads]
    assert any(found)
    is_read = check(schema, schema, payloads) == sum(found)
    own = () if isinstance(schema, str) else (schema.get("logicalType"), schema.get("precision"))
    assert is_read or any(each in TWIN_ONLY for each in own)


ROW = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "by", "type": {"type": "map", "values": "boolean"}},
        {"name": "n", "type": ["null", "int"]},
    ],
}
GOOD = b"\x02\x02\x02a\0" + b"\x02\x02k\x01\0" + b"\x02\x0a"


def program_of(schema: Any) -> tuple[AvroColumn, Any]:
    decoder = decoder_of(schema)
    column = AvroColumn(decoder.schema)
    return column, column.program(decoder)


def test_a_value_that_ends_early_takes_nothing_from_the_values_beside_it() -> None:
    column, program = program_of(ROW)
    whole = {"tags": ["a"], "by": [("k", True)], "n": 5}
    payloads = [GOOD, *(GOOD[:size] for size in range(len(GOOD))), None, GOOD + b"\0", GOOD]
    array, states = read(column, program, payloads)
    assert states == [READ, *[REFUSED] * len(GOOD), NULL, REFUSED, READ]
    assert array.to_pylist() == [whole, *[None] * (len(GOOD) + 2), whole]


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ("string", number(2**62) + b"a"),
        ("string", number(-1)),
        ("string", sized(b"\xff")),
        ("string", b"\xff" * 11),
        ("int", number(2**31)),
        (["null", "int"], number(2)),
        (["null", "int"], number(-1)),
        ({"type": "array", "items": "int"}, number(2**62)),
        ({"type": "array", "items": "int"}, number(-(2**63)) + number(4)),
        ({"type": "array", "items": "null"}, number(2**40)),
        ({"type": "map", "values": "null"}, number(2) + sized(b"k") * 2 + b"\0"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, number(1)),
        ({"type": "fixed", "name": "F", "size": 2**31 - 1}, b"abc"),
        ({"type": "int", "logicalType": "time-millis"}, number(86_400_000)),
    ],
)
def test_hostile_bytes_are_refused(schema: Any, payload: bytes) -> None:
    column, program = program_of(schema)
    array, states = read(column, program, [payload, payload[:-1], payload])
    assert (states[0], states[2]) == (REFUSED, REFUSED)
    assert array.null_count == 3


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    column, program = program_of(node)
    array, states = read(column, program, [b"\x02" * 100 + b"\0", b"\x02" * 200_000 + b"\0"])
    assert states == [READ, REFUSED]
    assert array[0].as_py()["next"].count("next") == 100


def test_small_values_do_not_make_wide_columns_without_bound() -> None:
    fields = [{"name": f"f{place}", "type": ["null", "double"]} for place in range(5000)]
    wide = {"type": "record", "name": "W", "fields": fields}
    schema = {"type": "array", "items": ["null", wide]}
    column, program = program_of(schema)
    few, many = (number(count) + b"\0" * count + b"\0" for count in (10, 100_000))
    array, states = read(column, program, [few, many, few])
    assert states == [READ, TOO_LARGE, READ]
    assert [None if each is None else len(each) for each in array.to_pylist()] == [10, None, 10]
    assert by_twin(column, decoder_of(schema), many) is None
    assert by_twin(column, decoder_of(schema), few).equals(array[:1])


def test_a_program_stops_once_its_columns_have_enough_bytes() -> None:
    column, program = program_of("string")
    array, states = read(column, program, [sized(b"x" * 100)] * 50, enough=1000)
    assert 5 < len(states) < 20
    assert len(array) == len(states)


def test_a_program_for_other_columns_is_refused() -> None:
    column, _ = program_of("int")
    _, other = program_of("string")
    with pytest.raises(ValueError, match="fills other columns"):
        read(column, other, [b"\0"])


def test_defaults_that_hold_defaults_are_bounded() -> None:
    kind: Any = "int"
    for level in range(12):
        field = {"name": "f", "type": {"type": "array", "items": kind}}
        field["default"] = [{}] * 20 if level else [1]
        kind = {"type": "record", "name": f"R{level}", "fields": [field]}
    reader = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, "default": {}}]}
    writer = {"type": "record", "name": "R", "fields": []}
    decoder, column = decoder_of(writer), AvroColumn(decoder_of(reader).schema)
    assert column.program(decoder) is None
    _, notes = column.array([DecodedField(b"{}", made_by=decoder)])
    assert "a default has more than 1000 values" in notes[0]
