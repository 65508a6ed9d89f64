"""Programs that read Protobuf into columns: what PyArrow makes of upb's messages, and nothing that the twin refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings, strategies as st

from engine.lines.line_decoder import DecodedField
from kafkafs.schemas.decoders.protobuf import ProtobufDecoder, ProtobufPayload
from tests.kafkafs.schemas.decoders.test_protobuf_program import (
    DECODERS,
    EVERY_FIELD,
    NUMBERS,
    fields,
    sized,
    tag,
    varint,
)

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")

from kafkafs.forms.arrow.typed.protobuf_column import ProtobufColumn  # noqa: E402
from tests.kafkafs.forms.arrow.typed.reading import (  # noqa: E402
    READ,
    REFUSED,
    TOO_LARGE,
    equal,
    read,
)

COLUMNS = {name: ProtobufColumn(decoder) for name, decoder in DECODERS.items()}
NOW = "2023-11-14T22:13:20.000000001Z"


def by_twin(column: ProtobufColumn, decoder: ProtobufDecoder, data: bytes) -> Any:
    """The array of one message by its twin; None if the message is refused, or does not fit."""
    field = DecodedField(b"", made_by=ProtobufPayload(decoder, data, None))
    array, notes = column.array([field])
    return None if notes else array


def check(name: str, data: bytes, *, is_read: bool | None = None) -> None:
    """Check that the program and its twin agree, and whether the program reads the message at all."""
    column = COLUMNS[name]
    array, states = read(column, column.program, [data, data[: len(data) // 2], data])
    for place, each in enumerate((data, data[: len(data) // 2])):
        expected = by_twin(column, DECODERS[name], each)
        if states[place] == READ:
            assert expected is not None
            assert equal(array.slice(place, 1), expected)
        else:
            assert states[place] == REFUSED
            assert array[place].as_py() is None
    assert (states[2], equal(array.slice(2), array.slice(0, 1))) == (states[0], True)
    if is_read is not None:
        assert (states[0] == READ) == is_read


@pytest.mark.parametrize("name", list(DECODERS))
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_any_fields_have_the_columns_of_the_twin(name: str, data: Any) -> None:
    check(name, data.draw(fields(NUMBERS[name])))


@pytest.mark.parametrize("name", list(DECODERS))
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_damaged_bytes_are_refused_where_the_twin_refuses_them(name: str, data: Any) -> None:
    whole = bytearray(data.draw(fields(NUMBERS[name])))
    for _ in range(data.draw(st.integers(1, 3))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    check(name, bytes(whole))


def filled(**changed: Any) -> bytes:
    kind = GetMessageClass(DECODERS["proto3"].descriptor())
    found = {**EVERY_FIELD, "at": NOW, "times": [NOW], **changed}
    return json_format.ParseDict(found, kind()).SerializeToString()


def test_every_kind_of_field_is_read_by_the_program() -> None:
    check("proto3", filled(), is_read=True)


@pytest.mark.parametrize(
    ("name", "data", "is_read"),
    [
        ("proto3", b"", True), ("proto2", b"", True), ("edition", b"", False),
        ("proto3", tag(43, 2) + sized(tag(1, 0) + b"\x01") + tag(41, 0) + b"\x05", True),
        ("proto3", tag(16, 0) + varint(77) + tag(44, 0) + varint(-1), True),
        ("proto3", tag(31, 2) + sized(b"\x08\x05\x12\x01b") + tag(31, 2) + sized(b"\x08\x04\x12\x01a"), True),
        ("proto3", tag(31, 2) + sized(b"\x08\x05\x12\x01a") + tag(31, 2) + sized(b"\x08\x05\x12\x01b"), True),
        ("proto3", tag(31, 2) + b"\x00" + tag(33, 2) + b"\x00" + tag(34, 2) + b"\x00", True),
        ("proto3", tag(69, 2) + b"\x00" + tag(70, 2) + b"\x00" + tag(72, 2) + b"\x00", True),
        ("proto2", tag(3, 0) + b"\x09" + tag(6, 2) + b"\x03\x01\x09\x02" + tag(6, 0) + b"\x02", True),
        ("proto2", tag(9, 3) + tag(1, 0) + b"\x04" + tag(9, 4), True),
        ("proto2", tag(11, 2) + b"\x00", False), ("proto2", tag(2, 2) + sized(b"\xff"), False),
        ("proto3", tag(14, 2) + sized(b"\xff"), False), ("proto3", tag(14, 2) + b"\x05ab", False),
        ("proto3", tag(1, 0) + b"\xff" * 10, False), ("proto3", tag(1, 0) + b"\x80", False),
        ("proto3", tag(61, 2) + sized(tag(2, 0) + varint(-1)), False),
        ("proto3", tag(61, 2) + sized(tag(1, 0) + varint(2**50)), False),
        ("proto3", tag(62, 2) + sized(tag(1, 0) + b"\x01" + tag(2, 0) + varint(-1)), False),
        ("proto3", tag(65, 2) + b"\x00", False), ("proto3", tag(99, 3) * 100_000, False),
    ],
    ids=range(22),
)  # fmt: skip
def test_what_the_wire_allows_and_what_not(name: str, data: bytes, is_read: bool) -> None:
    check(name, data, is_read=is_read)


def test_values_are_those_of_the_message() -> None:
    column = COLUMNS["proto3"]
    array, _ = read(column, column.program, [filled(), b""])
    row, empty = array.to_pylist()
    assert row["u64"] == 2**64 - 1
    assert row["e"] == "BLUE"
    assert row["re"] == ["GREEN", "9"]
    assert row["mi"] == [(-1, "y"), (9, "z"), (10, "")]
    assert row["wi"] == 8
    assert row["oi"] is None
    assert json.loads(row["om"])["i64"] == "1"
    assert json.loads(row["struct"]) == EVERY_FIELD["struct"]
    assert row["mask"] == {"paths": ["foo_bar.b", "c"]}
    assert array.field("at").cast(pa.int64())[0].as_py() == 1_700_000_000_000_000
    assert array.field("took").cast(pa.int64())[0].as_py() == 0
    own = {name for name, value in empty.items() if value is None}
    assert own == {
        "m", "oi", "os", "om", "oe", "maybe", "note", "at", "took", "mask", "struct", "value", "list", "any", "wi", "wd",
        "ws", "wy", "wb", "wf", "wu",
    }  # fmt: skip
    assert (empty["s"], empty["y"], empty["e"], empty["ri"], empty["mi"]) == (
        "",
        b"",
        "RED",
        [],
        [],
    )


TIMES = {
    "0001-01-01T00:00:00Z": -62_135_596_800_000_000,
    "1969-12-31T23:59:59.999999999Z": -1,
    "1969-12-31T23:59:58.000000001Z": -2_000_000,
    "1970-01-01T00:00:00.000001999Z": 1,
    "9999-12-31T23:59:59.999999999Z": 253_402_300_799_999_999,
}
DURATIONS = {
    "-315576000000s": -315_576_000_000_000_000,
    "-1.000001999s": -1_000_001,
    "-0.000000999s": 0,
    "0.000001999s": 1,
    "315576000000.999999999s": 315_576_000_000_999_999,
}


@pytest.mark.parametrize(
    ("name", "text", "ticks"),
    [
        *(("at", text, ticks) for text, ticks in TIMES.items()),
        *(("took", text, ticks) for text, ticks in DURATIONS.items()),
    ],
)
def test_microseconds_hold_all_times_of_protobuf(name: str, text: str, ticks: int) -> None:
    column, data = COLUMNS["proto3"], filled(**{name: text})
    check("proto3", data, is_read=True)
    array, _ = read(column, column.program, [data])
    assert array.field(name).cast(pa.int64())[0].as_py() == ticks


IN_NANOS = ProtobufColumn(DECODERS["proto3"], nanoseconds=True)


def test_nanoseconds_hold_all_digits_of_a_time() -> None:
    data = filled(at=NOW, took="-0.000000001s")
    array, states = read(IN_NANOS, IN_NANOS.program, [data])
    assert states == [READ]
    assert equal(array, by_twin(IN_NANOS, DECODERS["proto3"], data))
    assert array.field("at").cast(pa.int64())[0].as_py() == 1_700_000_000_000_000_001
    assert array.field("took").cast(pa.int64())[0].as_py() == -1


def test_a_time_that_its_unit_cannot_count_is_null_and_the_rest_of_its_value_stays() -> None:
    beyond = tag(61, 2) + sized(tag(1, 0) + varint(2**50))
    late = filled(at="9999-12-31T23:59:59Z")
    for column, data, without, said in (
        (IN_NANOS, late, filled(), "253402300799 s is not counted in ns"),
        (COLUMNS["proto3"], beyond, b"", f"{2**50} s is not counted in us"),
    ):
        field, whole = (
            DecodedField(b"", made_by=ProtobufPayload(DECODERS["proto3"], each, None))
            for each in (data, without)
        )
        array, notes = column.array([field])
        (shown,) = array.to_pylist()
        assert shown["at"] is None
        (other,) = column.array([whole])[0].to_pylist()
        assert repr({**shown, "at": 0}) == repr({**other, "at": 0})  # some are not a number
        assert notes == {0: f"a google.protobuf.Timestamp of {said}"}
        assert read(column, column.program, [data]).states == [REFUSED]


def test_an_older_message_is_read_by_the_numbers_of_its_fields() -> None:
    older = ProtobufDecoder('syntax = "proto3"; message A { int32 id = 1; string gone = 2; }')
    newer = ProtobufDecoder(
        'syntax = "proto3"; message A { int64 number = 1; repeated string more = 3; }'
    )
    column = ProtobufColumn(newer)
    data = tag(1, 0) + b"\x07" + tag(2, 2) + sized(b"x")
    expected = [{"number": 7, "more": []}]
    assert read(column, column.program, [data]).array.to_pylist() == expected
    assert by_twin(column, older, data).to_pylist() == expected


def test_another_message_of_the_schema_does_not_fit() -> None:
    decoder = ProtobufDecoder('syntax = "proto3"; message A { } message B { }')
    column = ProtobufColumn(decoder)
    field = DecodedField(b"{}", made_by=ProtobufPayload(decoder, b"", (1,)))
    assert "it is a message B, not A" in column.array([field])[1][0]


def test_small_messages_do_not_make_wide_columns_without_bound() -> None:
    wide = "".join(f"optional double f{number} = {number};" for number in range(1, 3000))
    text = f'syntax = "proto3"; message A {{ repeated W w = 1; }} message W {{ {wide} }}'
    column = ProtobufColumn(ProtobufDecoder(text))
    few, many = (tag(1, 2) + b"\0") * 5, (tag(1, 2) + b"\0") * 3000
    array, states = read(column, column.program, [few, many, few])
    assert states[0] == states[2] == READ
    assert states[1] in (REFUSED, TOO_LARGE)
    assert [None if each is None else len(each["w"]) for each in array.to_pylist()] == [5, None, 5]


def test_columns_have_what_another_reader_of_the_wire_has() -> None:
    ptars = pytest.importorskip("ptars", reason="ptars is not installed: scripts/setup dev")
    decoder = ProtobufDecoder("""
        syntax = "proto3"; import "google/protobuf/timestamp.proto";
        message A {
          int64 i = 1; sint32 s = 2; uint64 u = 3; fixed32 f = 4; double d = 5; float g = 6; bool b = 7; string t = 8;
          bytes y = 9; optional string maybe = 10; google.protobuf.Timestamp at = 11; repeated int32 xs = 12;
          repeated string ts = 13; B inner = 14; repeated B many = 15; map<string, int64> by = 16;
        }
        message B { int32 n = 1; optional B2 deep = 2; } message B2 { repeated bool bs = 1; }
    """)
    kind = GetMessageClass(decoder.descriptor())
    shown: list[dict[str, Any]] = [
        {},
        {"i": "-5", "s": -6, "u": str(2**64 - 1), "f": 7, "d": 0.5, "g": 0.25, "b": True, "t": "é"},
        {"y": "AP8=", "maybe": "", "at": "1969-12-31T23:59:59.999999999Z", "xs": [1, -1]},
        {
            "ts": ["", "x"],
            "inner": {},
            "many": [{"n": 3}, {"deep": {"bs": [True]}}],
            "by": {"k": 1},
        },
    ]
    data = [json_format.ParseDict(each, kind()).SerializeToString() for each in shown]
    column = ProtobufColumn(decoder, nanoseconds=True)
    array, states = read(column, column.program, data)
    handler = ptars.HandlerPool([kind.DESCRIPTOR.file]).get_for_message(kind.DESCRIPTOR)
    theirs = handler.list_to_record_batch(data)
    assert states == [READ] * len(data)
    for field in column.type:
        assert equal(array.field(field.name), theirs[field.name].cast(field.type)), field.name
