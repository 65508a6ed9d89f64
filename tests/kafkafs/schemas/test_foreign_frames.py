"""Values that the serializers of Apicurio, AWS Glue and Avro framed: each leads to its schema and its payload."""

from __future__ import annotations

from functools import cache

import pytest

from engine.record.record import Header
from kafkafs.schemas.framing import Form, Framing, framings, payload
from kafkafs.schemas.schema import Schema
from kafkafs.schemas.sources.opened import open_schemas
from kafkafs.schemas.store import SchemaStore
from tests.schema_truth import SchemaRecord, schema_files, schema_records, schema_topics

KIND = "schemas-framings"
FORMS = {
    "apicurio-4-bytes": Form.CONFLUENT,
    "apicurio-8-bytes": Form.APICURIO,
    "apicurio-headers": Form.APICURIO_HEADER,
    "glue": Form.GLUE,
    "avro-single-object": Form.AVRO_SINGLE_OBJECT,
}
TOPICS = [
    topic
    for topic in schema_topics(KIND)
    if topic.startswith(tuple(FORMS)) and not topic.endswith("garbage")
]


@cache
def store() -> SchemaStore:
    return open_schemas([str(schema_files(KIND))])


def asked(topic: str, record: SchemaRecord) -> tuple[Framing, Schema]:
    """The first form of a value whose schema is known."""
    headers = [Header(name.encode(), value) for name, value in record.headers]
    for framing in framings(record.value or b"", headers):
        candidates = store().asked_for(framing, topic)
        if candidates:
            return framing, candidates[0].schema
    raise AssertionError(f"{topic} offset {record.offset} asks for no known schema")


@pytest.mark.parametrize("topic", TOPICS)
def test_a_frame_asks_for_the_file_that_the_mapping_names(topic: str) -> None:
    for record in schema_records(KIND, topic):
        framing, schema = asked(topic, record)
        assert framing.form is next(form for way, form in FORMS.items() if topic.startswith(way))
        assert record.value_truth is not None
        assert schema.kind.value == record.value_truth.kind


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_a_compressed_frame_has_the_payload_of_the_plain_one(kind: str) -> None:
    plain, compressed = (
        [
            payload(record.value or b"", framing, schema.kind)
            for record in schema_records(KIND, topic)
            for framing, schema in [asked(topic, record)]
        ]
        for topic in (f"glue-{kind}", f"glue-{kind}-zlib")
    )
    assert [(each.data, each.message) for each in plain] == [
        (each.data, each.message) for each in compressed
    ]


def test_the_payload_of_a_single_object_is_the_bare_record() -> None:
    topic = "avro-single-object"
    for record, bare in zip(
        schema_records(KIND, topic), schema_records(KIND, "bare-avro"), strict=True
    ):
        framing, schema = asked(topic, record)
        assert payload(record.value or b"", framing, schema.kind).data == bare.value
