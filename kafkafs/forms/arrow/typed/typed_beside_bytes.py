"""Typed columns of a topic as `decodedKey` and `decodedValue`, beside exact keys and values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from engine.units import Timestamp
from kafkafs.forms.arrow.typed.retyped import TypeOf, retyped_with_notes
from kafkafs.forms.arrow.typed.typed_columns import typed_columns
from kafkafs.forms.arrow.typed_values import TypedValues
from kafkafs.records.rows import Rows
from kafkafs.schemas.store import SchemaStore

_DECODED = {"key": "decodedKey", "value": "decodedValue"}
_SIDES = {name: side for side, name in _DECODED.items()} | {
    f"{side}Note": f"{side}Note" for side in _DECODED
}
"""Columns of a table, and what typed columns call them."""

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

    def made(self, names: Collection[str]) -> list[str]:
        """Return those columns of a table that `batches` makes: decoded ones, and the notes on them."""
        own = self._typed.made(_SIDES.values())
        return [name for name, side in _SIDES.items() if side in own and name in names]

    def batches(
        self, rows: Rows, names: Collection[str]
    ) -> Iterator[tuple[Rows, dict[str, pa.Array]]]:
        """Yield rows with the columns that are made of them, as `TypedValues.batches`."""
        sides = {_SIDES[name]: name for name in self.made(names)}
        for shown, made in self._typed.batches(rows, sides):
            found = {sides[side]: made[side] for side in sides}
            for side, name in _DECODED.items():
                if name not in found:
                    continue
                found[name], notes = retyped_with_notes(found[name], self._types[name])
                if notes and f"{side}Note" in found:
                    found[f"{side}Note"] = _joined(found[f"{side}Note"], notes)
            yield shown, found


def _joined(column: pa.Array, notes: Mapping[int, str]) -> pa.Array:
    """Return a column of notes with more of them, by place."""
    texts = column.to_pylist()
    for place, note in notes.items():
        texts[place] = "; ".join(filter(None, (texts[place], note)))
    return pa.array(texts, pa.string())


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
