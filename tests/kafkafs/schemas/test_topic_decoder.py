"""Which schema decodes a record of a topic, and what its line says when none does."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from engine.lines.line_decoder import DecodedField
from engine.log.partition_choice import NamePattern
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.cache import DecoderCache
from kafkafs.schemas.schema import Origin, Schema, SchemaKind
from kafkafs.schemas.store import SchemaStore
from kafkafs.schemas.topic_decoder import TopicSchemas
from kafkafs.schemas.topic_subjects import Mapped

RECORD = '{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}'


def schema(id_: int, text: str = RECORD, **more: Any) -> Schema:
    return Schema(
        SchemaKind.AVRO, text, id=id_, **{"subject": f"s{id_}-value", "version": 1} | more
    )


def shown(
    store: SchemaStore, value: bytes, *, timestamp: int = 0, mapped: bool = False
) -> DecodedField | None:
    topic = TopicSchemas("t", lambda: store, DecoderCache(), is_mapped=mapped)
    return topic.fields(None, value, (), timestamp)[1]


def test_a_known_id_is_decoded_and_named() -> None:
    found = shown(SchemaStore([schema(7)]), b"\0\0\0\0\7\x06")
    assert found is not None
    assert isinstance(found.made_by, AvroDecoder)
    assert found._replace(made_by=None) == DecodedField(
        b'{"n":3}', b"avro", None, b'{"id":7,"subject":"s7-value","version":1}'
    )


@pytest.mark.parametrize(
    ("value", "note"),
    [
        (b"\0\0\0\0\x08\x06", "the schema id 8 is not known"),
        (b"\3\0" + bytes(16), "the schema 00000000-0000-0000-0000-000000000000 is not known"),
        (b"\xc3\1" + bytes(8), "the schema with the fingerprint 0000000000000000 is not known"),
        (b"\0\0\0\0\7", "the bytes end before the value does, at byte 0"),
        (b"\0\0\0\0\x09\0", "the schema is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_what_does_not_decode_has_a_note(value: bytes, note: str) -> None:
    found = shown(SchemaStore([schema(7), schema(9, "no JSON")]), value)
    assert found is not None
    assert (found.text, found.note) == (None, note)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0abc", b"\3abc", b"Object", b"\xc3\xa9", b"text"])
def test_bytes_of_no_form_are_left_alone(value: bytes) -> None:
    assert shown(SchemaStore([schema(7)]), value) is None


def test_an_unknown_id_stays_unknown_so_that_lines_do_not_change() -> None:
    stores = [SchemaStore([schema(1)]), SchemaStore([schema(1), schema(8)])]
    topic = TopicSchemas("t", lambda: stores[0], DecoderCache())
    before = topic.fields(None, b"\0\0\0\0\x08\x06", (), 0)
    del stores[0]
    assert topic.fields(None, b"\0\0\0\0\x08\x06", (), 0) == before
    again = TopicSchemas("t", lambda: stores[0], DecoderCache())
    found = again.fields(None, b"\0\0\0\0\x08\x06", (), 0)[1]
    assert found is not None
    assert found.text == b'{"n":3}'


def test_an_id_given_twice_has_the_schema_of_the_record_s_time() -> None:
    store = SchemaStore(
        [
            schema(7, '"int"', subject="t-value", origin=Origin("f", 0, 100), until=200),
            schema(7, '"boolean"', subject="t-value", origin=Origin("f", 1, 200)),
        ]
    )
    found = [shown(store, b"\0\0\0\0\7\1", timestamp=time) for time in (150, 250)]
    assert [each and each.text for each in found] == [b"-1", b"true"]


def test_bare_values_have_the_schema_that_is_given_for_the_topic() -> None:
    mapped = Mapped(NamePattern.parse("t"), False, "s7-value")
    found = shown(SchemaStore([schema(7)], mapped=[mapped]), b"\x06", mapped=True)
    assert found is not None
    assert found.text == b'{"n":3}'


def test_schemas_that_cannot_be_read_leave_a_note() -> None:
    def store() -> SchemaStore:
        raise OSError(5, "Input/output error")

    topic = TopicSchemas("t", store, DecoderCache())
    found = topic.fields(None, b"\0\0\0\0\7\x06", (), 0)[1]
    assert found is not None
    assert found.note == "the schemas cannot be read: [Errno 5] Input/output error"


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_an_avro_file_is_the_list_of_its_objects(codec: str) -> None:
    out = io.BytesIO()
    objects = [{"n": 1}, {"n": 2}]
    fastavro.writer(out, fastavro.parse_schema(json.loads(RECORD)), objects, codec=codec)
    found = shown(SchemaStore(), out.getvalue())
    assert found is not None
    if codec == "bzip2":
        assert found.note == "the Avro file has the codec 'bzip2', not null or deflate"
    else:
        assert json.loads(found.text or b"") == objects


@pytest.mark.parametrize("cut", [5, 20, 60, 1])
def test_a_damaged_avro_file_has_a_note(cut: int) -> None:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(json.loads(RECORD)), [{"n": 1}])
    found = shown(SchemaStore(), out.getvalue()[:-cut])
    assert found is not None
    assert found.text is None
    assert found.note
