"""No schema and no value ends a stream: whatever a compiler or a decoder raises costs the value, and its note says so."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kafkafs
from engine.lines.json_text import Values
from engine.log.partition_choice import NamePattern
from engine.record.encoding.simple_record import SimpleRecord
from kafkafs.forms.arrow.typed.typed_columns import typed_columns
from kafkafs.schemas.decoders import avro, cache, protobuf, protobuf_files
from kafkafs.schemas.decoders.cache import DecoderCache
from kafkafs.schemas.decoders.protobuf_files import link
from kafkafs.schemas.errors import UndecodableError, undecodable
from kafkafs.schemas.schema import Origin, Schema, SchemaKind
from kafkafs.schemas.store import SchemaStore
from kafkafs.schemas.topic_decoder import TopicSchemas
from kafkafs.schemas.topic_subjects import Mapped
from tests.builders import Rec, batch
from tests.kafkafs.forms.arrow.typed.reading import rows_of
from tests.schema_records import schema_record, write_topic

AVRO = '{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}'
PROTO = 'syntax = "proto3"; message M { int32 n = 1; }'
TEXTS = {SchemaKind.AVRO: AVRO, SchemaKind.PROTOBUF: PROTO}
FRAMES = {SchemaKind.AVRO: b"\0\0\0\0\7\6", SchemaKind.PROTOBUF: b"\0\0\0\0\7\0\x08\3"}


class BrokenError(Exception):
    """An exception whose own text cannot be made, as protoc's at bytes above 7F."""

    def __str__(self) -> str:
        return b"\xff".decode()


def raiser(error: BaseException) -> Callable[..., Any]:
    def raised(*_: object, **__: object) -> Any:
        raise error

    return raised


def store_of(*schemas: Schema, **more: Any) -> SchemaStore:
    return SchemaStore(schemas, **more)


def one(kind: SchemaKind, subject: str = "t-value") -> Schema:
    return Schema(kind, TEXTS[kind], origin=Origin("f", 0, 0), subject=subject, version=1, id=7)


