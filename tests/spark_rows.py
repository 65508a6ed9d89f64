"""Rows of the Spark source beside what a consumer saw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.fixtures_data import NO_TIMESTAMP_TYPE, TruthRecord

Seen = tuple[object, ...]
"""Offset, librdkafka's timestamp type, milliseconds, key, value, headers."""

_KINDS = {-1: 0, 0: 1, 1: 2}


def seen(row: dict[str, Any]) -> Seen:
    """A row of the connector's columns and headers."""
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
    milliseconds = round(row["timestamp"].timestamp() * 1000)
    kind = _KINDS[row["timestampType"]]
    return row["offset"], kind, milliseconds, row["key"], row["value"], headers


def expected(record: TruthRecord) -> Seen:
    """The same of a record of the truth."""
    # Where there is no timestamp, librdkafka says 0, the connector and we -1.
    milliseconds = -1 if record.timestamp_type == NO_TIMESTAMP_TYPE else record.timestamp
    return (
        record.offset, record.timestamp_type, milliseconds, record.key, record.value, record.headers,
    )  # fmt: skip


def by_partition(rows: Iterable[dict[str, Any]]) -> dict[str, list[Seen]]:
    """What was seen of each partition, by its name, in the order of offsets."""
    found: dict[str, list[Seen]] = defaultdict(list)
    for row in rows:
        found[f"{row['topic']}-{row['partition']}"].append(seen(row))
    return {name: sorted(each, key=lambda one: one[0]) for name, each in found.items()}  # type: ignore[arg-type,return-value]
