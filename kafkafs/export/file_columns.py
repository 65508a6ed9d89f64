"""Columns of an export's files, those of the Spark job, made of Arrow record batches.

Parquet and Arrow files have the columns of records unchanged, timestamps in microseconds. In Avro, ORC and CSV `timestamp`
is milliseconds since 1970, -1 for none, and `time` is the same for people. CSV has no bytes: a key or value is text if
it is UTF-8 without control characters, else base64, and a column beside it names the encoding. A null has no encoding.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.units import LAST_TIME, NO_TIMESTAMP
from kafkafs.export.errors import OptionError
from kafkafs.forms.arrow.arrow_columns import CORRUPT, DECODED, RECORD_FIELDS
from kafkafs.forms.arrow.typed.retyped import with_leaves

USUAL = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
"""Columns of an export, in order; `topic` and `date` are folders."""
USUAL_DECODED = (*USUAL, "decodedKey", "decodedValue", "keyNote", "valueNote")
"""Columns of an export with typed columns of decoded keys and values."""
COLUMNS = tuple(name for name in RECORD_FIELDS if name not in ("topic", CORRUPT))
TEXT, BASE64 = "text", "base64"
_EXACT = {**RECORD_FIELDS, "timestamp": pa.timestamp("us", "UTC")}
_CONTROL = "[\\x00-\\x1f\\x7f]"
"""Programs disagree about line ends inside CSV fields."""


def check_columns(names: Sequence[str]) -> None:
    """Check that an export can have some columns.

    Raises:
        OptionError: there is no such column, or one is named twice.
    """
    for name in names:
        if name == "topic":
            raise OptionError(
                "topic is the folder of the files: readers of the folders add the column"
            )
        if name not in COLUMNS:
            raise OptionError(f"there is no column {name!r}; there are {', '.join(COLUMNS)}")
    if len(set(names)) < len(names):
        raise OptionError(f"a column is named twice: {', '.join(names)}")


def file_schema(form: str, names: Sequence[str], typed: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the schema of the batches of a format: of those of Parquet and Arrow files, or of those that
    `millisecond_columns` and `csv_columns` take.

    Args:
        form: name of the format.
        names: names of columns.
        typed: types of decoded keys and values.
    """
    types = {**(_EXACT if form in ("parquet", "arrow") else RECORD_FIELDS), **typed}
    return pa.schema([(name, types[name]) for name in names])


def file_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which all formats have a column; a struct without fields is text."""
    return with_leaves(kind, _leaf)


def _leaf(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.string()
    return pa.decimal128(20, 0) if kind == pa.uint64() else kind


def millisecond_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with `timestamp` as a number, and `time`, null outside of the years 1970 to 9999."""
    columns: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name == "timestamp":
            number = column.view(pa.int64()).fill_null(NO_TIMESTAMP)
            is_time = pc.and_(
                pc.greater_equal(number, 0), pc.less_equal(number, pa.scalar(LAST_TIME, pa.int64()))
            )
            columns["timestamp"] = number
            columns["time"] = pc.if_else(is_time, column, pa.scalar(None, column.type))
        else:
            columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


def csv_columns(batch: pa.RecordBatch, values: str) -> pa.RecordBatch:
    """Return a batch with the columns of CSV.

    Args:
        batch: records, see `read_schema`.
        values: form of bytes: "text", with base64 where text is not possible, or "base64".
    """
    columns: dict[str, pa.Array] = {}
    plain = millisecond_columns(batch)
    for name, column in zip(plain.schema.names, plain.columns, strict=True):
        if name == "time":
            columns[name] = pc.strftime(
                column.cast(pa.timestamp("ms")), format="%Y-%m-%dT%H:%M:%SZ"
            )
        elif name in ("key", "value"):
            columns[name], columns[f"{name}Encoding"] = _texts(column, values)
        elif name == "headers":
            columns[name] = _header_texts(column, values)
        else:
            columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


def _texts(column: pa.Array, values: str) -> tuple[pa.Array, pa.Array]:
    """Return bytes as text or base64, and the encoding of each."""
    count = len(column)
    if values == TEXT:
        try:
            text = column.cast(pa.string())
        except pa.ArrowInvalid:
            pass
        else:
            if not pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
                encoding = pa.repeat(pa.scalar(TEXT), count)
                return text, pc.if_else(column.is_valid(), encoding, pa.scalar(None, pa.string()))
    shown = [_shown(data, values, no_controls=True) for data in column.to_pylist()]
    return (
        pa.array([text for text, _ in shown], pa.string()),
        pa.array([encoding for _, encoding in shown], pa.string()),
    )


def _shown(
    data: bytes | None, values: str, *, no_controls: bool = False
) -> tuple[str | None, str | None]:
    if data is None:
        return None, None
    if values == TEXT:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            if not no_controls or not any(each < " " or each == "\x7f" for each in text):
                return text, TEXT
    return base64.b64encode(data).decode(), BASE64


def _header_texts(column: pa.Array, values: str) -> pa.Array:
    """Return headers as JSON, as Spark's to_json writes it: without nulls."""
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    return pa.array(
        [None if some is None else _header_text(some, values) for some in column.to_pylist()],
        pa.string(),
    )


def _header_text(headers: list[dict[str, object]], values: str) -> str:
    found = []
    for header in headers:
        data = header["value"]
        text, encoding = _shown(data if isinstance(data, bytes) else None, values)
        facts = {"key": header["key"], "value": text, "valueEncoding": encoding}
        found.append({name: value for name, value in facts.items() if value is not None})
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def decodes(names: Sequence[str]) -> bool:
    """Return whether keys and values have to be decoded for some columns."""
    return bool(set(names) & set(DECODED))