ERRORS = [
    BrokenError(), ValueError("x"), TypeError(), KeyError("k"), IndexError(), AttributeError("a"), OverflowError(),
    ZeroDivisionError(), struct.error("s"), UnicodeDecodeError("ascii", b"\xff", 0, 1, "r"), AssertionError(),
    RecursionError(), MemoryError(), SystemError("s"), RuntimeError("r"), StopIteration(), OSError(5, "disk"),
    ValueError("half of a pair: \ud800"),
]  # fmt: skip
STAGES: list[tuple[SchemaKind, object, str]] = [
    (SchemaKind.AVRO, avro, "parse_avro"),
    (SchemaKind.AVRO, avro, "program_of"),
    (SchemaKind.AVRO, cache, "_made"),
    (SchemaKind.AVRO, avro.AvroDecoder, "json"),
    (SchemaKind.PROTOBUF, protobuf, "link"),
    (SchemaKind.PROTOBUF, protobuf_files, "_compiled"),
    (SchemaKind.PROTOBUF, protobuf, "compile_program"),
    (SchemaKind.PROTOBUF, protobuf.ProtobufDecoder, "json"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("kind", "where", "name"), STAGES, ids=lambda each: str(each)[:40])
def test_what_a_compiler_or_a_decoder_raises_costs_the_value(
    monkeypatch: pytest.MonkeyPatch, kind: SchemaKind, where: object, name: str, error: Exception
) -> None:
    store = store_of(one(kind))
    for stages in (("texts", name), (name,)):
        for stage in stages:
            owner = where if stage == name else {SchemaKind.AVRO: avro.AvroDecoder,
                                                 SchemaKind.PROTOBUF: protobuf.ProtobufDecoder}[kind]  # fmt: skip
            monkeypatch.setattr(owner, stage, raiser(error))
        topic = TopicSchemas("t", lambda: store, DecoderCache())
        rows = rows_of(
            topic,
            [
                SimpleRecord(None, FRAMES[kind]),
                SimpleRecord(None, b"text"),
                SimpleRecord(None, None),
            ],
        )
        found = topic.texts(rows.columns, Values.AUTO, 1)
        texts = [found.of(index)[1] for index in range(len(found.places))]
        assert b'"valueNote":"' in (texts[0] or b"")
        assert texts[1:] == [None] * (len(texts) - 1)
        field = topic.field(FRAMES[kind], (), 0, is_key=False)
        assert field is not None
        assert field.text is None
        assert field.note


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_column_has_null_and_a_note_where_a_decoder_raises(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    for kind in TEXTS:
        store = store_of(one(kind))
        columns = typed_columns("t", store)
        column = columns._columns["value"]
        monkeypatch.setattr(type(column), "reads", raiser(error))
        monkeypatch.setattr(type(column), "value", raiser(error))
        rows = rows_of(TopicSchemas("t", lambda store=store: store, DecoderCache()),
                       [SimpleRecord(None, FRAMES[kind]), SimpleRecord(None, None)])  # fmt: skip
        ((_, made),) = columns.batches(rows, ["value", "valueNote"])
        assert made["value"].to_pylist() == [None, None]
        note, nothing = made["valueNote"].to_pylist()
        assert note.startswith("the value does not fit the column: ")
        assert nothing is None


PLACES = [
    "message é { }", "message A { int64 é = 1; }", 'import "é.proto"; message A { }', "message A { é b = 1; }",
    "message A { int64 b = 1 [é = 1]; }", "package é; message A { }", "enum E { é = 0; }", "option é = 1;",
    "message A { reserved é; }", 'option java_package = "é', "/* é", "message A { A\ud800 b = 1; }", "\0é", "\u2028",
    'message A { string b = 1 [default = "é"]; } message A { }', "service é { }", "message A { oneof é { } }",
]  # fmt: skip


@pytest.mark.parametrize("syntax", ['syntax = "proto3"; ', 'syntax = "proto2"; ', ""])
@pytest.mark.parametrize("place", PLACES)
def test_a_protobuf_text_with_bytes_above_7f_anywhere_is_refused_with_words(
    place: str, syntax: str
) -> None:
    with pytest.raises(UndecodableError) as caught:
        link(syntax + place)
    caught.value.reason.encode()  # as a line has it


def test_protoc_is_quoted_whatever_it_quotes() -> None:
    with pytest.raises(UndecodableError, match=r"é\.proto:-1:0 error: File not found"):
        link('syntax = "proto3"; import "é.proto"; message A { }')


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_each_exception_becomes_words_that_utf_8_can_write(error: Exception) -> None:
    assert undecodable(error, "the value").reason.encode()


# Which subjects a frame's schema may have

MINE, OTHER = "t-value", "payments-value"
STRATEGIES: list[tuple[str, str, bool]] = [
    ("TopicNameStrategy", "t-value", True),
    ("TopicNameStrategy in a context", ":.eu:t-value", True),
    ("TopicRecordNameStrategy", "t-com.shop.Order", True),
    ("TopicRecordNameStrategy in a context", ":.eu:t-Order", True),
    ("RecordNameStrategy", "com.shop.Order", True),
    ("the other side", "t-key", False),
    ("another topic", "payments-value", False),
    ("a topic whose name begins alike", "t-eu-value", False),
    ("another topic's records", "payments-com.shop.Order", False),
    ("another topic in a context", ":.eu:payments-value", False),
]
LONG_KEY = (7 << 24 | 6 << 16).to_bytes(8, "big")
"""An int64 that begins with 00 and the id 7."""


@pytest.mark.parametrize("given", [None, "file", "payments-*", "/.*/", "nothing"])
@pytest.mark.parametrize(("strategy", "subject", "is_own"), STRATEGIES)
def test_a_frame_is_decoded_by_a_schema_of_its_topic_or_one_that_a_mapping_gives(
    strategy: str, subject: str, is_own: bool, given: str | None
) -> None:
    own = subject.rpartition(":")[2]
    origin = Origin("a file") if given == "file" else Origin("f", 0, 0)
    known = Schema(SchemaKind.AVRO, AVRO, origin=origin, subject=subject, version=1, id=7)
    patterns = () if given in (None, "file") else (NamePattern.parse(given),)
    store = store_of(known, mapped=[Mapped(NamePattern.parse("t"), False, None, subjects=patterns)])
    topic = TopicSchemas("t", lambda: store, DecoderCache())
    is_mapped = given in ("/.*/", "file") or (given == "payments-*" and own.startswith("payments-"))
    frame = FRAMES[SchemaKind.AVRO]
    field = topic.field(frame, (), 0, is_key=False)
    assert field is not None
    if is_own or is_mapped:
        assert field.text == b'{"n":3}', strategy
    else:
        assert (field.text, field.note) == (
            None, "the schema id 7 is not of a subject of this topic; a mapping can name more",
        ), strategy  # fmt: skip
    rows = rows_of(topic, [SimpleRecord(None, frame)] * 3)
    (text, _), *_ = [topic.texts(rows.columns, Values.AUTO, 1).of(0)[::-1]]
    assert (b'{"n":3}' in (text or b"")) == (is_own or is_mapped)


def test_a_record_s_subject_counts_only_without_one_of_the_topic() -> None:
    record = Schema(SchemaKind.AVRO, AVRO, origin=Origin("f", 0, 0), subject="R", version=1, id=7)
    own = Schema(SchemaKind.AVRO, '"int"', origin=Origin("f", 1, 0), subject=MINE, version=1, id=8)
    for schemas, is_shown in (([record], True), ([record, own], False)):
        store = SchemaStore(schemas)
        topic = TopicSchemas("t", lambda store=store: store, DecoderCache())
        field = topic.field(FRAMES[SchemaKind.AVRO], (), 0, is_key=False)
        assert field is not None
        assert (field.text is not None) == is_shown


def test_long_keys_are_not_decoded_with_schemas_of_other_subjects() -> None:
    schemas = [one(SchemaKind.AVRO, subject) for subject in (OTHER, MINE)]
    store = store_of(*schemas)
    topic = TopicSchemas("t", lambda: store, DecoderCache())
    field = topic.field(LONG_KEY, (), 0, is_key=True)
    assert field is not None
    assert field.text is None
    columns = rows_of(topic, [SimpleRecord(LONG_KEY, FRAMES[SchemaKind.AVRO])] * 3).columns
    key, value = topic.texts(columns, Values.AUTO, 1).of(0)
    assert b"keyNote" in (key or b"")
    assert (value or b"").startswith(b'{"n":3}')


def test_a_header_says_which_schema_it_is_whatever_its_subject() -> None:
    from engine.record.record import Header

    store = store_of(one(SchemaKind.AVRO, OTHER))
    topic = TopicSchemas("t", lambda: store, DecoderCache())
    header = Header(b"__value_schema_id", b"\0\0\0\0\7")
    field = topic.field(b"\6", (header,), 0, is_key=False)
    assert field is not None
    assert field.text == b'{"n":3}'


def test_a_subject_that_utf_8_cannot_write_is_in_no_note_as_it_is() -> None:
    schemas = [
        Schema(SchemaKind.AVRO, text, origin=Origin("f", at, 10 + at), subject=f"t\ud800-{at}", version=1, id=7)
        for at, text in enumerate((AVRO, '"int"'))
    ]  # fmt: skip
    mapped = [Mapped(NamePattern.parse("t"), False, None, subjects=(NamePattern.parse("*"),))]
    store = SchemaStore(schemas, mapped=mapped)
    topic = TopicSchemas("t", lambda: store, DecoderCache())
    field = topic.field(FRAMES[SchemaKind.AVRO], (), 0, is_key=False)
    assert field is not None
    assert field.note is not None
    assert field.note.encode()
    assert isinstance(topic.texts(rows_of(topic, [SimpleRecord(None, FRAMES[SchemaKind.AVRO])]).columns, Values.AUTO, 1).places,
                      np.ndarray)  # fmt: skip


@pytest.mark.parametrize("name", ["recovered", "orders.bak", "a.log"])
def test_a_folder_or_file_that_tells_no_topic_may_have_any_schema(
    tmp_path: Path, name: str
) -> None:
    frame = FRAMES[SchemaKind.AVRO].replace(b"\7", b"\1")
    registry, place = tmp_path / "registry", tmp_path / name
    write_topic(registry, [schema_record("payments-value", schema=AVRO)])
    if name.endswith(".log"):
        place.write_bytes(batch([Rec(frame)], 0))
    else:
        place.mkdir()
        (place / f"{0:020}.log").write_bytes(batch([Rec(frame)], 0))
    with kafkafs.open(place, schemas=registry) as opened:
        ((topic, log),) = [(each.topic, each) for each in opened.partitions()]
        (record,) = list(log)
        assert record.decoded().value == {"n": 3}
        (row,) = opened.scan(topic, columns=["decodedValue"]).to_arrow().to_pylist()
        assert row == {"decodedValue": '{"n":3}'}
