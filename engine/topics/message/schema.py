"""The declarative form of Kafka's messages: each is written once, for all its versions.

A message is a row of fields. A field is there from one version on, perhaps up to another, and may
be nullable. From a message's first flexible version on, lengths are varints and every structure
ends with tagged fields: fields with a `tag`, written only when they differ from their default. The
facts come from the JSON schemas that Kafka generates its classes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias


class Scalar(Enum):
    """A primitive type. UINT16 and UINT32 are unsigned; UUID is 16 bytes; numbers are big-endian."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"


BOOL = Scalar.BOOL
INT8 = Scalar.INT8
INT16 = Scalar.INT16
UINT16 = Scalar.UINT16
INT32 = Scalar.INT32
UINT32 = Scalar.UINT32
INT64 = Scalar.INT64
FLOAT64 = Scalar.FLOAT64
UUID = Scalar.UUID
STRING = Scalar.STRING
BYTES = Scalar.BYTES

_ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
_NO_DEFAULT: Any = object()


@dataclass(frozen=True, eq=False, slots=True)
class Array:
    """Elements of one type, never null."""

    element: Type


@dataclass(frozen=True, eq=False, slots=True)
class Struct:
    """Consecutive fields, with the versions of the message around them."""

    name: str
    fields: tuple[Field, ...]


Type: TypeAlias = "Scalar | Array | Struct"


@dataclass(frozen=True, eq=False, slots=True)
class Field:
    """A field of a message.

    Attributes:
        name: as in Kafka's JSON.
        type: type of its values.
        since, until: the versions of the message that have it, both included; without `until` all later ones.
        nullable: whether it may be null.
        tag: number among the tagged fields of its structure; None for an ordinary field.
        default: value when absent; zero or empty if not given.
    """

    name: str
    type: Type
    since: int = 0
    until: int | None = None
    nullable: bool = False
    tag: int | None = None
    default: Any = _NO_DEFAULT

    def is_in(self, version: int) -> bool:
        """Return whether a version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def absent(self) -> Any:  # noqa: ANN401
        """Return the value of an absent field, a new object each time, since lists and dicts may be changed."""
        return empty(self.type) if self.default is _NO_DEFAULT else self.default


@dataclass(frozen=True, eq=False, slots=True)
class Message:
    """Schema of a message in all its versions.

    Attributes:
        name: Kafka's name.
        fields: in the order of the bytes.
        last_version, first_version: first and last known version.
        flexible_since: the first version with varint lengths and tagged fields; None without one.
    """

    name: str
    fields: tuple[Field, ...]
    last_version: int = 0
    first_version: int = 0
    flexible_since: int | None = None

    def is_flexible(self, version: int) -> bool:
        """Return whether a version has varint lengths and tagged fields."""
        return self.flexible_since is not None and version >= self.flexible_since

    def knows(self, version: int) -> bool:
        """Return whether the schema has a version."""
        return self.first_version <= version <= self.last_version


_EMPTY: dict[Scalar, Any] = {
    Scalar.BOOL: False,
    Scalar.FLOAT64: 0.0,
    Scalar.UUID: _ZERO_UUID,
    Scalar.STRING: "",
    Scalar.BYTES: b"",
}


def empty(kind: Type) -> Any:  # noqa: ANN401
    """Return the default of a type: zero, empty, or a structure of fields with their defaults."""
    if isinstance(kind, Struct):
        return {field.name: field.absent() for field in kind.fields}
    if isinstance(kind, Array):
        return []
    return _EMPTY.get(kind, 0)
