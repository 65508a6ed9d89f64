"""Arrow types of Avro schemas, and the values of another schema in them by Avro's rules of resolution.

| Avro | Arrow |
|---|---|
| record, array, map | struct, list, map |
| union of null and one type | that type, nullable |
| other unions, a record inside of itself, types nested deeper than MOST_NESTED | string: the JSON of the value |
| enum, uuid, big-decimal, decimal of more than 76 digits | string |
| decimal | decimal128, or decimal256 above 38 digits |
| date, time, timestamp, local timestamp | date32, time32 or time64, timestamp in UTC, timestamp without zone |
| duration | struct of months, days, milliseconds |
| fixed of 1 to 1,024 bytes | fixed-size binary |
| bytes, other fixed | binary |

Values come in the JSON form of `kafkafs.schemas.decoders`.
"""

from __future__ import annotations

from base64 import b64decode
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from kafkafs.forms.arrow.typed.avro_resolved import json_default, resolved_json
from kafkafs.forms.arrow.typed.avro_rules import (
    NULL,
    TICKS,
    Fit,
    check_scalar,
    enum_symbols,
    record_sources,
    type_name,
    wide,
    without_null,
)
from kafkafs.schemas.decoders.avro_logical import decimal_text
from kafkafs.schemas.decoders.avro_schema import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    Logical,
)
from kafkafs.schemas.decoders.value_decoder import json_bytes
from kafkafs.schemas.errors import UndecodableError

MOST_NESTED = 32
"""Levels of types in a column; unions and what lies in them count one each."""
_MOST_TYPES = 10_000
_MOST_DIGITS, _MOST_DIGITS_128 = 76, 38
_MOST_WIDTH = 1024
_MOST_DEFAULTS = 1000

Path: TypeAlias = tuple[AvroType, ...]
"""The types that a type lies in."""

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    Logical.BIG_DECIMAL: pa.string(),
    Logical.UUID: pa.string(),
    Logical.DATE: pa.date32(),
    Logical.TIME_MILLIS: pa.time32("ms"),
    Logical.TIME_MICROS: pa.time64("us"),
    Logical.TIMESTAMP_MILLIS: pa.timestamp("ms", "UTC"),
    Logical.TIMESTAMP_MICROS: pa.timestamp("us", "UTC"),
    Logical.TIMESTAMP_NANOS: pa.timestamp("ns", "UTC"),
    Logical.LOCAL_TIMESTAMP_MILLIS: pa.timestamp("ms"),
    Logical.LOCAL_TIMESTAMP_MICROS: pa.timestamp("us"),
    Logical.LOCAL_TIMESTAMP_NANOS: pa.timestamp("ns"),
    Logical.DURATION: pa.struct(
        [("months", pa.uint32()), ("days", pa.uint32()), ("milliseconds", pa.uint32())]
    ),
}


def arrow_type(schema: AvroType) -> pa.DataType:
    """Return the Arrow type of a schema's values.

    Raises:
        ValueError: the schema has more types than a column may have.
    """
    return _arrow_type(schema, (), [_MOST_TYPES])


def fit_of(writer: AvroType, reader: AvroType) -> Fit:
    """Return the function from the JSON form of a writer's values to what PyArrow takes for a reader's type.

    Raises:
        UndecodableError: no value of the writer's schema has the reader's type.
    """
    return _fit(writer, reader, ()) or _same


def _same(value: Any) -> Any:  # noqa: ANN401
    return value


# Types


def _arrow_type(schema: AvroType, path: Path, left: list[int]) -> pa.DataType:
    left[0] -= 1
    if left[0] < 0:
        raise ValueError(f"the schema has more than {_MOST_TYPES} columns")
    plain, _ = without_null(schema)
    if is_text(plain, path):
        return pa.string()
    inside = (*path, plain)
    if isinstance(plain, AvroRecord):
        return pa.struct([(name, _arrow_type(kind, inside, left)) for name, kind in plain.fields])
    if isinstance(plain, AvroArray):
        return pa.list_(_arrow_type(plain.items, inside, left))
    if isinstance(plain, AvroMap):
        return pa.map_(pa.string(), _arrow_type(plain.values, inside, left))
    if isinstance(plain, AvroPrimitive | AvroFixed):
        if plain.logical is Logical.DECIMAL:
            return _decimal_type(plain)
        if plain.logical is not None:
            return _LOGICAL[plain.logical]
        return _PRIMITIVES[plain.name] if isinstance(plain, AvroPrimitive) else _fixed(plain.size)
    return pa.string()


def _fixed(size: int) -> pa.DataType:
    """Return the type of a fixed; DuckDB and Parquet refuse a width of 0, and a null takes the whole width."""
    return pa.binary(size) if 0 < size <= _MOST_WIDTH else pa.binary()


def _decimal_type(schema: AvroPrimitive | AvroFixed) -> pa.DataType:
    digits, scale = schema.precision, schema.scale
    if digits > _MOST_DIGITS:
        return pa.string()
    return (
        pa.decimal128(digits, scale) if digits <= _MOST_DIGITS_128 else pa.decimal256(digits, scale)
    )


def is_text(plain: AvroType, path: Path) -> bool:
    """Return whether a column shows a type as JSON text."""
    if isinstance(plain, AvroUnion) or len(path) >= MOST_NESTED:
        return True
    return isinstance(plain, AvroRecord) and any(plain is each for each in path)


# Values


