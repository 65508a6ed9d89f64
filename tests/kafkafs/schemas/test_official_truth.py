"""Golden topics with schemas: each key and value is what the official deserializer returned for it.

No registry runs: the schemas are those that `_schemas` of the same log dir still holds, or files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest

from engine.lines.line_decoder import DecodedField
from engine.record.record import Header
from kafkafs.schemas.decoders.cache import DecoderCache
from kafkafs.schemas.sources.opened import open_schemas
from kafkafs.schemas.store import SchemaStore
from kafkafs.schemas.topic_decoder import TopicSchemas
from tests.schema_truth import (
    KINDS,
    REGISTRIES,
    SchemaRecord,
    SideTruth,
    registered,
    schema_paths,
    schema_records,
    schema_topics,
)

TOPICS = [(kind, topic) for kind in KINDS for topic in schema_topics(kind)]
# Java reads these all the same: bytes that are not UTF-8; text after the value, a
# byte order mark, NaN.
STRICTER = {("avro-garbage", 15),
            ("json-garbage", 6), ("json-garbage", 9), ("json-garbage", 11)}  # fmt: skip
# The id that the first records ask for belongs to another schema now, and compaction took theirs.
MISTAKEN = {("schemas-compacted", "reused-id", offset) for offset in range(3)}
# Of these a part is not shown, and a note says so; the official deserializers refuse the value.
PARTS = ("required fields are missing: ", "an Any holds a type that the schema does not have: ")
FLOATS = ("aFloat", "f")  # fields of 32 bits


@cache
def store_of(kind: str) -> SchemaStore:
    return open_schemas(schema_paths(kind))


def sides(kind: str, topic: str) -> Iterator[tuple[SchemaRecord, SideTruth, DecodedField | None]]:
    """Each key and value that has a truth, and the field that a line would show."""
    store = store_of(kind)
    decoder = TopicSchemas(
        topic, lambda: store, DecoderCache(), is_mapped=topic.startswith("bare-")
    )
    for record in schema_records(kind, topic):
        headers = [Header(name.encode(), value) for name, value in record.headers]
        shown = decoder.fields(record.key, record.value, headers, record.timestamp)
        for truth, field in zip((record.key_truth, record.value_truth), shown, strict=True):
            if truth is not None and (kind, topic, record.offset) not in MISTAKEN:
                yield record, truth, field


def is_lost(kind: str, truth: SideTruth) -> bool:
    """Whether compaction took the schema away: the registry of the log dir does not have it either."""
    if kind != "schemas-compacted":
        return False
    return truth.id not in {schema["id"] for schema in registered(kind)}


def same(shown: Any, official: Any, field: str = "") -> bool:
    """Whether two parsed JSON values are equal; numbers with a point if they read as the same float."""
    if isinstance(shown, dict) and isinstance(official, dict):
        return shown.keys() == official.keys() and all(
            same(shown[name], official[name], name) for name in shown
        )
    if isinstance(shown, list) and isinstance(official, list):
        return len(shown) == len(official) and all(map(same, shown, official))
    if isinstance(shown, Decimal) and isinstance(official, Decimal):
        size = np.float32 if field in FLOATS else np.float64
        return bool(size(float(shown)) == size(float(official)))
    return type(shown) is type(official) and bool(shown == official)


@pytest.mark.parametrize(("kind", "topic"), TOPICS)
def test_each_value_is_what_the_official_deserializer_returned(kind: str, topic: str) -> None:
    for record, truth, field in sides(kind, topic):
        if truth.error is not None or (topic, record.offset) in STRICTER or is_lost(kind, truth):
            continue
        assert field is not None, record
        assert field.text is not None, (record, field)
        assert same(json.loads(field.text, parse_float=Decimal), truth.value), (record, field)
        assert field.encoding.decode() == truth.kind


@pytest.mark.parametrize(("kind", "topic"), TOPICS)
def test_a_value_that_the_official_deserializer_refuses_stays_bytes(kind: str, topic: str) -> None:
    for record, truth, field in sides(kind, topic):
        if truth.error is not None or (topic, record.offset) in STRICTER or is_lost(kind, truth):
            is_part = field is not None and field.note is not None and field.note.startswith(PARTS)
            assert is_part or field is None or field.text is None, (record, field)


@pytest.mark.parametrize(("kind", "topic"), [pair for pair in TOPICS if pair[0] in REGISTRIES])
def test_each_value_names_the_schema_that_the_serializer_asked_for(kind: str, topic: str) -> None:
    known = [*registered(kind, "before"), *registered(kind, "after")]
    for record, truth, field in sides(kind, topic):
        if field is None or field.schema is None or (truth.id is None and truth.guid is None):
            continue
        named = json.loads(field.schema)
        asked = {
            (schema["id"], schema["subject"], schema["version"])
            for schema in known
            if truth.id == schema["id"] or (truth.guid is not None and truth.guid == schema["guid"])
        }
        assert (named["id"], named["subject"], named["version"]) in asked, record


def test_the_context_of_the_topics_own_subject_decides_which_schema_an_id_means() -> None:
    for context in ("west", "other"):
        for record, truth, field in sides("schemas-confluent", f"context-{context}"):
            assert field is not None
            subject = json.loads(field.schema or b"{}")["subject"]
            part = "key" if truth is record.key_truth else "value"
            assert subject == f":.{context}:context-{context}-{part}"
