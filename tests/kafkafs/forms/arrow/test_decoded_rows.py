"""Decoded columns: what the record line shows, beside the exact bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import kafkafs
from kafkafs.api.opened_source import OpenedSource
from kafkafs.forms.arrow.arrow_columns import DECODED
from tests.schema_truth import (
    REGISTRIES,
    log_records,
    schema_log_dir,
    schema_records,
    schema_topics,
)

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")

SHOWN_AS_JSON = ("avro", "protobuf", "json-schema", "json")
NEITHER = "the bytes are neither text nor JSON, and name no schema"


@pytest.fixture(scope="module", params=REGISTRIES)
def registry(request: pytest.FixtureRequest) -> Iterator[tuple[str, OpenedSource]]:
    with kafkafs.open(schema_log_dir(request.param)) as source:
        yield request.param, source


def test_decoded_columns_are_what_the_record_line_shows(
    registry: tuple[str, OpenedSource],
) -> None:
    kind, source = registry
    seen = 0
    for topic in schema_topics(kind):
        rows = (
            source.scan(topic, columns=["key", "value", "offset", *DECODED]).to_arrow().to_pylist()
        )
        shown = [json.loads(source.read(f"{topic}-0/offset/{row['offset']}")) for row in rows]
        assert len(rows) == len(shown) == len(schema_records(kind, topic))
        exact = [each[2:4] for each in log_records(schema_log_dir(kind) / f"{topic}-0")]
        assert [(row["key"], row["value"]) for row in rows] == exact
        for row, line in zip(rows, shown, strict=True):
            for side, schema in (("key", "keySchema"), ("value", "schema")):
                is_decoded = line.get(f"{side}Encoding") in SHOWN_AS_JSON
                found = row[f"decoded{side.title()}"]
                assert (None if found is None else json.loads(found)) == (
                    line[side] if is_decoded else None
                )
                is_bytes = line.get(f"{side}Encoding") == "base64"
                note = line.get(f"{side}Note", NEITHER if is_bytes else None)
                assert row[f"{side}Note"] == note
                named = row[f"{side}Schema"]
                known = {} if named is None else json.loads(named)
                assert known == line.get(schema, {})
                seen += is_decoded
    assert seen >= 20
