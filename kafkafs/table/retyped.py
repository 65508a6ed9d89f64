"""Columns of nested types in other types, for files and programs that lack some of Arrow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

TypeOf: TypeAlias = Callable[[pa.DataType], pa.DataType]
"""Function from a type to the one that is shown in its place."""


def with_leaves(kind: pa.DataType, leaf: TypeOf) -> pa.DataType:
    """Return a type with other types in place of its scalars, and of structs without fields."""
    if pa.types.is_struct(kind) and kind.num_fields:
        return pa.struct([(each.name, with_leaves(each.type, leaf)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(with_leaves(kind.value_type, leaf))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, with_leaves(kind.item_type, leaf))
    return leaf(kind)


def retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array in a type that `with_leaves` made of its own.

    A struct without fields is the JSON of it as text. Times lose the digits that the other type does not have.
    """
    if array.type == kind:
        return array
    if pa.types.is_struct(array.type) and not array.type.num_fields:
        return pc.if_else(array.is_valid(), "{}", pa.scalar(None, pa.string()))
    if pa.types.is_struct(array.type):
        parts = [retyped(array.field(place), each.type) for place, each in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(array.type):
        children = [retyped(array.values, kind.value_type)]
    elif pa.types.is_map(array.type):
        sides = retyped(array.keys, kind.key_type), retyped(array.items, kind.item_type)
        children = [
            pa.StructArray.from_arrays(list(sides), fields=[kind.key_field, kind.item_field])
        ]
    else:
        return pc.cast(array, kind, safe=False)
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], offset=array.offset, children=children
    )