def _fit(writer: AvroType, reader: AvroType, path: Path) -> Fit | None:
    """Return the function for values of a writer's type; None if they stay as they are."""
    plain, is_nullable = without_null(reader)
    source, may_be_null = without_null(writer)
    fit = plain_fit(source, plain, path)
    if not may_be_null or plain == NULL or (fit is None and is_nullable):
        return fit

    def read(value: Any) -> Any:  # noqa: ANN401
        if value is not None:
            return value if fit is None else fit(value)
        if not is_nullable:
            raise UndecodableError(f"null is not of type {type_name(plain)}")
        return None

    return read


def plain_fit(writer: AvroType, reader: AvroType, path: Path) -> Fit | None:
    """Return the function for values of types without null; None if they stay as they are. Raises as `fit_of`."""
    if is_text(reader, path):
        resolve = resolved_json(writer, reader)
        return _json_text if resolve is None else lambda value: _json_text(resolve(value))
    if writer == NULL:
        return None
    inside = (*path, reader)
    if isinstance(reader, AvroRecord) and isinstance(writer, AvroRecord):
        return _record(writer, reader, inside)
    if isinstance(reader, AvroArray) and isinstance(writer, AvroArray):
        item = _fit(writer.items, reader.items, inside)
        return None if item is None else lambda value: [item(each) for each in value]
    if isinstance(reader, AvroMap) and isinstance(writer, AvroMap):
        fit = _fit(writer.values, reader.values, inside) or _same
        return lambda value: [(name, fit(each)) for name, each in value.items()]
    if isinstance(reader, AvroEnum) and isinstance(writer, AvroEnum):
        symbols = enum_symbols(writer, reader)
        is_same = all(name == shown for name, shown in symbols.items())
        return None if is_same else symbols.__getitem__
    check_scalar(writer, reader)
    assert isinstance(writer, AvroPrimitive | AvroFixed)
    assert isinstance(reader, AvroPrimitive | AvroFixed)
    return _scalar(writer, reader)


def _record(writer: AvroRecord, reader: AvroRecord, inside: Path) -> Fit:
    kinds = dict(writer.fields)
    fits: list[tuple[str, str, Fit | None]] = []
    fixed: dict[str, Any] = {}
    for (name, kind), source in zip(reader.fields, record_sources(writer, reader), strict=True):
        if source is None:
            fixed[name] = default_of(kind, reader.defaults[name], inside)
            continue
        try:
            fits.append((name, source, _fit(kinds[source], kind, inside)))
        except UndecodableError as error:
            raise UndecodableError(f"field {name}: {error.reason}") from None

    def read(value: Any) -> Any:  # noqa: ANN401
        found = fixed.copy()
        for name, source, fit in fits:
            each = value[source]
            found[name] = each if fit is None else fit(each)
        return found

    return read


def _scalar(writer: AvroPrimitive | AvroFixed, reader: AvroPrimitive | AvroFixed) -> Fit | None:
    logical = reader.logical
    if logical is Logical.DECIMAL:
        return _decimal if reader.precision <= _MOST_DIGITS else None
    if logical is not None:
        return TICKS.get(logical)
    if reader.name == "double" and writer.name == "float":
        return wide
    if reader.name in ("float", "double"):
        return float
    if isinstance(writer, AvroFixed) or writer.name == "bytes":
        return _text_of_base64 if reader.name == "string" else b64decode
    return str.encode if (writer.name, reader.name) == ("string", "bytes") else None


def _json_text(value: Any) -> str | None:  # noqa: ANN401
    return None if value is None else json_bytes(value).decode()


def _text_of_base64(text: str) -> str:
    return b64decode(text).decode()


def _decimal(text: str) -> Decimal:
    return Decimal(text)


# Defaults


def default_of(
    schema: AvroType,
    value: Any,  # noqa: ANN401
    path: Path,
    left: list[int] | None = None,
) -> Any:  # noqa: ANN401
    """Return what PyArrow takes for a default, which has the form of a schema's JSON: bytes are Latin-1.

    Args:
        schema: its type.
        value: the default.
        path: the types that the type lies in.
        left: number of values that it may still have; records in lists have defaults of their own.

    Raises:
        UndecodableError: it has too many values, or it is of a type whose defaults are not read.
    """
    left = [_MOST_DEFAULTS] if left is None else left
    left[0] -= 1
    if left[0] < 0:
        raise UndecodableError(f"a default has more than {_MOST_DEFAULTS} values")
    plain, is_nullable = without_null(schema)
    if value is None and (is_nullable or plain == NULL):
        return None
    if is_text(plain, path):
        return _json_text(json_default(plain, value))
    inside = (*path, plain)
    if isinstance(plain, AvroRecord):
        given = plain.defaults | value
        return {name: default_of(kind, given[name], inside, left) for name, kind in plain.fields}
    if isinstance(plain, AvroArray):
        return [default_of(plain.items, each, inside, left) for each in value]
    if isinstance(plain, AvroMap):
        return [
            (name, default_of(plain.values, each, inside, left)) for name, each in value.items()
        ]
    if isinstance(plain, AvroPrimitive | AvroFixed):
        if plain.logical is Logical.DECIMAL:
            text = decimal_text(plain.scale, value.encode("latin-1"))
            return Decimal(text) if plain.precision <= _MOST_DIGITS else text
        if plain.logical in (Logical.BIG_DECIMAL, Logical.DURATION):
            raise UndecodableError(f"a default of type {plain.logical} is not read")
        if isinstance(plain, AvroFixed) or plain.name == "bytes":
            return value.encode("latin-1")
    return value
