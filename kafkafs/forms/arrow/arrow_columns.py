"""Columns of records in Arrow's types; names are those of the source of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from engine.log.unmatched import did_you_mean
from kafkafs.forms.arrow.decoded_rows import DECODED_FIELDS

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

RECORD_FIELDS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
    "leaderEpoch": pa.int32(),
    "producerId": pa.int64(),
    "producerEpoch": pa.int32(),
    "sequence": pa.int32(),
    "transaction": pa.string(),
    "codec": pa.string(),
    "segment": pa.int64(),
    "batchPosition": pa.int64(),
    "timestampMillis": pa.int64(),
    **DECODED_FIELDS,
    "leftover": pa.string(),
    "_corrupt": pa.string(),
}
"""All columns of records. In milliseconds, `timestamp` holds each timestamp of Kafka; no timestamp is null. Forms with
microseconds have null for one that these do not hold; `timestampMillis` is the number of each, -1 for none. `leftover` is
the file or folder of records that a broker set aside, null for those of a log.
"""

USUAL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
CORRUPT = "_corrupt"
LEFTOVER = "leftover"
DECODED = tuple(DECODED_FIELDS)


def record_schema(
    names: Sequence[str], typed: Mapping[str, pa.DataType] | None = None
) -> pa.Schema:
    """Return the schema of some columns.

    Args:
        names: names of columns, in order.
        typed: types of keys and values that are decoded to them.

    Raises:
        KeyError: there is no such column.
        ValueError: a column is named twice.
    """
    for name in names:
        if name not in RECORD_FIELDS:
            hint = did_you_mean(name, RECORD_FIELDS) or f"; they have {', '.join(RECORD_FIELDS)}"
            raise KeyError(f"records have no column {name!r}{hint}")
    if len(set(names)) < len(names):
        raise ValueError(f"a column is there twice: {', '.join(names)}")
    types = {**RECORD_FIELDS, **(typed or {})}
    return pa.schema([(name, types[name]) for name in names])
