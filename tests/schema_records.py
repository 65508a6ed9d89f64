"""Records of a registry's topic for tests, spelled as Confluent's registry spells them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.log.log_directory import open_source
from kafkafs.schemas.sources.source_schemas import SourceSchemas
from kafkafs.schemas.store import SchemaStore
from tests.builders import Rec, batch, write_segment

NOW = 1_700_000_000_000
STRING, LONG = '"string"', '"long"'


def text_of(found: Any) -> bytes:
    """JSON as Jackson writes it."""
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()


def record(key: dict[str, Any], value: dict[str, Any] | None, timestamp: int = NOW) -> Rec:
    """A record of JSON objects."""
    return Rec(None if value is None else text_of(value), text_of(key), timestamp)


def schema_record(
    subject: str = "orders-value",
    version: int = 1,
    id_: int = 1,
    schema: str = STRING,
    *,
    timestamp: int = NOW,
    deleted: bool = False,
    magic: int = 1,
    **fields: Any,
) -> Rec:
    """A version of a subject; `fields` are schemaType, references, metadata, ruleSet or md5."""
    value = {"subject": subject, "version": version, "id": id_, **fields, "schema": schema}
    return record(schema_key(subject, version, magic), {**value, "deleted": deleted}, timestamp)


def schema_key(subject: str, version: int, magic: int = 1) -> dict[str, Any]:
    """The key of a version."""
    return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": magic}


def tombstone(subject: str = "orders-value", version: int = 1, timestamp: int = NOW) -> Rec:
    """The deletion of a version for good."""
    return record(schema_key(subject, version), None, timestamp)


def subject_record(keytype: str, subject: str | None, timestamp: int = NOW, **value: Any) -> Rec:
    """A record about a subject: DELETE_SUBJECT, CLEAR_SUBJECT, CONFIG or MODE."""
    key = {"keytype": keytype, "subject": subject, "magic": 0}
    return record(key, {"subject": subject, **value}, timestamp)


def write_topic(
    folder: Path, records: list[Rec], base_offset: int = 0, name: str = "_schemas-0"
) -> Path:
    """Write records, each a batch as a registry writes them; the segment's .log."""
    batches = [batch([each], base_offset + place) for place, each in enumerate(records)]
    return write_segment(folder / name, batches, base_offset)


def store_of(*folders: Path) -> SchemaStore:
    """The schemas in log dirs."""
    with_schemas = SourceSchemas(open_source([str(folder) for folder in folders]))
    return with_schemas.store()


def written(folder: Path, *records: Rec) -> SchemaStore:
    """The schemas of a topic with these records."""
    write_topic(folder, list(records))
    return store_of(folder)
