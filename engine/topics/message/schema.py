"""The declarative form of Kafka's messages: each is written once, for all its versions.

A message is a row of fields. A field is there from one version on, perhaps up to another, and may be
nullable. From a message's first flexible version on, lengths are varints and every structure ends with
tagged fields: those with a `tag` stand there, and only when they differ from their default. The facts are
those of the JSON schemas that Kafka generates its classes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias


class Scalar(Enum):
    """A type without parts. UINT16 and UINT32 are unsigned; UUID is 16 bytes; the numbers are big-endian."""

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
    """Many of one type; an element is never null."""

    element: Type


@dataclass(frozen=True, eq=False, slots=True)
class Struct:
    """Fields in a row, of the versions of the message around them."""

    name: str
    fields: tuple[Field, ...]


Type: TypeAlias = "Scalar | Array | Struct"


@dataclass(frozen=True, eq=False, slots=True)
class Field:
    """A field of a message.

    Attributes:
        name: as in Kafka's JSON.
        type: what it holds.
        since, until: the versions of the message that have it, both included; no `until` is: all later.
        nullable: it may be null.
        tag: its number among the tagged fields of its structure; None: it stands in the row.
        default: what it is where it is absent; zero or empty when not given.
    """

    name: str
    type: Type
    since: int = 0
    until: int | None = None
    nullable: bool = False
    tag: int | None = None
    default: Any = _NO_DEFAULT

    def is_in(self, version: int) -> bool:
        """Return whether messages of a version have it."""
        return self.since <= version and (self.until is None or version <= self.until)

    def absent(self) -> Any:  # noqa: ANN401
        """Return the value that it has where it is absent, made anew: lists and dicts may be changed."""
        return empty(self.type) if self.default is _NO_DEFAULT else self.default


@dataclass(frozen=True, eq=False, slots=True)
class Message:
    """A message of all its versions.

    Attributes:
        name: as Kafka calls it.
        fields: in the order of the bytes.
        last_version, first_version: the versions that are known.
        flexible_since: the first version with varint lengths and tagged fields; None: there is none.
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
        """Return whether a version is one of those that are described here."""
        return self.first_version <= version <= self.last_version


_EMPTY: dict[Scalar, Any] = {
    Scalar.BOOL: False,
    Scalar.FLOAT64: 0.0,
    Scalar.UUID: _ZERO_UUID,
    Scalar.STRING: "",
    Scalar.BYTES: b"",
}


def empty(kind: Type) -> Any:  # noqa: ANN401
    """Return the value of a type that says nothing: zero, empty, or a structure whose fields have their defaults."""
    if isinstance(kind, Struct):
        return {field.name: field.absent() for field in kind.fields}
    if isinstance(kind, Array):
        return []
    return _EMPTY.get(kind, 0)
