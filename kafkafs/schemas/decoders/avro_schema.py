"""Avro schemas: their JSON text as a tree of types, as Avro's specification 1.12 has it.

Names are resolved, a recursive type is a cycle in the tree. A logical type that breaks its rules is ignored, as the
specification asks; aliases and defaults of fields do not change how a value is read, only how it fits another schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from kafkafs.schemas.decoders.limits import MOST_DEPTH, check_schema_size
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.schema import JsonValue

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_LARGEST_FIXED = 2**31 - 1


class Logical(StrEnum):
    """Logical types, by their names in Avro."""

    DECIMAL = "decimal"
    BIG_DECIMAL = "big-decimal"
    UUID = "uuid"
    DATE = "date"
    TIME_MILLIS = "time-millis"
    TIME_MICROS = "time-micros"
    TIMESTAMP_MILLIS = "timestamp-millis"
    TIMESTAMP_MICROS = "timestamp-micros"
    TIMESTAMP_NANOS = "timestamp-nanos"
    LOCAL_TIMESTAMP_MILLIS = "local-timestamp-millis"
    LOCAL_TIMESTAMP_MICROS = "local-timestamp-micros"
    LOCAL_TIMESTAMP_NANOS = "local-timestamp-nanos"
    DURATION = "duration"


_BASES = {
    Logical.BIG_DECIMAL: "bytes",
    Logical.UUID: "string",
    Logical.DATE: "int",
    Logical.TIME_MILLIS: "int",
    Logical.TIME_MICROS: "long",
    Logical.TIMESTAMP_MILLIS: "long",
    Logical.TIMESTAMP_MICROS: "long",
    Logical.TIMESTAMP_NANOS: "long",
    Logical.LOCAL_TIMESTAMP_MILLIS: "long",
    Logical.LOCAL_TIMESTAMP_MICROS: "long",
    Logical.LOCAL_TIMESTAMP_NANOS: "long",
}
"""Primitive type of each logical type that has one; a decimal is bytes or fixed, a duration fixed."""


class AvroPrimitive(NamedTuple):
    """A primitive type.

    Attributes:
        name: "null", "boolean", "int", "long", "float", "double", "bytes" or "string".
        logical: its logical type, None without one.
        scale: digits after the point of a decimal.
        precision: digits of a decimal.
    """

    name: str
    logical: Logical | None = None
    scale: int = 0
    precision: int = 0


class AvroFixed(NamedTuple):
    """A fixed type of `size` bytes; `logical`, `scale` and `precision` as of AvroPrimitive."""

    name: str
    size: int
    logical: Logical | None = None
    scale: int = 0
    precision: int = 0


class AvroEnum(NamedTuple):
    """An enum, with its symbols by index; `default` is read in place of symbols that it lacks."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None


class AvroArray(NamedTuple):
    """An array."""

    items: AvroType


class AvroMap(NamedTuple):
    """A map from strings."""

    values: AvroType


class AvroUnion(NamedTuple):
    """A union, with its branches by index."""

    branches: tuple[AvroType, ...]


@dataclass(slots=True, eq=False)
class AvroRecord:
    """A record.

    Attributes:
        name: full name.
        fields: names with types, in order.
        defaults: default values of fields that have one, as in the schema's JSON.
        aliases: other names of fields that have some.
    """

    name: str
    fields: list[tuple[str, AvroType]] = field(default_factory=list, repr=False)
    defaults: dict[str, JsonValue] = field(default_factory=dict, repr=False)
    aliases: dict[str, list[JsonValue]] = field(default_factory=dict, repr=False)


AvroType: TypeAlias = (
    "AvroPrimitive | AvroFixed | AvroEnum | AvroArray | AvroMap | AvroUnion | AvroRecord"
)


def may_be_empty(schema: AvroType) -> bool:
    """Return whether a value of a type may take no bytes, as far as it shows at once."""
    if isinstance(schema, AvroPrimitive):
        return schema.name == "null"
    if isinstance(schema, AvroFixed):
        return not schema.size
    return isinstance(schema, AvroRecord)


def parse_avro(text: str, references: Iterable[str] = ()) -> AvroType:
    """Return the type that an Avro schema describes.

    Args:
        text: JSON text of the schema.
        references: texts of the schemas that the schema refers to, each after those that it needs itself.

    Raises:
        UndecodableError: the text is not an Avro schema, or too large or too deep.
    """
    names: dict[str, AvroType] = {}
    texts = [*references, text]
    check_schema_size(texts)
    found: AvroType | None = None
    for each in texts:
        try:
            parsed = json.loads(each)
        except (ValueError, RecursionError) as error:
            raise UndecodableError(f"the schema is not JSON: {error}") from None
        found = _Parser(names).parse(parsed, "", 0)
    assert found is not None
    return found


