"""The declarative form of Kafka's messages: each is written once, for all its versions, as text that `notation` reads.

A message is a row of fields. A field is there from one version on, perhaps up to another, and may
be nullable. From a message's first flexible version on, lengths are varints and every structure
ends with tagged fields: fields with a `tag`, written only when they differ from their default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
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


_ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
NO_DEFAULT: Any = object()
"""Default of a field whose default is zero or empty."""


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
    default: Any = NO_DEFAULT

    def is_in(self, version: int) -> bool:
        """Return whether a version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def absent(self) -> Any:  # noqa: ANN401
        """Return the value of an absent field, a new object each time, since lists and dicts may be changed."""
        return empty(self.type) if self.default is NO_DEFAULT else self.default


@dataclass(frozen=True, eq=False)
class Message:
    """Schema of a message in all its versions.

    Attributes:
        name: Kafka's name.
        declared: returns the fields, in the order of the bytes; called at their first use.
        last_version, first_version: first and last known version.
        flexible_since: the first version with varint lengths and tagged fields; None without one.
        type_id: number of the type of record whose key or value it is; None for a message that is not.
        is_retired: whether Kafka 4.4.0 no longer has it.
    """

    name: str
    declared: Callable[[], tuple[Field, ...]]
    last_version: int = 0
    first_version: int = 0
    flexible_since: int | None = None
    type_id: int | None = None
    is_retired: bool = False

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in the order of the bytes."""
        return self.declared()

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
