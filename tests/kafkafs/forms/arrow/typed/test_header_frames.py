"""Values that name their schema in headers are read together, and as those are that name it in their bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

import kafkafs
from engine.coding.varint import encode_varint, encode_varlong
from kafkafs.cli import cli
from kafkafs.schemas.programs import extension
from kafkafs.schemas.registry.guid import guid_of
from tests.builders import Rec, batch
from tests.kafkafs.built_logs import BuiltLog
from tests.schema_records import schema_record, write_topic

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")

needs_programs = pytest.mark.skipif(extension is None, reason="the extension is not compiled")

AVRO = '{"type":"record","name":"R","fields":[{"name":"n","type":"long"}]}'
PROTO = 'syntax = "proto3"; message A { int64 n = 1; } message B { int64 n = 1; } message C { A a = 1; B b = 2; }'
AVRO_ID, PROTO_ID = 7, 8
AVRO_GUID, PROTO_GUID = (UUID(guid_of(text)).bytes for text in (AVRO, PROTO))
OWN, OWN_KEY = b"__value_schema_id", b"__key_schema_id"
GLOBAL, CONTENT = b"apicurio.value.globalId", b"apicurio.value.contentId"
TYPE = b"apicurio.protobuf.type"
NUMBERS = range(-3, 300)

Headers = list[tuple[bytes, bytes | None]]


def avro(number: int) -> bytes:
    return encode_varlong(number)


def message_c(number: int) -> bytes:
    """A message C, whose field a has the number."""
    inner = b"\x08" + bytes(_varint(number & (2**64 - 1)))
    return b"\x0a" + bytes([len(inner)]) + inner


def _varint(raw: int) -> list[int]:
    return [raw] if raw < 0x80 else [raw & 0x7F | 0x80, *_varint(raw >> 7)]


def prefixed(id_: int, payload: bytes) -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + payload


def id8(id_: int) -> bytes:
    return id_.to_bytes(8, "big")


def topic(folder: Path, kind: str, records: list[Rec]) -> Path:
    """A log dir with the topic `orders`, whose values have a schema of a kind."""
    own = {"avro": schema_record(id_=AVRO_ID, schema=AVRO)}
    own["proto"] = schema_record(id_=PROTO_ID, schema=PROTO, schemaType="PROTOBUF")
    keys = schema_record("orders-key", id_=AVRO_ID, schema=AVRO)
    write_topic(folder, [own[kind], keys])
    BuiltLog(folder).segment([batch(records, 0)], 0)
    return folder


def columns(source: Path) -> Any:
    with kafkafs.open(source) as opened:
        names = ["key", "keyNote", "value", "valueNote"]
        return opened.scan("orders", columns=names, decode="columns").to_arrow().combine_chunks()


def refused(*_: Any, **__: Any) -> None:
    raise AssertionError("a value is decoded alone")


FORMS: dict[str, tuple[str, bytes, Headers]] = {
    "Confluent's GUID": ("avro", b"", [(OWN, b"\1" + AVRO_GUID)]),
    "Confluent's id": ("avro", b"", [(OWN, b"\0" + AVRO_ID.to_bytes(4, "big"))]),
    "the last of two": ("avro", b"", [(OWN, b"\1" + bytes(16)), (OWN, b"\1" + AVRO_GUID)]),
    "Apicurio's global id": ("avro", b"", [(GLOBAL, id8(AVRO_ID)), (b"apicurio.value.encoding", b"BINARY")]),
    "Apicurio's content id": ("avro", b"", [(b"x", None), (CONTENT, id8(AVRO_ID))]),
    "Protobuf, Confluent's GUID": ("proto", b"", [(OWN, b"\1" + PROTO_GUID + b"\2\4")]),
    "Protobuf, Apicurio's type": ("proto", b"", [(GLOBAL, id8(PROTO_ID)), (TYPE, b"C")]),
    "Protobuf, Apicurio's Ref": ("proto", b"\3\x0a\1C", [(GLOBAL, id8(PROTO_ID)), (TYPE, b"A")]),
    "a key's header only": ("avro", prefixed(AVRO_ID, b""), [(OWN_KEY, b"\1" + AVRO_GUID)]),
    "a type alone": ("avro", prefixed(AVRO_ID, b""), [(TYPE, b"C")]),
}  # fmt: skip


@needs_programs
@pytest.mark.parametrize("form", list(FORMS))
def test_they_are_read_together(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafs.forms.arrow.typed.typed_columns._field", refused)
    kind, head, headers = FORMS[form]
    payload = avro if kind == "avro" else message_c
    in_headers = any(name == OWN_KEY for name, _ in headers)
    records = [
        Rec(
            head + payload(number),
            avro(number) if in_headers else prefixed(AVRO_ID, avro(number)),
            headers=[(b"trace", b"%d" % number), *headers],
        )
        for number in NUMBERS
    ]
    found = columns(topic(tmp_path, kind, records))
    shown = [
        {"n": number} if kind == "avro" else {"a": {"n": number}, "b": None} for number in NUMBERS
    ]
    assert found["value"].to_pylist() == shown
    assert found["key"].to_pylist() == [{"n": number} for number in NUMBERS]
    assert found["valueNote"].null_count == found["keyNote"].null_count == len(NUMBERS)


@needs_programs
@pytest.mark.parametrize("form", [form for form in FORMS if "Protobuf, Apicurio" not in form])
def test_their_lines_are_made_together(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkafs.schemas.topic_decoder.TopicSchemas.field", refused)
    kind, head, headers = FORMS[form]
    payload = avro if kind == "avro" else message_c
    records = [Rec(head + payload(number), headers=headers) for number in NUMBERS]
    source = topic(tmp_path, kind, records)
    lines = CliRunner().invoke(cli, ["cat", str(source), "--topic", "orders"]).stdout.splitlines()
    shown = [{"n": number} if kind == "avro" else {"a": {"n": str(number)}} for number in NUMBERS]
    assert [json.loads(line)["value"] for line in lines] == shown


ODD: dict[str, tuple[bytes | None, Headers]] = {
    "an unknown schema": (avro(1), [(OWN, b"\1" + bytes(16))]),
    "an unknown schema, and a known one in front": (prefixed(AVRO_ID, avro(1)), [(OWN, b"\1" + bytes(16))]),
    "a null header": (prefixed(AVRO_ID, avro(1)), [(OWN, None)]),
    "a short header": (prefixed(AVRO_ID, avro(1)), [(OWN, b"\1\2"), (GLOBAL, b"123")]),
    "a long header": (avro(1), [(OWN, b"\1" + AVRO_GUID + bytes(600))]),
    "an artifact": (avro(1), [(b"apicurio.value.artifactId", b"orders-value"), (b"apicurio.value.version", b"1")]),
    "an empty value": (b"", [(OWN, b"\1" + AVRO_GUID)]),
    "a null value": (None, [(OWN, b"\1" + AVRO_GUID)]),
    "bytes behind the value": (avro(1) + b"x", [(OWN, b"\1" + AVRO_GUID)]),
    "another type": (message_c(1), [(OWN, b"\1" + PROTO_GUID + b"\2\2")]),
    "no type": (message_c(1), [(OWN, b"\1" + PROTO_GUID + b"\2\x40")]),
    "damaged indexes": (message_c(1), [(OWN, b"\1" + PROTO_GUID + b"\xff")]),
    "what looks like a Ref": (b"\x08\x0a", [(GLOBAL, id8(PROTO_ID)), (TYPE, b"A")]),
    "a Ref to no type": (b"\3\x0a\1Z", [(GLOBAL, id8(PROTO_ID)), (TYPE, b"C")]),
    "an empty message": (b"", [(GLOBAL, id8(PROTO_ID)), (TYPE, b"C")]),
}  # fmt: skip


@needs_programs
@pytest.mark.parametrize("kind", ["avro", "proto"])
def test_odd_headers_have_what_each_value_has_alone(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [(avro(1), [(OWN, b"\1" + AVRO_GUID + bytes(count))]) for count in range(20)]
    records = [Rec(value, headers=headers) for value, headers in [*ODD.values(), *many] * 2]
    source = topic(tmp_path, kind, records)
    together = columns(source)
    monkeypatch.setattr("kafkafs.forms.arrow.typed.typed_columns.extension", None)
    alone = columns(source)
    assert together.to_pylist() == alone.to_pylist()
    assert 0 < together["valueNote"].null_count < len(records)


names = st.sampled_from([b"a", b"bc", b"abc", b""])
values = st.none() | st.binary(max_size=3) | st.just(bytes(300))


@needs_programs
@given(st.lists(st.lists(st.tuples(names, values), max_size=4), min_size=1, max_size=30))
def test_a_group_has_the_same_values_of_the_headers_that_count(records: list[Headers]) -> None:
    assert extension is not None
    import numpy as np

    texts = [b"".join(map(_header, headers)) for headers in records]
    sizes = np.array([len(text) for text in texts])
    counted = [b"bc", b"a"]
    groups, firsts = extension.header_groups(
        b"".join(texts), np.cumsum(sizes) - sizes, sizes, counted, 3
    )
    known: list[Headers] = []
    for place, headers in enumerate(records):
        chosen = [header for header in headers if header[0] in counted]
        size = sum(5 + len(value or b"") for _, value in chosen)
        wanted = -1 if not chosen else -2
        if chosen and size <= 512:
            if chosen not in known and len(known) < 3:
                assert firsts[len(known)] == place
                known.append(chosen)
            wanted = known.index(chosen) if chosen in known else -2
        assert groups[place] == wanted
    assert len(firsts) == len(known)


@needs_programs
@given(st.binary(max_size=40), st.integers(0, 5), st.integers(0, 5))
def test_damaged_headers_have_no_group_of_others(data: bytes, before: int, behind: int) -> None:
    assert extension is not None
    import numpy as np

    whole = _header((b"a", b"x"))
    texts = [b"a" * before, whole, data, whole, b"\2a" * behind]
    sizes = np.array([len(text) for text in texts])
    groups, firsts = extension.header_groups(
        b"".join(texts), np.cumsum(sizes) - sizes, sizes, [b"a"], 2
    )
    assert groups[1] == groups[3] >= 0
    assert all(-2 <= group < len(firsts) for group in groups.tolist())


def _header(header: tuple[bytes, bytes | None]) -> bytes:
    name, value = header
    size = encode_varint(-1 if value is None else len(value))
    return encode_varint(len(name)) + name + size + (value or b"")
