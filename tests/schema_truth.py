"""Topics whose keys and values have schemas, and what the official deserializers made of each record.

The folders are tests/data/schemas-*; the README.md in each says what wrote them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engine import kernel
from engine.columns.batch_table import BATCH_ROW
from tests.fixtures_data import DATA

REGISTRIES = ("schemas-confluent", "schemas-compacted")
"""Kinds that hold `_schemas`."""
KINDS = (*REGISTRIES, "schemas-framings")
SCHEMAS_TOPIC = "_schemas"


@dataclass(frozen=True, slots=True)
class SideTruth:
    """What the official deserializer made of a key or value: `value` if `error` is None.

    Numbers with a point or an exponent are Decimal. `console` is the text that the console consumer
    of that format prints: None where it fails.
    """

    kind: str
    id: int | None
    guid: str | None
    indexes: tuple[int, ...]
    message: str | None
    value: Any
    error: str | None
    console: str | None


@dataclass(frozen=True, slots=True)
class SchemaRecord:
    """A record as its log has it, and its truth: None for a side that is null or has no schema."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    key_truth: SideTruth | None
    value_truth: SideTruth | None


def schema_log_dir(kind: str) -> Path:
    """The log dir of `kind`: one of KINDS."""
    return DATA / kind / "data"


def schema_files(kind: str) -> Path | None:
    """The folder with the schemas of a log dir that has no `_schemas`."""
    folder = DATA / kind / "schemas"
    return folder if folder.is_dir() else None


def schema_paths(kind: str) -> list[str]:
    """The paths of all schemas of a log dir, and of a mapping for topics of no naming strategy."""
    mapping = DATA / kind / "subjects.toml"
    found = [schema_files(kind) or schema_log_dir(kind), *([mapping] if mapping.exists() else [])]
    return list(map(str, found))


def schema_topics(kind: str) -> list[str]:
    """The topics of that log dir whose truth is known, sorted; each has one partition."""
    return sorted(
        path.name.removesuffix("-0.jsonl.gz") for path in _truth(kind).glob("*-0.jsonl.gz")
    )


@cache
def schema_records(kind: str, topic: str) -> tuple[SchemaRecord, ...]:
    """The topic's records in order, each with its truth."""
    text = gzip.decompress((_truth(kind) / f"{topic}-0.jsonl.gz").read_bytes()).decode()
    rows = {row["offset"]: row for row in map(_parsed, text.rstrip("\n").split("\n"))}
    found = []
    for offset, timestamp, key, value, headers in log_records(schema_log_dir(kind) / f"{topic}-0"):
        row = rows.pop(offset)
        sides = _side(row["key"]), _side(row["value"])
        found.append(SchemaRecord(offset, timestamp, key, value, headers, *sides))
    assert not rows, f"{topic}: the truth has records that the log has not: {sorted(rows)}"
    return tuple(found)


@cache
def registered(kind: str, when: str = "after") -> tuple[Mapping[str, Any], ...]:
    """The list of schemas that the registry of one of REGISTRIES gave, `when` "before" or "after" the deletes.

    Each has subject, version, id, guid, schemaType, schema, deleted, and references where it has any.
    """
    text = gzip.decompress((_truth(kind) / "registry.json.gz").read_bytes())
    return tuple(json.loads(text)[when])


def log_records(
    folder: Path,
) -> Iterator[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    """Offset, timestamp, key, value and headers of each record in a partition's folder."""
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        table = np.zeros(10_000, BATCH_ROW.dtype)
        rows, _, _ = kernel.walk(data, table, 0, 0, True)
        columns = kernel.decode(data, table, 0, rows, start_position=0)
        for at in range(len(columns)):
            headers = tuple((each.key.decode(), each.value) for each in columns.headers(at))
            yield (
                int(columns.offset[at]),
                int(columns.timestamp[at]),
                columns.key(at),
                columns.value(at),
                headers,
            )


def _truth(kind: str) -> Path:
    return DATA / kind / "truth"


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _side(row: dict[str, Any] | None) -> SideTruth | None:
    if not row:
        return None
    return SideTruth(
        row["kind"],
        row.get("id"),
        row.get("guid"),
        tuple(row.get("indexes", ())),
        row.get("message"),
        row.get("json"),
        row.get("error"),
        row.get("console"),
    )