class _Parser:
    """Parser of a schema, with the named types that are known so far."""

    def __init__(self, names: dict[str, AvroType]) -> None:
        self._names = names

    def parse(self, schema: JsonValue, space: str, depth: int) -> AvroType:
        """Return the type of a parsed schema in a namespace."""
        if depth > MOST_DEPTH:
            raise UndecodableError(f"the schema is nested deeper than {MOST_DEPTH} levels")
        if isinstance(schema, str):
            return self._named(schema, space)
        if isinstance(schema, list):
            return AvroUnion(tuple(self.parse(branch, space, depth + 1) for branch in schema))
        if not isinstance(schema, dict):
            raise UndecodableError(f"no Avro type: {_short(schema)}")
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self.parse(kind, space, depth + 1)
        if not isinstance(kind, str):
            raise UndecodableError(f"a schema has no type: {_short(schema)}")
        if kind in _PRIMITIVES:
            return _primitive(kind, schema)
        if kind == "array":
            return AvroArray(self.parse(_required(schema, "items"), space, depth + 1))
        if kind == "map":
            return AvroMap(self.parse(_required(schema, "values"), space, depth + 1))
        if kind in ("record", "error"):
            return self._record(schema, space, depth)
        if kind == "enum":
            return self._enumeration(schema, space)
        if kind == "fixed":
            return self._fixed(schema, space)
        return self._named(kind, space)

    def _named(self, name: str, space: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroPrimitive(name)
        full = name if "." in name or not space else f"{space}.{name}"
        found = self._names.get(full) or self._names.get(name)
        if found is None:
            raise UndecodableError(f"the schema has no type {_short(full)}")
        return found

    def _record(self, schema: dict[str, JsonValue], space: str, depth: int) -> AvroRecord:
        name, inner = _full_name(schema, space)
        record = AvroRecord(name)
        self._names[name] = record
        fields = _required(schema, "fields")
        if not isinstance(fields, list):
            raise UndecodableError(f"the fields of {_short(name)} are no list")
        for each in fields:
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise UndecodableError(f"a field of {_short(name)} has no name")
            record.fields.append(
                (each["name"], self.parse(_required(each, "type"), inner, depth + 1))
            )
            if "default" in each:
                record.defaults[each["name"]] = each["default"]
            if isinstance(each.get("aliases"), list):
                record.aliases[each["name"]] = each["aliases"]
        return record

    def _enumeration(self, schema: dict[str, JsonValue], space: str) -> AvroEnum:
        name, _ = _full_name(schema, space)
        symbols = _required(schema, "symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise UndecodableError(f"the symbols of {_short(name)} are no list of strings")
        default = schema.get("default")
        found = AvroEnum(name, tuple(symbols), default if default in symbols else None)
        self._names[name] = found
        return found

    def _fixed(self, schema: dict[str, JsonValue], space: str) -> AvroFixed:
        name, _ = _full_name(schema, space)
        size = _required(schema, "size")
        if not _is_count(size) or size > _LARGEST_FIXED:
            raise UndecodableError(f"the size of {_short(name)} is {_short(size)}")
        logical = schema.get("logicalType")
        found = AvroFixed(name, size)
        if logical == "decimal" and _is_decimal(schema, _digits_in(size)):
            found = AvroFixed(
                name, size, Logical.DECIMAL, schema.get("scale", 0), schema["precision"]
            )
        elif (logical, size) == ("duration", 12):
            found = AvroFixed(name, size, Logical.DURATION)
        elif (logical, size) == ("uuid", 16):
            found = AvroFixed(name, size, Logical.UUID)
        self._names[name] = found
        return found


def _primitive(name: str, schema: dict[str, JsonValue]) -> AvroPrimitive:
    logical = schema.get("logicalType")
    if logical == "decimal":
        if name == "bytes" and _is_decimal(schema, None):
            return AvroPrimitive(name, Logical.DECIMAL, schema.get("scale", 0), schema["precision"])
    elif isinstance(logical, str) and logical in _BASES and _BASES[Logical(logical)] == name:
        return AvroPrimitive(name, Logical(logical))
    return AvroPrimitive(name)


def _is_decimal(schema: dict[str, JsonValue], most: int | None) -> bool:
    """Return whether precision and scale follow the rules; `most` is the largest precision."""
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if not _is_count(precision) or not _is_count(scale) or precision == 0:
        return False
    return bool(scale <= precision and (most is None or precision <= most))


def _digits_in(size: int) -> int | None:
    """Return how many decimal digits a signed number of some bytes always holds; None if that is very many."""
    return len(str(2 ** (8 * size - 1) - 1)) - 1 if 0 < size <= 64 else 0 if size == 0 else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _full_name(schema: dict[str, JsonValue], space: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace of the names in it."""
    name = _required(schema, "name")
    if not isinstance(name, str) or not name:
        raise UndecodableError(f"a schema has the name {_short(name)}")
    if "." not in name:
        own = schema.get("namespace", space)
        space = own if isinstance(own, str) else ""
        return (f"{space}.{name}" if space else name), space
    return name, name.rpartition(".")[0]


def _required(schema: dict[str, JsonValue], key: str) -> JsonValue:
    if key not in schema:
        raise UndecodableError(f"a schema has no {key}: {_short(schema)}")
    return schema[key]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
