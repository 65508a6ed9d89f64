"""Arrow record batches of decoded records, with only the columns of a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from engine import kernel
from engine.coding.compression import CODEC_NAMES
from engine.columns.binary_columns import BinaryColumn
from engine.record.attributes import COMPRESSION_MASK, TIMESTAMP_TYPE_MASK
from engine.record.fate import STATES
from engine.units import MAX_INT64, NO_TIMESTAMP
from kafkafs.forms.arrow.decoded_rows import (
    BUILDERS,
    DECODED_FIELDS,
    refuse_misfits,
    refuse_undecoded,
    shown_bytes,
)
from kafkafs.forms.arrow.typed_values import TypedValues
from kafkafs.records.decoded import decoded_parts
from kafkafs.records.rows import Rows

MOST_ROWS = 10_000
MOST_BYTES = 16 * 1024 * 1024
MOST_MILLISECONDS = MAX_INT64 // 1000
_NO_TIMESTAMP_TYPE = -1
_TRANSACTIONS = pa.array(STATES, pa.string())
_CODECS = pa.array(CODEC_NAMES, pa.string())
_SIDES = ("key", "value")
_SHOWING = {side: {f"decoded{side.title()}", f"{side}Schema", f"{side}Note"} for side in _SIDES}
"""Columns that need a side to be decoded, beside its bytes."""


def record_batches(
    schema: pa.Schema,
    rows: Rows,
    *,
    fail_on_undecodable: bool = False,
    typed: TypedValues | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of at most MOST_ROWS rows and about MOST_BYTES, unless one record is larger.

    Args:
        schema: schema of the batches.
        rows: the rows.
        fail_on_undecodable: fail at what does not decode.
        typed: keys and values that become columns of their schema's type.

    Raises:
        UndecodableRecordError: see `refuse_undecoded` and `refuse_misfits`.
    """
    in_types = [] if typed is None else typed.made(schema.names)
    others = [name for name in schema.names if name not in in_types]
    is_strict = fail_on_undecodable and len(in_types) > 0
    asked = {*schema.names, "keyNote", "valueNote"} if is_strict else schema.names
    asks_decoded = is_strict or _asks_decoded(others, rows)
    sides: Sequence[str] = _SIDES
    if in_types and not is_strict:  # no decoder of a typed column needs the other side
        sides = [side for side in _SIDES if not _SHOWING[side].isdisjoint(others)]
    for part in _parts(rows):
        chosen = rows.some(part)
        decoded: Iterable[Rows] = decoded_parts(chosen, sides) if asks_decoded else (chosen,)
        if fail_on_undecodable and asks_decoded and rows.fields is None:
            decoded = map(refuse_undecoded, decoded)
        for some in decoded:
            if typed is None or not in_types:
                yield _batch(schema, some, {})
                continue
            for shown, made in typed.batches(some, asked):
                if is_strict:
                    refuse_misfits(shown, made)
                yield _batch(schema, shown, made)


