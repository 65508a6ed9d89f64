"""Keys and values of a type: what each type makes of the bytes that real encoders write, and of any other bytes."""

from __future__ import annotations

import base64
import datetime
import gzip
import json
import math
import struct
import tracemalloc
import uuid
from collections.abc import Callable
from typing import Any

import cbor2
import cramjam
import msgpack
import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from engine.lines.line_decoder import DecodedField
from kafkafs.schemas.decoders.limits import MOST_BYTES, MOST_COST
from kafkafs.schemas.topic_type import TYPES, WRAPPERS, TopicType
from kafkafs.schemas.types.typed_field import key_bytes, typed_field

NUMBERS = {
    "int16": (">h", st.integers(-(2**15), 2**15 - 1)),
    "int32": (">i", st.integers(-(2**31), 2**31 - 1)),
    "int64": (">q", st.integers(-(2**63), 2**63 - 1)),
    "float": (">f", st.floats(width=32)),
    "double": (">d", st.floats()),
    "boolean": (">?", st.booleans()),
}
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
}
NAMED = DecodedField(b"{}", b"avro", schema=b'{"id":1}', made_by="it")


def nothing(data: bytes) -> DecodedField | None:
    return None


def shown(data: bytes, kind: str, charset: str | None = None, *, is_key: bool = False) -> Any:
    """The JSON of bytes of a type."""
    field = typed_field(data, TopicType.parse(kind, charset), nothing, is_key=is_key)
    assert field.text is not None, field.note
    return json.loads(field.text)


def note(data: bytes, kind: str) -> str:
    field = typed_field(data, TopicType.parse(kind), nothing, is_key=False)
    assert field.text is None
    assert field.note is not None
    return field.note


