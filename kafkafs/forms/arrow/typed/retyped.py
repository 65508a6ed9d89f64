"""Columns of nested types in other types, for files and programs that lack some of Arrow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkafs.forms.arrow.errors import NOT_FITTING

TypeOf: TypeAlias = Callable[[pa.DataType], pa.DataType]
"""Function from a type to the one that is shown in its place."""
Cast: TypeAlias = Callable[[pa.Array, pa.DataType], pa.Array]
"""Function that returns scalars in another type."""

_MOST_NOTE = 500
_UNITS = {"us": "microsecond", "ms": "millisecond", "s": "second"}


def with_leaves(kind: pa.DataType, leaf: TypeOf, key: TypeOf | None = None) -> pa.DataType:
    """Return a type with other types in place of its scalars, and of structs without fields.

    Args:
        kind: the type.
        leaf: returns the type in place of another.
        key: the same for the keys of maps; by default `leaf`.
    """
    if pa.types.is_struct(kind) and kind.num_fields:
        return pa.struct([(each.name, with_leaves(each.type, leaf, key)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(with_leaves(kind.value_type, leaf, key))
    if pa.types.is_map(kind):
        return pa.map_((key or leaf)(kind.key_type), with_leaves(kind.item_type, leaf, key))
    return leaf(kind)


def retyped(array: pa.Array, kind: pa.DataType, cast: Cast | None = None) -> pa.Array:
    """Return an array in a type that `with_leaves` made of its own.

    A struct without fields is the JSON of it as text. Times lose the digits that the other type does not have.

    Args:
        array: the array.
        kind: the type.
        cast: returns scalars in another type; by default it refuses times that this does not hold.

    Raises:
        pa.ArrowInvalid: a time is outside of the other type.
    """
    if array.type == kind:
        return array
    if pa.types.is_struct(array.type) and not array.type.num_fields:
        return pc.if_else(array.is_valid(), "{}", pa.scalar(None, pa.string()))
    if pa.types.is_struct(array.type):
        parts = [retyped(array.field(place), each.type, cast) for place, each in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(array.type):
        children = [retyped(array.values, kind.value_type, cast)]
    elif pa.types.is_map(array.type):
        sides = retyped(array.keys, kind.key_type, cast), retyped(array.items, kind.item_type, cast)
        children = [
            pa.StructArray.from_arrays(list(sides), fields=[kind.key_field, kind.item_field])
        ]
    else:
        return (cast or _cast)(array, kind)
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], offset=array.offset, children=children
    )


def retyped_with_notes(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """Return an array as `retyped`, with null for times that are not possible, and notes that say why, by place."""
    try:
        return retyped(array, kind), {}
    except pa.ArrowInvalid:
        parts: list[pa.Array] = []
        notes: dict[int, str] = {}
        for place in range(len(array)):
            try:
                # Not a slice: that keeps the values in the lists of all rows.
                parts.append(retyped(array.take(pa.array([place])), kind))
            except pa.ArrowInvalid as error:
                parts.append(_fitting(array.take(pa.array([place])), kind))
                notes[place] = f"{NOT_FITTING}: {error}"[:_MOST_NOTE]
        return pa.concat_arrays(parts), notes


def _fitting(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return one value with null for the times in it that the other type does not hold."""
    try:
        return retyped(array, kind, _cast_or_null)
    except pa.ArrowInvalid:
        return pa.nulls(1, kind)


def _cast_or_null(array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return _cast(array, kind)
    except pa.ArrowInvalid:
        if not pa.types.is_temporal(kind):
            raise
    cast = [_cast_one(array.slice(place, 1), kind) for place in range(len(array))]
    return pa.concat_arrays(cast)


def _cast_one(array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return _cast(array, kind)
    except pa.ArrowInvalid:
        return pa.nulls(1, kind)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    is_finer = (
        pa.types.is_timestamp(kind)
        and pa.types.is_timestamp(array.type)
        and array.type.unit == "ns"
    )
    if is_finer and kind.unit != "ns":
        array = pc.floor_temporal(array, unit=_UNITS[kind.unit])
    return pc.cast(array, kind, safe=not pa.types.is_duration(kind))
