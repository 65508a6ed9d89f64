"""Typed columns of a topic as `decodedKey` and `decodedValue`, beside exact keys and values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa

from kafkafs.schemas.store import SchemaStore
from kafkafs.table.rows import Rows, TypedValues
from kafkafs.table.typed_columns import typed_columns

_DECODED = {"key": "decodedKey", "value": "decodedValue"}
_SIDES = {name: side for side, decoded in _DECODED.items() for name in (decoded, f"{side}Note")}

TypeOf = Callable[[pa.DataType], pa.DataType]


def _same(kind: pa.DataType) -> pa.DataType:
    return kind


class TypedBesideBytes(TypedValues):
    """The columns `decodedKey` and `decodedValue` of a topic's newest schemas. Thread-safe, picklable.

    Args:
        topic: name of the topic.
        store: the schemas.
        type_of: returns the type to which a column is cast; by default it keeps its own.

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
    def types(self) -> Mapping[str, pa.DataType]:
        """The Arrow types by name of the column."""
        return self._types

    def are_in(self, names: Collection[str]) -> bool:
        """Return whether a table with some columns shows values of these columns, or notes on them."""
        return self._typed.are_in(_sides(names))

    def of(self, rows: Rows, names: Collection[str]) -> tuple[Rows, dict[str, pa.Array]]:
        """Return decoded rows with notes on what does not fit, and the columns of a table."""
        shown, made = self._typed.of(rows, _sides(names))
        return shown, {
            name: array
            if array.type == self._types[name]
            else array.cast(self._types[name], safe=False)
            for name, array in ((_DECODED[side], array) for side, array in made.items())
        }


def _sides(names: Collection[str]) -> set[str]:
    """Return names of the sides that some columns need: a note needs the values, too."""
    return {_SIDES[name] for name in names if name in _SIDES}
