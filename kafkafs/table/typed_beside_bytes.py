"""Typed columns of a topic as `decodedKey` and `decodedValue`, beside exact keys and values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from engine.units import Timestamp
from kafkafs.schemas.store import SchemaStore
from kafkafs.table.retyped import TypeOf, retyped
from kafkafs.table.rows import Rows, TypedValues
from kafkafs.table.typed_columns import typed_columns

_DECODED = {"key": "decodedKey", "value": "decodedValue"}
_SIDES = {name: side for side, decoded in _DECODED.items() for name in (decoded, f"{side}Note")}

Types: TypeAlias = Mapping[str, pa.DataType]
"""Arrow types by name of the column."""


def _same(kind: pa.DataType) -> pa.DataType:
    return kind


class TypedBesideBytes(TypedValues):
    """The columns `decodedKey` and `decodedValue` of a topic's newest schemas. Thread-safe, picklable.

    Args:
        topic: name of the topic.
        store: the schemas.
        type_of: returns the type in which a column is shown, see `retyped`; by default its own.

    Raises:
        ValueError: no schema of keys or values gives a type.
    """

    def __init__(self, topic: str, store: SchemaStore, type_of: TypeOf = _same) -> None:
        self._given = topic, store, type_of
        self._typed = typed_columns(topic, store)
        self._types = {_DECODED[side]: type_of(kind) for side, kind in self._typed.types.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return TypedBesideBytes, self._given

    @property
    def types(self) -> Types:
        """The Arrow types by name of the column."""
        return self._types

    def are_in(self, names: Collection[str]) -> bool:
        """Return whether a table with some columns shows values of these columns, or notes on them."""
        return self._typed.are_in(_sides(names))

    def of(self, rows: Rows, names: Collection[str]) -> tuple[Rows, dict[str, pa.Array]]:
        """Return decoded rows with notes on what does not fit, and the columns of a table."""
        shown, made = self._typed.of(rows, _sides(names))
        columns = {_DECODED[side]: array for side, array in made.items()}
        return shown, {name: retyped(array, self._types[name]) for name, array in columns.items()}


def typed_as(
    topic: str, store: SchemaStore, type_of: TypeOf, is_wanted: Callable[[Types], bool]
) -> TypedBesideBytes:
    """Return the columns of the newest schemas that have wanted types.

    Args:
        topic, store, type_of: see `TypedBesideBytes`.
        is_wanted: returns whether some types are.

    Raises:
        ValueError: no schemas of the topic, of now or of an earlier time, have such types.
    """
    found = TypedBesideBytes(topic, store, type_of)
    if is_wanted(found.types):
        return found
    for at in _changes(topic, store):
        try:
            found = TypedBesideBytes(topic, store.as_of(at), type_of)
        except ValueError:
            continue
        if is_wanted(found.types):
            return found
    raise ValueError(f"no schemas of {topic!r} have these types")


def _changes(topic: str, store: SchemaStore) -> list[Timestamp]:
    """Return the times at which a topic's schemas changed, the newest first."""
    subjects = {*store.subjects_of(topic, is_key=True), *store.subjects_of(topic)}
    schemas = [schema for schema in store.schemas if schema.subject in subjects]
    times = {
        at
        for schema in schemas
        for at in (schema.origin.timestamp, schema.deleted_since, schema.until)
        if at is not None
    }
    return sorted({each for at in times for each in (at, at - 1)}, reverse=True)


def _sides(names: Collection[str]) -> set[str]:
    """Return the sides that some columns need: a note needs the values, too."""
    return {_SIDES[name] for name in names if name in _SIDES}