def _batch(schema: pa.Schema, rows: Rows, made: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return rows as a batch, with the columns that are made already."""
    if not schema.names:
        return rows_without_columns(len(rows))
    arrays = [made[field.name] if field.name in made else _builder(field)(rows) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _asks_decoded(names: Sequence[str], rows: Rows) -> bool:
    replaced = () if _shows_bytes(rows) else ("key", "value")
    return any(name in DECODED_FIELDS or name in replaced for name in names)


def _shows_bytes(rows: Rows) -> bool:
    return rows.keeps_bytes or (rows.decoder is None and rows.fields is None)


def rows_without_columns(count: int) -> pa.RecordBatch:
    """Return rows that only count."""
    struct = pa.StructArray.from_buffers(pa.struct([]), count, [None])
    return pa.RecordBatch.from_struct_array(struct)


def one_row(schema: pa.Schema, known: Mapping[str, object]) -> pa.RecordBatch:
    """Return one row of the known values; other columns are null."""
    if not schema.names:
        return rows_without_columns(1)
    return pa.RecordBatch.from_pylist(
        [{name: known.get(name) for name in schema.names}], schema=schema
    )


def _parts(rows: Rows) -> Iterator[slice]:
    """Yield the places of the rows of each batch."""
    indices = rows.indices
    columns = rows.columns
    is_small = len(columns.arena) <= MOST_BYTES
    start = 0
    while start < len(indices):
        part = indices[start : start + MOST_ROWS]
        if not is_small:
            sizes = columns.key_size[part].astype(np.int64)
            sizes += columns.value_size[part]
            sizes += columns.headers_size[part]
            ends = np.cumsum(sizes)
            if ends[-1] > MOST_BYTES:
                part = part[: max(int(ends.searchsorted(MOST_BYTES, "right")), 1)]
        yield slice(start, start + len(part))
        start += len(part)


# -- columns


@lru_cache(maxsize=64)
def _most_rows_of(value: str | int | None, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), MOST_ROWS)


def _same(value: str | int | None, kind: pa.DataType, count: int) -> pa.Array:
    """Return a column with the same value in each row."""
    return _most_rows_of(value, kind).slice(0, count)


def _bytes(rows: Rows, field: str) -> pa.Array:
    """Return the keys or values as one binary array."""
    column = kernel.gather(rows.columns, rows.indices, field)
    return pa.Array.from_buffers(pa.binary(), len(rows), _buffers(column))


def _key(rows: Rows) -> pa.Array:
    if _shows_bytes(rows):
        return _bytes(rows, "key")
    return shown_bytes(rows, 0)


def _value(rows: Rows) -> pa.Array:
    if _shows_bytes(rows):
        return _bytes(rows, "value")
    return shown_bytes(rows, 1)


def _timestamps(rows: Rows) -> pa.Array:
    """Return the timestamps in microseconds; null for one that overflows, whose number is `timestampMillis`."""
    milliseconds = rows.numbers("timestamp")
    if max(int(milliseconds.max()), -int(milliseconds.min())) > MOST_MILLISECONDS:
        bad = (milliseconds > MOST_MILLISECONDS) | (milliseconds < -MOST_MILLISECONDS)
        fitting = np.where(bad, 0, milliseconds) * 1000
        return pa.array(fitting, pa.int64(), mask=bad).view(pa.timestamp("us", "UTC"))
    microseconds = pa.py_buffer(milliseconds * 1000)
    return pa.Array.from_buffers(pa.timestamp("us", "UTC"), len(rows), [None, microseconds])


def _milliseconds(rows: Rows) -> pa.Array:
    """Return the timestamps in milliseconds, which each one fits; no timestamp is null."""
    found = rows.numbers("timestamp")
    missing = found == NO_TIMESTAMP
    mask = missing if missing.any() else None
    return pa.array(found, pa.int64(), mask=mask).view(pa.timestamp("ms", "UTC"))


def _timestamp_type(rows: Rows) -> pa.Array:
    table = rows.table
    is_append_time = (table["attributes"] & TIMESTAMP_TYPE_MASK) != 0
    kinds = np.where(table["magic"] == 0, _NO_TIMESTAMP_TYPE, is_append_time).astype(np.int32)
    if (kinds == kinds[0]).all():
        return _same(int(kinds[0]), pa.int32(), len(rows))
    return pa.array(rows.of_batch(kinds))


def _headers(rows: Rows) -> pa.Array:
    count = len(rows)
    valid, offsets, keys, values = kernel.gather_headers(rows.columns, rows.indices)
    names = pa.Array.from_buffers(pa.string(), _rows_of(keys), _buffers(keys))
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8; Spark does not check again
        raw = pa.Array.from_buffers(pa.binary(), len(names), _buffers(keys)).to_pylist()
        names = pa.array([key.decode("utf-8", "replace") for key in raw], pa.string())
    contents = pa.Array.from_buffers(pa.binary(), len(names), _buffers(values))
    pairs = pa.StructArray.from_arrays([names, contents], ["key", "value"])
    kind = pa.list_(pairs.type)
    return pa.Array.from_buffers(kind, count, _buffers((valid, offsets)), children=[pairs])


def _rows_of(column: BinaryColumn) -> int:
    return len(column[1]) // 4 - 1


def _buffers(parts: Sequence[bytes | None]) -> list[pa.Buffer | None]:
    return [None if part is None else pa.py_buffer(part) for part in parts]


def _transaction(rows: Rows) -> pa.Array:
    if rows.fates is None:
        return _same(None, pa.string(), len(rows))
    return _TRANSACTIONS.take(pa.array(rows.of_batch(rows.fates).astype(np.int32)))


def _codec(rows: Rows) -> pa.Array:
    codecs = rows.table["attributes"] & COMPRESSION_MASK
    return _CODECS.take(pa.array(rows.of_batch(codecs).astype(np.int32)))


def _of_batch(field: str, kind: pa.DataType) -> Callable[[Rows], pa.Array]:
    dtype = kind.to_pandas_dtype()
    return lambda rows: pa.array(rows.of_batch(rows.table[field]).astype(dtype), kind)


_BUILDERS: dict[str, Callable[[Rows], pa.Array]] = {
    "key": _key,
    "value": _value,
    **BUILDERS,
    "topic": lambda rows: _same(rows.partition.topic, pa.string(), len(rows)),
    "partition": lambda rows: _same(rows.partition.partition, pa.int32(), len(rows)),
    "offset": lambda rows: pa.array(rows.numbers("offset")),
    "timestamp": _timestamps,
    "timestampMillis": lambda rows: pa.array(rows.numbers("timestamp")),
    "timestampType": _timestamp_type,
    "headers": _headers,
    "leaderEpoch": _of_batch("leader_epoch", pa.int32()),
    "producerId": _of_batch("producer_id", pa.int64()),
    "producerEpoch": _of_batch("producer_epoch", pa.int32()),
    "sequence": lambda rows: pa.array(rows.numbers("sequence")),
    "transaction": _transaction,
    "codec": _codec,
    "segment": lambda rows: _same(rows.segment, pa.int64(), len(rows)),
    "batchPosition": _of_batch("position", pa.int64()),
    "leftover": lambda rows: _same(rows.leftover or None, pa.string(), len(rows)),
    "_corrupt": lambda rows: _same(None, pa.string(), len(rows)),
}


def _builder(field: pa.Field) -> Callable[[Rows], pa.Array]:
    """Return the function that makes a column."""
    if field.name == "timestamp" and field.type.unit == "ms":
        return _milliseconds
    return _BUILDERS[field.name]
