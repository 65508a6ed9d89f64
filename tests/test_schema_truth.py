"""The golden topics with schemas: that records and truth belong together, and that no kind of topic is lost."""

from __future__ import annotations

import json

import pytest

from tests.schema_truth import (
    KINDS,
    REGISTRIES,
    SCHEMAS_TOPIC,
    log_records,
    registered,
    schema_log_dir,
    schema_records,
    schema_topics,
)

TOPICS = [(kind, topic) for kind in KINDS for topic in schema_topics(kind)]
SHAPES = {
    "schemas-confluent": {
        *[f"avro-{what}" for what in ("types", "logical", "logical-new", "complex", "tree", "blocks", "evolution", "references",
                                      "primitives", "record-names", "headers", "garbage")],
        *[f"proto-{what}" for what in ("types", "several", "known", "any", "references", "keys", "headers", "garbage")], "proto2",
        *[f"json-{what}" for what in ("types", "references", "headers", "garbage")],
        *[f"python-{what}" for what in ("avro", "avro-headers", "protobuf", "protobuf-headers", "json")],
        "context-west", "context-other", "deleted-version", "hard-deleted-subject", "reused-id",
    },
    "schemas-compacted": {"kept", "deleted-subject", "hard-deleted-version", "hard-deleted-subject", "reused-id"},
    "schemas-framings": {
        *[f"apicurio-{way}-{kind}" for way in ("4-bytes", "8-bytes", "8-bytes-content", "headers", "headers-content") for kind in ("avro", "protobuf")],
        *[f"glue-{kind}{zlib}" for kind in ("avro", "protobuf", "json") for zlib in ("", "-zlib")],
        "glue-garbage", "avro-file", "avro-single-object", "bare-avro", "bare-protobuf",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_topic_is_there(kind: str) -> None:
    assert SHAPES[kind] <= set(schema_topics(kind))


@pytest.mark.parametrize(("kind", "topic"), TOPICS)
def test_each_record_of_the_log_has_its_truth(kind: str, topic: str) -> None:
    records = schema_records(kind, topic)
    assert records
    assert [record.offset for record in records] == list(range(len(records)))
    truths = [t for record in records for t in (record.key_truth, record.value_truth) if t]
    assert truths
    assert all(truth.error is None or truth.value is None for truth in truths)


def written_schemas(kind: str) -> set[tuple[str, int, int, str]]:
    found = set()
    for _, _, key, value, _ in log_records(schema_log_dir(kind) / f"{SCHEMAS_TOPIC}-0"):
        if value is not None and json.loads(key or b"{}").get("keytype") == "SCHEMA":
            row = json.loads(value)
            found.add((row["subject"], row["version"], row["id"], row["schema"]))
    return found


@pytest.mark.parametrize("kind", REGISTRIES)
def test_the_schemas_topic_holds_what_the_registry_listed_after_the_deletes(kind: str) -> None:
    listed = {(s["subject"], s["version"], s["id"], s["schema"]) for s in registered(kind)}
    assert listed
    assert listed <= written_schemas(kind)


def test_only_compaction_took_away_what_the_registry_listed_before_the_deletes() -> None:
    gone = {}
    for kind in REGISTRIES:
        listed = {
            (s["subject"], s["version"], s["id"], s["schema"]) for s in registered(kind, "before")
        }
        gone[kind] = {subject for subject, *_ in listed - written_schemas(kind)}
    lost = {
        f"{name}-value" for name in ("hard-deleted-version", "hard-deleted-subject", "reused-id")
    }
    assert gone == {"schemas-confluent": set(), "schemas-compacted": lost}
