"""Schemas as JSON objects, one a line: what `kafkafs schemas --json` prints and `--export` writes, and reading it back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from engine.json_facts import facts_of
from engine.topics.decoded_record import too_large
from kafkafs.schemas.schema import JsonValue, Origin, Reference, Schema, SchemaKind

CATALOG = "schemas.jsonl"
"""Name of the file in an export."""

STATES = ("live", "deleted", "gone")
"""States of a version: in the registry, deleted softly, deleted for good."""


def state_of(schema: Schema) -> str:
    """Return the state of a version."""
    return STATES[schema.is_deleted + schema.is_gone]


def facts(schema: Schema) -> dict[str, Any]:
    """Return a schema as a JSON object; empty references, metadata and rules are left out."""
    found: dict[str, Any] = {
        **facts_of(schema, "subject version id guid schemaType=kind.schema_type"),
        "state": state_of(schema),
    }
    if schema.references:
        found["references"] = [reference._asdict() for reference in schema.references]
    if schema.metadata is not None:
        found["metadata"] = schema.metadata
    if schema.rule_set is not None:
        found["ruleSet"] = schema.rule_set
    if schema.is_encrypted:
        found["isEncrypted"] = True
    found["since"] = facts_of(
        schema,
        "file=origin.path offset=origin.offset timestamp=origin.timestamp isFirst=origin.is_first",
    )
    times = {"deletedSince": schema.deleted_since, "until": schema.until}
    return {**found, **times, "schema": schema.text}


def parse_catalog(data: bytes) -> Iterator[Schema | ValueError]:
    """Yield the schemas of a catalog, and an error with the number of the line for each line without one."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        reason = too_large(line)
        try:
            if reason is not None:
                raise ValueError(reason)
            yield _schema(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            what = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
            yield ValueError(f"line {number} is not a schema: {what}")


def _schema(found: JsonValue) -> Schema:
    kind = SchemaKind.of_type(found["schemaType"])
    state = STATES.index(found["state"])
    since = found["since"]
    if kind is None:
        raise ValueError(f"the unknown schema type {found['schemaType']}")
    return Schema(
        kind,
        _checked(found["schema"], str),
        tuple(
            Reference(
                _checked(each["name"], str),
                _checked(each["subject"], str),
                _checked(each["version"], int),
            )
            for each in found.get("references", ())
        ),
        Origin(
            _checked(since["file"], str),
            _optional(since["offset"], int),
            _optional(since["timestamp"], int),
            since["isFirst"] is True,
        ),
        subject=_optional(found["subject"], str),
        version=_optional(found["version"], int),
        id=_optional(found["id"], int),
        guid=_optional(found["guid"], str),
        is_deleted=state > 0,
        is_gone=state > 1,
        deleted_since=_optional(found["deletedSince"], int),
        until=_optional(found["until"], int),
        metadata=_optional(found.get("metadata"), dict),
        rule_set=_optional(found.get("ruleSet"), dict),
        is_encrypted=found.get("isEncrypted") is True,
    )


def _checked(value: JsonValue, kind: type) -> JsonValue:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{json.dumps(value)[:100]} is not of the type {kind.__name__}")
    return value


def _optional(value: JsonValue, kind: type) -> JsonValue:
    return None if value is None else _checked(value, kind)