def plain(value: Any) -> Any:
    """What JSON has for a value that an encoder was given."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else json.dumps(plain(key)).strip('"'): plain(each)
            for key, each in value.items()
        }
    return value


def documents(integers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | integers | st.floats() | st.text() | st.binary()
    names = st.text() | integers
    return st.recursive(
        scalars, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=20
    )


@pytest.mark.parametrize("kind", NUMBERS)
@given(data=st.data())
def test_a_number_is_that_of_its_bytes_and_a_text_gives_the_bytes_back(
    kind: str, data: st.DataObject
) -> None:
    form, numbers = NUMBERS[kind]
    number = data.draw(numbers)
    packed = struct.pack(form, number)
    found = shown(packed, kind)
    if isinstance(number, float) and not math.isfinite(number):
        assert found == plain(number)
    else:
        assert struct.pack(form, found) == packed
        assert key_bytes(json.dumps(found), TopicType.parse(kind)) == packed
    assert note(packed + b"\0", kind).startswith(f"not of the type {kind}: {len(packed) + 1} bytes")


def test_a_float_has_its_shortest_digits() -> None:
    assert typed_field(
        struct.pack(">f", 0.1), TopicType.parse("float"), nothing, is_key=True
    ) == DecodedField(b"0.1", b"float")


@given(st.uuids())
def test_a_uuid_is_its_text_or_its_bytes(value: uuid.UUID) -> None:
    assert shown(value.bytes, "uuid") == shown(str(value).encode(), "uuid") == str(value)


@pytest.mark.parametrize(
    "charset", ["utf-8", "utf-16", "utf-16-le", "utf-32", "latin-1", "windows-1251", "cp500", "shift_jis"]
)  # fmt: skip
def test_a_string_has_the_charset_of_the_mapping(charset: str) -> None:
    text = "Zürich ÄÖ" if charset in ("latin-1", "cp500") else "Oslo"
    assert shown(text.encode(charset), "string", charset) == text
    assert key_bytes(text, TopicType.parse("string", charset)) in (None, text.encode(charset))


def test_java_writes_utf_16_in_big_endian_order() -> None:
    assert shown("Ü".encode("utf-16-be"), "string", "UTF-16") == "Ü"
    assert shown(b"\xfe\xff" + "Ü".encode("utf-16-be"), "string", "UTF-16") == "Ü"


@given(documents(st.integers(-(2**80), 2**80)))
@settings(max_examples=300, deadline=None)
def test_cbor_is_what_its_encoder_was_given(value: Any) -> None:
    assert shown(cbor2.dumps(value), "cbor") == plain(value)


@given(documents(st.integers(-(2**63), 2**64 - 1)))
@settings(max_examples=300, deadline=None)
def test_messagepack_is_what_its_encoder_was_given(value: Any) -> None:
    assert shown(msgpack.packb(value), "msgpack") == plain(value)


RFC_8949 = [
    ("00", 0), ("1818", 24), ("1b000000e8d4a51000", 1000000000000), ("1bffffffffffffffff", 18446744073709551615),
    ("c249010000000000000000", 18446744073709551616), ("3bffffffffffffffff", -18446744073709551616),
    ("c349010000000000000000", -18446744073709551617), ("20", -1), ("3903e7", -1000), ("f90000", 0.0), ("f98000", -0.0),
    ("f93c00", 1.0), ("fb3ff199999999999a", 1.1), ("f93e00", 1.5), ("f97bff", 65504.0), ("fa47c35000", 100000.0),
    ("fa7f7fffff", 3.4028235e38), ("fb7e37e43c8800759c", 1e300), ("f90001", 5.960464477539063e-8), ("fbc010666666666666", -4.1),
    ("f97c00", "Infinity"), ("fa7fc00000", "NaN"), ("fbfff0000000000000", "-Infinity"), ("f4", False), ("f5", True),
    ("f6", None), ("f7", None), ("f0", "simple(16)"), ("f8ff", "simple(255)"),
    ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"), ("c11a514b67b0", 1363896240),
    ("d818456449455446", "ZElFVEY="), ("4401020304", "AQIDBA=="), ("62225c", '"\\'), ("64f0908591", "\U00010151"),
    ("83010203", [1, 2, 3]), ("8301820203820405", [1, [2, 3], [4, 5]]), ("a201020304", {"1": 2, "3": 4}),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}), ("5f42010243030405ff", "AQIDBAU="), ("7f657374726561646d696e67ff", "streaming"),
    ("9fff", []), ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]), ("83018202039f0405ff", [1, [2, 3], [4, 5]]),
    ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}), ("bf6346756ef563416d7421ff", {"Fun": True, "Amt": -2}),
    ("d82550" + "c232a1d4" * 4, "c232a1d4-c232-a1d4-c232-a1d4c232a1d4"),
]  # fmt: skip
"""Examples of appendix A, and a UUID."""


@pytest.mark.parametrize(("data", "value"), RFC_8949)
def test_cbor_is_as_the_rfc_says(data: str, value: Any) -> None:
    assert shown(bytes.fromhex(data), "cbor") == value


NOT_WELL_FORMED = [
    "18",
    "19",
    "1a",
    "1b",
    "1901",
    "1a0102",
    "38",
    "58",
    "78",
    "98",
    "9a01ff00",
    "b8",
    "d8",
    "f8",
    "f900",
    "41",
    "61",
    "5affffffff00",
    "5bffffffffffffffff010203",
    "7affffffff00",
    "81",
    "818181818181818181",
    "8200",
    "a1",
    "a20102",
    "a100",
    "a2000000",
    "c0",
    "5f4100",
    "7f6100",
    "9f",
    "9f0102",
    "bf",
    "bf01020102",
    "819f",
    "9f8000",
    "9f9f9f9f9fffffffff",
    "1c",
    "1d",
    "1e",
    "3c",
    "5c",
    "7c",
    "9c",
    "bc",
    "dc",
    "fc",
    "fd",
    "fe",
    "f800",
    "f81f",
    "ff",
    "81ff",
    "a1ff",
    "82ff",
    "a1ff00",
    "bf00ff",
    "bf000000ff",
    "9f81ff",
    "5f00ff",
    "5f6100ff",
    "7f4100ff",
    "1f",
    "3f",
    "df",
    "5f5f4100ffff",
    "7f7f6100ffff",
    "62ffff",
]
"""Appendix F: an end before its time, reserved and wrong bytes."""


@pytest.mark.parametrize("data", NOT_WELL_FORMED)
def test_cbor_that_is_not_well_formed_stays_bytes(data: str) -> None:
    assert note(bytes.fromhex(data), "cbor").startswith("not of the type cbor: ")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (msgpack.packb(msgpack.Timestamp(1_700_000_000, 5)), "2023-11-14T22:13:20.000000005Z"),
        (msgpack.packb(msgpack.Timestamp(1_700_000_000, 0)), "2023-11-14T22:13:20.000000000Z"),
        (msgpack.packb(msgpack.Timestamp(-1, 999_999_999)), "1969-12-31T23:59:59.999999999Z"),
        (msgpack.packb(datetime.datetime(2500, 1, 1, tzinfo=datetime.UTC), datetime=True),
         "2500-01-01T00:00:00.000000000Z"),
        (msgpack.packb(msgpack.ExtType(5, b"ab")), {"type": 5, "data": "YWI="}),
        (b"\xc7\x02\xffab", {"type": -1, "data": "YWI="}),
        (b"\xa2\xff\xfe", "//4="),
    ],
)  # fmt: skip
def test_messagepack_has_times_extensions_and_old_strings(data: bytes, value: Any) -> None:
    assert shown(data, "msgpack") == value


def test_bytes_behind_a_value_have_a_note() -> None:
    for data, kind in ((cbor2.dumps([1]), "cbor"), (msgpack.packb([1]), "msgpack")):
        found = typed_field(data + b"\0\0", TopicType.parse(kind), nothing, is_key=False)
        assert (found.text, found.note) == (b"[1]", "2 bytes follow the value")


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_codec_holds_is_shown_as_in_any_topic_or_as_its_type(codec: str) -> None:
    packed = CODECS[codec](b'{"a": 1}')
    kind = TopicType.parse(codec)
    assert typed_field(packed, kind, nothing, is_key=False)[:2] == (
        b'{"a":1}',
        f"{codec}/json".encode(),
    )
    for content, text, inner in ((b"text", b'"text"', b""), (b"\xff", b'"/w=="', b"/base64")):
        found = typed_field(CODECS[codec](content), kind, nothing, is_key=False)
        assert found == DecodedField(text, codec.encode() + inner)
    twice = CODECS[codec](gzip.compress(struct.pack(">q", 7)))
    assert shown(twice, f"{codec}/gzip/int64") == 7
    with_schema = typed_field(packed, kind, lambda _: NAMED, is_key=False)
    assert with_schema == NAMED._replace(encoding=f"{codec}/avro".encode())
    unknown = DecodedField(None, note="the schema id 7 is not known")
    found = typed_field(CODECS[codec](b"\0\0\0\0\7"), kind, lambda _: unknown, is_key=False)
    assert (found.text, found.note) == (b'"\\u0000\\u0000\\u0000\\u0000\\u0007"', unknown.note)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_costs_the_value_and_not_the_memory(codec: str) -> None:
    bomb = CODECS[codec](bytes(8 * MOST_BYTES))
    tracemalloc.start()
    assert (
        note(bomb, codec) == f"not of the type {codec}: it inflates to more than {MOST_BYTES} bytes"
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * MOST_BYTES


SIZE = 1 << 17
MANY = (SIZE - 5).to_bytes(4, "big")
BOMBS = {
    "cbor": [
        b"\x81" * SIZE, b"\x9f" * SIZE, b"\xc0" * SIZE, b"\xa1" * SIZE, (b"\x9a" + MANY) * (SIZE // 5),
        b"\x9a" + MANY + b"\x80" * (SIZE - 5), b"\x9a" + MANY + bytes(SIZE - 5), b"\xc2\x5a" + MANY + b"\xff" * (SIZE - 5),
        b"\x5f" + b"\x40" * SIZE, b"\x7f" + b"\x60" * SIZE, b"\x5b" + b"\xff" * 8, b"\xa1" * 100 + b"\x61\x22" + bytes(200),
    ],
    "msgpack": [
        b"\x91" * SIZE, b"\x81" * SIZE, (b"\xdd" + MANY) * (SIZE // 5), b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
        b"\xdd" + MANY + b"\x90" * (SIZE - 5), b"\xdd" + MANY + b"\xcb" * (SIZE - 5), b"\xc9\xff\xff\xff\xff\x05",
        b"\x81" * 100 + b"\xa1\x22" + bytes(200),
    ],
}  # fmt: skip
"""Deep nesting, lying counts, many empty containers, huge numbers, and maps as names of maps, whose escapes double."""


@pytest.mark.parametrize(
    ("kind", "data"), [(kind, bomb) for kind, bombs in BOMBS.items() for bomb in bombs],
    ids=lambda each: each if isinstance(each, str) else each[:6].hex(),
)  # fmt: skip
def test_lying_lengths_and_deep_nesting_are_bounded(kind: str, data: bytes) -> None:
    tracemalloc.start()
    typed_field(data, TopicType.parse(kind), nothing, is_key=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (MOST_COST if len(data) < SIZE else 32 * SIZE)


@given(st.binary(max_size=200), st.sampled_from(TYPES), st.sampled_from((None, *WRAPPERS)))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_json_or_have_a_note(data: bytes, name: str, wrapper: str | None) -> None:
    kind = TopicType.parse(name if wrapper is None else f"{wrapper}/{name}")
    for is_key in (True, False):
        found = typed_field(data, kind, nothing, is_key=is_key)
        if found.text is None:
            assert found.note
        else:
            json.loads(found.text)
            assert b"\n" not in found.text


def test_a_value_above_the_limit_is_not_read() -> None:
    assert "the limit is" in note(bytes(MOST_BYTES + 1), "msgpack")


def windowed(*parts: int) -> bytes:
    return b"alice" + b"".join(part.to_bytes(8, "big", signed=True) for part in parts)


def test_windows_are_shown_beside_their_key() -> None:
    start, end = 1_700_000_000_000, 1_700_000_060_000
    assert shown(windowed(start), "windowed") == {"key": "alice", "start": start}
    assert shown(windowed(start) + b"\0\0\0\2", "windowed-store/string") == {
        "key": "alice", "start": start, "sequence": 2,
    }  # fmt: skip
    assert shown(windowed(end, start), "session") == {"key": "alice", "start": start, "end": end}
    both = struct.pack(">qq", 42, start)
    assert shown(both, "windowed/int64") == {"key": 42, "start": start}
    assert shown(both + b"\0" * 8, "windowed/windowed/int64")["key"] == {"key": 42, "start": start}
    assert (
        note(b"short", "windowed") == "not of the type windowed: 5 bytes are too few for a window"
    )
    assert note(both[1:], "windowed/int64").endswith("7 bytes, expected 8")
    assert typed_field(b"\xff" * 9, TopicType.parse("windowed"), nothing, is_key=True)[:2] == (
        b'{"key":"/w==","start":-1}', b"windowed/base64",
    )  # fmt: skip


def string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


MIRRORED = [
    ("mirror-checkpoint", True, string("g") + string("tö") + struct.pack(">i", 3), {"group": "g", "topic": "tö", "partition": 3}),
    ("mirror-checkpoint", False, struct.pack(">hqq", 0, 9, 8) + string(""),
     {"version": 0, "upstreamOffset": 9, "offset": 8, "metadata": ""}),
    ("mirror-heartbeat", True, string("a") + string("b"), {"sourceClusterAlias": "a", "targetClusterAlias": "b"}),
    ("mirror-heartbeat", False, struct.pack(">hq", 0, 7), {"version": 0, "timestamp": 7}),
    ("mirror-offset-sync", True, string("t") + struct.pack(">i", 3), {"topic": "t", "partition": 3}),
    ("mirror-offset-sync", False, struct.pack(">qq", 9, -1), {"upstreamOffset": 9, "offset": -1}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "is_key", "data", "value"), MIRRORED)
def test_mirror_records_are_read_to_the_last_byte(
    kind: str, is_key: bool, data: bytes, value: Any
) -> None:
    assert shown(data, kind, is_key=is_key) == value
    for wrong in (data[:-1], data + b"\0", b"\xff" + data[1:]):
        if kind != "mirror-offset-sync" or is_key or len(wrong) != len(data):
            found = typed_field(wrong, TopicType.parse(kind), nothing, is_key=is_key)
            assert found.text is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [("x", "int64"), ("70000", "int16"), ("1.5", "int32"), ("yes", "boolean"), ("1e99", "float"), ("Ü", "string")],
)  # fmt: skip
def test_a_text_that_is_no_key_of_the_type_is_refused(text: str, kind: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        key_bytes(text, TopicType.parse(kind, "ascii" if kind == "string" else None))


def test_other_keys_have_no_one_form() -> None:
    for kind in ("cbor", "gzip/int64", "windowed/int64", "uuid", "json", "mirror-heartbeat"):
        assert key_bytes("1", TopicType.parse(kind)) is None
    assert key_bytes("x", TopicType.parse("string", "utf-16")) is None
