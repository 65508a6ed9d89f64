"""Avro's rules of resolution: which values of a writer's schema have a reader's type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from kafkafs.schemas.decoders.avro_schema import (
    AvroEnum,
    AvroFixed,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    Logical,
)
from kafkafs.schemas.errors import UndecodableError

Fit: TypeAlias = Callable[[Any], Any]
"""Function from the JSON form of a value to what PyArrow takes, or to another JSON form; raises UndecodableError,
ValueError or TypeError.
"""

TickUnit: TypeAlias = Literal["D", "ms", "us", "ns"]

DAY_TICKS: dict[TickUnit, int] = {"ms": 86_400_000, "us": 86_400_000_000}
"""Ticks of a day, of the units that times of day have."""
NULL = AvroPrimitive("null")

_WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Types that values of a type may be read as."""


# Rules


def without_null(schema: AvroType) -> tuple[AvroType, bool]:
    """Return a type as it is without null, and whether it may be null; a union of more types stays."""
    if not isinstance(schema, AvroUnion):
        return schema, schema == NULL
    branches = tuple(branch for branch in schema.branches if branch != NULL)
    plain = branches[0] if len(branches) == 1 else AvroUnion(branches) if branches else NULL
    return plain, len(branches) < len(schema.branches)


def record_sources(writer: AvroRecord, reader: AvroRecord) -> list[str | None]:
    """Return for each field of a reader the writer's field that it is read from, by name or alias; None for its default.

    Raises:
        UndecodableError: a field is not there and has no default.
    """
    known = {name for name, _ in writer.fields}
    sources: list[str | None] = []
    for name, _ in reader.fields:
        names = (name, *reader.aliases.get(name, ()))
        source = next((each for each in names if each in known), None)
        if source is None and name not in reader.defaults:
            raise UndecodableError(f"the writer's schema has no field {name}, which has no default")
        sources.append(source)
    return sources


def enum_symbols(writer: AvroEnum, reader: AvroEnum) -> dict[str, str]:
    """Return the reader's symbol of each of a writer's: its default for one that it lacks, the same one without a default."""
    known = set(reader.symbols)
    default = reader.default
    return {each: each if each in known or default is None else default for each in writer.symbols}


def check_scalar(writer: AvroType, reader: AvroType) -> None:
    """Check that values of a type without types inside have another one. Raises UndecodableError."""
    if isinstance(reader, AvroFixed) and isinstance(writer, AvroFixed):
        is_read = reader.size == writer.size
    else:
        is_read = (
            isinstance(reader, AvroPrimitive)
            and isinstance(writer, AvroPrimitive)
            and (reader.name == writer.name or reader.name in _WIDER.get(writer.name, ()))
        )
    if not is_read:
        raise not_read(writer, reader)
    assert isinstance(reader, AvroPrimitive | AvroFixed)
    assert isinstance(writer, AvroPrimitive | AvroFixed)
    logical = reader.logical
    if writer.logical is not logical and not _is_number_form(writer, logical):
        raise not_read(writer, reader)
    if logical is Logical.DECIMAL and writer.scale != reader.scale:
        raise UndecodableError(
            f"a decimal of scale {writer.scale} is not read with scale {reader.scale}"
        )


def not_read(writer: AvroType, reader: AvroType) -> UndecodableError:
    """Return the error of values whose type is not read as another."""
    return UndecodableError(f"type {type_name(writer)} is not read as {type_name(reader)}")


def _is_number_form(writer: AvroPrimitive | AvroFixed, logical: Logical | None) -> bool:
    """Return whether numbers or texts without a logical type are those of one, or the other way round."""
    if Logical.UUID in (logical, writer.logical):
        return (
            isinstance(writer, AvroPrimitive)
            and writer.name == "string"
            and (None in (logical, writer.logical))
        )
    return writer.logical is None and logical in TICKS


def _ticks(unit: TickUnit, value: str | int) -> int:
    """Return the number of a date or time; one that RFC 3339 cannot write is a number already."""
    if isinstance(value, int):
        return value
    return int(np.datetime64(value.removesuffix("Z"), unit).astype(np.int64))


def _time_ticks(unit: TickUnit, value: str | int) -> int:
    if isinstance(value, str):
        return _ticks(unit, f"1970-01-01T{value}")
    if not 0 <= value < DAY_TICKS[unit]:
        raise UndecodableError(f"{value} is no time of day")
    return value


TICKS: dict[Logical, Fit] = {
    Logical.DATE: partial(_ticks, "D"),
    Logical.TIME_MILLIS: partial(_time_ticks, "ms"),
    Logical.TIME_MICROS: partial(_time_ticks, "us"),
    Logical.TIMESTAMP_MILLIS: partial(_ticks, "ms"),
    Logical.TIMESTAMP_MICROS: partial(_ticks, "us"),
    Logical.TIMESTAMP_NANOS: partial(_ticks, "ns"),
    Logical.LOCAL_TIMESTAMP_MILLIS: partial(_ticks, "ms"),
    Logical.LOCAL_TIMESTAMP_MICROS: partial(_ticks, "us"),
    Logical.LOCAL_TIMESTAMP_NANOS: partial(_ticks, "ns"),
}


def wide(value: str | float) -> float:
    """Return a number of 32 bits; its JSON has fewer digits than the double of the same number."""
    return float(np.float32(value))


def type_name(schema: AvroType) -> str:
    """Return a type's name for messages."""
    if isinstance(schema, AvroPrimitive | AvroFixed):
        return schema.name if schema.logical is None else f"{schema.name} ({schema.logical})"
    if isinstance(schema, AvroRecord | AvroEnum):
        return schema.name
    return type(schema).__name__.removeprefix("Avro").lower()
