"""The compiled program of a Protobuf type: its JSON equals that of `google.protobuf` and the printer, byte for byte."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, json_format
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings, strategies as st

from kafkafs.schemas.decoders.protobuf import ProtobufDecoder
from kafkafs.schemas.decoders.value_decoder import Payloads, ValueDecoder
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.programs import extension

pytestmark = pytest.mark.skipif(extension is None, reason="the extension is not built")

PROTO3 = """
    syntax = "proto3";
    import "google/protobuf/any.proto"; import "google/protobuf/timestamp.proto";
    import "google/protobuf/duration.proto"; import "google/protobuf/field_mask.proto";
    import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
    message M {
      int32 i32 = 1; int64 i64 = 2; uint32 u32 = 3; uint64 u64 = 4; sint32 s32 = 5; sint64 s64 = 6;
      fixed32 f32 = 7; fixed64 f64 = 8; sfixed32 sf32 = 9; sfixed64 sf64 = 10; float f = 11; double d = 12;
      bool b = 13; string s = 14; bytes y = 15; Color e = 16; M m = 17;
      repeated int32 ri = 21; repeated sint64 rs = 22; repeated fixed32 rf = 23; repeated double rd = 24;
      repeated bool rb = 25; repeated string rt = 26; repeated bytes ry = 27; repeated Color re = 28;
      repeated M rm = 29; repeated float rp = 30 [packed = false];
      map<int32, string> mi = 31; map<uint64, M> mu = 32; map<string, Color> ms = 33; map<bool, bytes> mb = 34;
      map<sint64, double> mz = 35;
      oneof choice { int32 oi = 41; string os = 42; M om = 43; Color oe = 44; }
      optional int32 maybe = 51; optional string note = 52 [json_name = "a\\"b"];
      google.protobuf.Timestamp at = 61; google.protobuf.Duration took = 62; google.protobuf.FieldMask mask = 63;
      google.protobuf.Struct struct = 64; google.protobuf.Value value = 65; google.protobuf.ListValue list = 66;
      google.protobuf.Any any = 67; google.protobuf.NullValue nothing = 68; google.protobuf.Int64Value wi = 69;
      google.protobuf.DoubleValue wd = 70; google.protobuf.StringValue ws = 71; google.protobuf.BytesValue wy = 72;
      google.protobuf.BoolValue wb = 73; google.protobuf.FloatValue wf = 74; google.protobuf.UInt64Value wu = 75;
      int32 far = 100000; repeated google.protobuf.Timestamp times = 200; map<string, google.protobuf.Value> mv = 201;
    }
    enum Color { option allow_alias = true; RED = 0; CRIMSON = 0; GREEN = 1; BLUE = -5; FAR = 1000000; }
"""
PROTO2 = """
    syntax = "proto2";
    message M {
      optional int32 i = 1 [default = 7]; optional string s = 2 [default = "d\\"\\n\\303\\251"]; optional Kind e = 3 [default = TWO];
      optional double d = 4 [default = inf]; optional bytes y = 5 [default = "\\001\\377"]; repeated Kind re = 6;
      repeated int32 rp = 7 [packed = true]; optional M m = 8; optional group G = 9 { optional int32 a = 1; repeated M m = 2; }
      repeated group H = 10 { optional Kind e = 1; }
      optional Needs needs = 11; repeated Needs many = 12; map<int32, Needs> by = 13; map<string, Whole> kinds = 14;
      oneof choice { int32 oi = 21; Kind oe = 22; group O = 23 { optional bool b = 1; } }
      optional float f = 30 [default = 0.1]; optional int64 big = 31 [default = -9223372036854775808];
      extensions 100 to 200;
    }
    message Needs { required int32 must = 1; optional Needs inner = 2; }
    enum Kind { ONE = 1; TWO = 2; } enum Whole { NIL = 0; UN = 1; }
    extend M { optional int32 more = 100; repeated M others = 101; }
"""
EDITION = """
    edition = "2023";
    message M {
      int32 i = 1; string s = 2 [features.field_presence = IMPLICIT, features.utf8_validation = NONE];
      repeated int32 r = 3 [features.repeated_field_encoding = EXPANDED];
      M m = 4 [features.message_encoding = DELIMITED]; Open o = 5; Closed c = 6; repeated Closed rc = 7;
      int32 must = 8 [features.field_presence = LEGACY_REQUIRED];
    }
    enum Open { ZERO = 0; } enum Closed { option features.enum_type = CLOSED; FIRST = 3; }
"""
DECODERS = {
    name: ProtobufDecoder(text)
    for name, text in (("proto3", PROTO3), ("proto2", PROTO2), ("edition", EDITION))
}


def twin(decoder: ProtobufDecoder, data: bytes) -> bytes | str:
    """The JSON of the twin, or its reason."""
    try:
        return ValueDecoder.json(decoder, data).text
    except UndecodableError as error:
        return str(error)


def reason_or_text(decoder: ProtobufDecoder, data: bytes) -> bytes | str:
    """The JSON of the decoder, or its reason."""
    try:
        return decoder.json(data).text
    except UndecodableError as error:
        return str(error)


def compiled(decoder: ProtobufDecoder, data: bytes) -> bytes | None:
    """The JSON of the program; None if it refuses the message."""
    program = decoder.program(None)
    assert program is not None
    return program.json(data)


def check(decoder: ProtobufDecoder, data: bytes, *, is_read: bool | None = None) -> None:
    """Check that the program's JSON is the twin's, and whether it reads the message at all."""
    expected, found = twin(decoder, data), compiled(decoder, data)
    if is_read is not None:
        assert (found is not None) == is_read, expected
    if found is not None:
        assert expected == found
    assert reason_or_text(decoder, data) == expected


# -- bytes -----------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


NUMBERS = {
    name: sorted(field.number for field in decoder.descriptor().fields)
    for name, decoder in DECODERS.items()
}
INTEGERS = st.one_of(
    st.integers(-3, 9),
    st.sampled_from([2**31 - 1, 2**31, 2**32 - 1, 2**32 + 1, 2**63, 2**64 - 1, -(2**31), 1000000]),
    st.integers(0, 2**64 - 1),
)
DOUBLES = st.floats(width=64).map(lambda x: struct.pack("<d", x))
FLOATS = st.floats(width=32).map(lambda x: struct.pack("<f", x))
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(["\u202e", '"\\\x7f\x85', "𝄞\u0000"]))


def fields(numbers: list[int]) -> st.SearchStrategy[bytes]:
    """Fields of wire types that fit some fields and are wrong for others, in any order."""

    def several(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
        number = st.one_of(st.sampled_from(numbers), st.integers(1, 3), st.integers(1, 210))
        content = st.one_of(
            inner,
            TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
            st.binary(max_size=6),
            st.lists(INTEGERS.map(varint), max_size=4).map(b"".join),
            st.lists(DOUBLES | FLOATS, max_size=3).map(b"".join),
            st.tuples(INTEGERS.map(varint), TEXTS.map(str.encode)).map(
                lambda both: tag(1, 0) + both[0] + tag(2, 2) + sized(both[1])
            ),
            st.tuples(TEXTS.map(str.encode), inner).map(
                lambda both: tag(1, 2) + sized(both[0]) + tag(2, 2) + sized(both[1])
            ),
            st.tuples(INTEGERS.map(varint), INTEGERS.map(varint)).map(
                lambda both: tag(1, 0) + both[0] + tag(2, 0) + both[1]
            ),
        )
        field = st.one_of(
            st.tuples(number, INTEGERS).map(lambda x: tag(x[0], 0) + varint(x[1])),
            st.tuples(number, DOUBLES).map(lambda x: tag(x[0], 1) + x[1]),
            st.tuples(number, FLOATS).map(lambda x: tag(x[0], 5) + x[1]),
            st.tuples(number, content).map(lambda x: tag(x[0], 2) + sized(x[1])),
            st.tuples(number, inner).map(lambda x: tag(x[0], 3) + x[1] + tag(x[0], 4)),
        )
        return st.lists(field, max_size=6).map(b"".join)

    return st.recursive(st.just(b""), several, max_leaves=12)


@pytest.mark.parametrize("name", list(DECODERS))
@given(st.data())
@settings(max_examples=50, deadline=None)
def test_any_fields_have_the_json_of_the_twin(name: str, data: Any) -> None:
    check(DECODERS[name], data.draw(fields(NUMBERS[name])))


@pytest.mark.parametrize("name", list(DECODERS))
@given(st.data())
@settings(max_examples=50, deadline=None)
def test_damaged_bytes_have_the_json_or_the_reason_of_the_twin(name: str, data: Any) -> None:
    whole = bytearray(data.draw(fields(NUMBERS[name])))
    for _ in range(data.draw(st.integers(1, 3))):
        if whole:
            at = data.draw(st.integers(0, len(whole) - 1))
            whole[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    check(DECODERS[name], bytes(whole[:cut]))


EVERY_FIELD = {
    "i32": -1, "i64": -2, "u32": 2**32 - 1, "u64": 2**64 - 1, "s32": -(2**31), "s64": -(2**63), "f32": 5, "f64": 6,
    "sf32": -7, "sf64": -8, "f": 1e-7, "d": 1e16, "b": True, "s": "é\u2028\x7f", "y": "AP8=", "e": "BLUE",
    "m": {"m": {"i32": 1}}, "ri": [1, -1], "rs": [3, -3], "rf": [1], "rd": [0.1, "NaN", "-Infinity"], "rb": [True, False],
    "rt": ["", "x"], "ry": ["AA=="], "re": ["GREEN", 9], "rm": [{}, {"b": True}], "rp": [0.1, 1e30, -0.0],
    "mi": {"9": "z", "-1": "y", "10": ""}, "mu": {"18446744073709551615": {}, "3": {"s": "in"}},
    "ms": {"b": "GREEN", "a": "RED", "é": "BLUE"}, "mb": {"true": "AA==", "false": ""}, "mz": {"-1": 0.5, "1": 2},
    "om": {"i64": 1}, "maybe": 0, "a\"b": "", "at": "0001-01-01T00:00:00.100Z", "took": "-0.000000001s",
    "mask": "fooBar.b,c", "struct": {"b": [1, None, {"z": 1.5, "a": "x"}], "a": True}, "value": None, "list": [[], {}],
    "wi": "8", "wd": 0.25, "ws": "", "wy": "AQ==", "wb": False, "wf": 0.1, "wu": "1", "far": 3,
    "times": ["1969-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59Z", "2023-11-14T22:13:20.000001Z"],
    "mv": {"k": 1, "j": "x"},
}  # fmt: skip


def filled() -> Any:
    kind = GetMessageClass(DECODERS["proto3"].descriptor())
    return json_format.ParseDict(EVERY_FIELD, kind())


def test_every_kind_of_field_is_read_by_the_program() -> None:
    check(DECODERS["proto3"], filled().SerializeToString(), is_read=True)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("proto3", b""), ("proto2", b""),
        ("proto3", tag(14, 2) + sized(b"first") + tag(14, 2) + sized(b"last")),
        ("proto3", tag(17, 2) + sized(tag(1, 0) + b"\x01") + tag(17, 2) + sized(tag(2, 0) + b"\x02")),
        ("proto3", tag(43, 2) + sized(tag(1, 0) + b"\x01") + tag(41, 0) + b"\x05"),
        ("proto3", tag(43, 2) + sized(tag(1, 0) + b"\x01") + tag(41, 0) + b"\x05" + tag(43, 2) + b"\x00"),
        ("proto3", tag(16, 0) + varint(77) + tag(44, 0) + varint(-1)),
        ("proto3", tag(21, 0) + b"\x01" + tag(21, 2) + b"\x02\x02\x03" + tag(30, 2) + sized(bytes(8))),
        ("proto3", tag(14, 0) + b"\x01" + tag(1, 2) + sized(b"x") + tag(17, 0) + b"\x01"),
        ("proto3", tag(31, 2) + sized(b"\x08\x05\x12\x01a") + tag(31, 2) + sized(b"\x08\x05\x12\x01b")),
        ("proto3", tag(31, 2) + b"\x00" + tag(33, 2) + b"\x00" + tag(34, 2) + b"\x00"),
        ("proto3", tag(1, 0) + varint(2**35 + 3) + tag(13, 0) + varint(2**40) + tag(5, 0) + varint(2**33 + 1)),
        ("proto3", b"\x88\x00\x05"),
        ("proto3", b"".join(tag(number, 0) + b"\xfe" * 9 + b"\x7e" for number in (1, 4, 6, 13, 16, 28, 999))),
        ("proto3", tag(999, 3) + tag(1, 0) + b"\x01" + tag(5, 3) + tag(5, 4) + tag(999, 4)),
        ("proto3", tag(999, 3) + b"\x00\x01" + b"\x02\x01a" + tag(999, 4)),
        ("proto3", tag(67, 2) + b"\x00"),
        ("proto3", tag(69, 2) + b"\x00" + tag(70, 2) + b"\x00" + tag(72, 2) + b"\x00"),
        ("proto2", tag(3, 0) + b"\x09" + tag(6, 2) + b"\x03\x01\x09\x02" + tag(6, 0) + b"\x02"),
        ("proto2", tag(9, 3) + tag(1, 0) + b"\x04" + tag(9, 4) + tag(9, 3) + tag(2, 2) + b"\x00" + tag(9, 4)),
        ("proto2", tag(10, 3) + tag(10, 4) + tag(10, 3) + tag(1, 0) + b"\x02" + tag(10, 4)),
        ("proto2", tag(22, 0) + b"\x09" + tag(21, 0) + b"\x03"),
        ("proto2", tag(21, 0) + b"\x03" + tag(22, 0) + b"\x09"),
        ("proto2", tag(11, 2) + sized(tag(1, 0) + b"\x03") + tag(13, 2) + sized(b"\x08\x01\x12\x02\x08\x04")),
        ("proto2", tag(9, 2) + sized(b"\x08\x01") + tag(8, 3) + tag(8, 4)),
        ("edition", tag(8, 0) + b"\x01" + tag(4, 3) + tag(8, 0) + b"\x02" + tag(4, 4) + tag(6, 0) + b"\x07"),
    ],
    ids=range(26),
)  # fmt: skip
def test_what_the_wire_allows_is_read_by_the_program(name: str, data: bytes) -> None:
    check(DECODERS[name], data, is_read=True)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("proto3", b"\x00\x01"), ("proto3", tag(1, 0) + b"\xff" * 10), ("proto3", tag(1, 0) + b"\x80"),
        ("proto3", tag(14, 2) + sized(b"\xff")), ("proto3", tag(14, 2) + b"\x05ab"),
        ("proto3", tag(26, 2) + sized(b"\xed\xa0\x80")), ("proto3", tag(17, 4)), ("proto3", tag(99, 3)),
        ("proto3", tag(99, 3) + tag(98, 4)), ("proto3", tag(12, 1) + bytes(7)), ("proto3", tag(11, 5) + bytes(3)),
        ("proto3", tag(23, 2) + sized(bytes(5))), ("proto3", tag(21, 2) + sized(b"\x80")), ("proto3", b"\x0e"),
        ("proto3", b"\xff\xff\xff\xff\x7f\x00"),
    ],
    ids=range(15),
)  # fmt: skip
def test_what_the_twin_refuses_is_refused_with_its_reason(name: str, data: bytes) -> None:
    assert isinstance(twin(DECODERS[name], data), str)
    check(DECODERS[name], data, is_read=False)


NO_STRING = "a string is not UTF-8, and shown in base64"
MISSING = "required fields are missing: must"
PARTS: dict[str, tuple[str, bytes, object, str]] = {
    "at": ("proto3", tag(61, 2) + sized(tag(2, 0) + varint(-1)), {"seconds": "0", "nanos": -1},
           "a google.protobuf.Timestamp: Timestamp is not valid: Nanos -1 must be in a range"),
    "at far": ("proto3", tag(61, 2) + sized(tag(1, 0) + varint(2**50)), {"seconds": str(2**50), "nanos": 0},
               f"a google.protobuf.Timestamp: Timestamp is not valid: Seconds {2**50} must be in range"),
    "took": ("proto3", tag(62, 2) + sized(tag(1, 0) + b"\x01" + tag(2, 0) + varint(-1)), {"seconds": "1", "nanos": -1},
             "a google.protobuf.Duration: Duration is not valid: Sign mismatch."),
    "mask": ("proto3", tag(63, 2) + sized(tag(1, 2) + sized(b"aB")), {"paths": ["aB"]}, "a google.protobuf.FieldMask"),
    "mask end": ("proto3", tag(63, 2) + sized(tag(1, 2) + sized(b"a_")), {"paths": ["a_"]}, "a google.protobuf.FieldMask"),
    "value": ("proto3", tag(65, 2) + sized(tag(2, 1) + struct.pack("<d", float("nan"))), "NaN",
              "a google.protobuf.Value holds a number that is not finite"),
    "value none": ("proto3", tag(65, 2) + b"\x00", None, "a google.protobuf.Value holds nothing"),
    "any": ("proto3", tag(67, 2) + sized(tag(1, 2) + sized(b"x/no.Such") + tag(2, 2) + sized(b"ab")),
            {"@type": "x/no.Such", "value": "YWI="}, "an Any holds a type that the schema does not have: no.Such"),
    "any bytes": ("proto3", tag(67, 2) + sized(tag(1, 2) + sized(b"x/M") + tag(2, 2) + sized(b"\x08\xff")),
                  {"@type": "x/M", "value": "CP8="}, "an Any holds bytes that are no M"),
    "needs": ("proto2", tag(11, 2) + b"\x00", {"must": None}, MISSING),
    "many": ("proto2", tag(12, 2) + b"\x00", [{"must": None}], MISSING),
    "by": ("proto2", tag(13, 2) + b"\x00", {"0": {"must": None}}, MISSING),
    "s": ("proto2", tag(2, 2) + sized(b"\xff"), "/w==", NO_STRING),
    "kinds": ("proto2", tag(14, 2) + sized(tag(1, 2) + sized(b"\xff")), None,
              "a map has a key that is not UTF-8, and is not shown"),
    "must": ("edition", b"", None, MISSING),
}  # fmt: skip
"""By the field, and a word: a message in which only that field has no form in JSON; what it is, and the note."""


@pytest.mark.parametrize("part", PARTS)
def test_a_part_without_a_json_form_costs_itself_and_has_a_note(part: str) -> None:
    name, data, shown, said = PARTS[part]
    field = part.split()[0]
    text, _, notes = DECODERS[name].json(data)
    found, empty = json.loads(text), json.loads(ValueDecoder.json(DECODERS[name], b"").text)
    assert found.pop(field) == shown
    empty.pop(field, None)
    assert found == empty
    assert len(notes) == 1 + (name == "edition" and field != "must")
    assert notes[0].startswith(said)
    check(DECODERS[name], data, is_read=False)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("proto3", tag(67, 2) + sized(tag(1, 2) + sized(b"x/M") + tag(2, 2) + sized(b"\x08\x01"))),
        ("proto2", tag(100, 0) + b"\x04"), ("proto2", tag(101, 2) + b"\x00"), ("proto2", tag(150, 0) + b"\x04"),
        ("proto2", tag(14, 2) + sized(tag(1, 2) + sized(b"k") + tag(2, 0) + b"\x09")),
        ("proto3", tag(31, 2) + sized(b"\x08\x05\x18\x01")), ("proto3", tag(32, 2) + b"\x00"),
    ],
    ids=range(7),
)  # fmt: skip
def test_what_the_program_leaves_to_the_twin_has_its_json(name: str, data: bytes) -> None:
    assert isinstance(twin(DECODERS[name], data), bytes)
    check(DECODERS[name], data, is_read=False)


@pytest.mark.parametrize("number", [14, 15, 17, 21, 23, 31, 99])
@pytest.mark.parametrize(("zeros", "is_read"), [(0, True), (3, True), (4, False), (8, False)])
def test_a_size_of_more_than_five_bytes_is_refused(number: int, zeros: int, is_read: bool) -> None:
    data = tag(number, 2) + b"\x80" + b"\x80" * zeros + b"\x00"
    assert isinstance(twin(DECODERS["proto3"], data), bytes) == is_read
    check(DECODERS["proto3"], data, is_read=is_read)


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = tag(17, 2) + sized(data)
    return data


@pytest.mark.parametrize(("depth", "is_read"), [(60, True), (70, False), (99, False), (101, False)])
def test_deep_messages_are_left_to_the_twin(depth: int, is_read: bool) -> None:
    check(DECODERS["proto3"], nested(depth), is_read=is_read)


def test_memory_of_many_empty_messages_is_bounded() -> None:
    data = tag(9, 3) + (tag(2, 2) + b"\x00") * 300_000 + tag(9, 4)
    assert compiled(DECODERS["proto2"], data) is None


def test_a_message_set_stays_with_the_twin() -> None:
    text = "message M { option message_set_wire_format = true; extensions 4 to max; }"
    assert ProtobufDecoder(text).program(None) is None


def test_a_well_known_name_with_other_fields_stays_with_the_twin() -> None:
    file = descriptor_pb2.FileDescriptorProto(
        name="t.proto", package="google.protobuf", syntax="proto3"
    )
    file.message_type.add(name="Timestamp").field.add(name="n", number=1, type=5, label=1)
    decoder = ProtobufDecoder(b64encode(file.SerializeToString()).decode())
    assert decoder.program(None) is None


# -- many payloads -----------------------------------------------------------------------------------


def payloads(values: list[bytes | None]) -> Payloads:
    arena = b"".join(each or b"" for each in values)
    sizes = np.array([-1 if each is None else len(each) for each in values], np.int64)
    starts = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))[:-1]]).astype(np.int64)
    return Payloads(arena, starts, sizes)


def test_payloads_of_a_message_are_read_together() -> None:
    decoder = DECODERS["proto3"]
    good = [tag(1, 0) + varint(number) for number in range(5)]
    values = [
        b"\x00" + good[0],
        None,
        b"\x00\x08",
        b"\x02\x02" + good[1],
        b"\x02\x00" + good[2],
        b"\x00" + good[3],
    ]
    found = decoder.texts(payloads(values), b"!", 1 << 30)
    assert found is not None
    texts = [
        found.text[at : at + size] if size >= 0 else None for at, size in found.places.tolist()
    ]
    first, last = (decoder.json(good[number]).text + b"!" for number in (0, 3))
    assert texts == [first, None, None, None, None, last]


def test_payloads_are_read_until_the_text_is_enough() -> None:
    decoder = DECODERS["proto3"]
    found = decoder.texts(payloads([b"\x00"] * 10), b"", 1)
    assert found is not None
    assert len(found.places) == 1


@pytest.mark.parametrize("first", [b"\x02\x09", b"", b"\x04\x0a\x00", b"\x80"])
def test_payloads_of_no_message_are_left_out(first: bytes) -> None:
    assert DECODERS["proto3"].texts(payloads([first] * 9), b"", 1 << 30) is None


def test_the_message_of_many_payloads_is_found_behind_a_damaged_one() -> None:
    found = DECODERS["proto3"].texts(payloads([b"\x80", b"\x00"]), b"", 1 << 30)
    assert found is not None
    assert found.places[:, 1].tolist() == [-1, len(DECODERS["proto3"].json(b"").text)]
