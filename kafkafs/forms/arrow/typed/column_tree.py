"""The columns of an Arrow type as a program fills them: a tree in a flat table, and the arrays made of its parts."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkafs.schemas.programs import extension

if TYPE_CHECKING:
    from kafkafs.schemas.programs import compiled

_OFFSET = 4
_MOST_WEIGHT = 2**31 - 1


class ColumnKind(IntEnum):
    """Kinds of columns; the C code has the same numbers."""

    NULL = 0
    BOOLEAN = 1
    FIXED = 2
    BYTES = 3
    LIST = 4
    STRUCT = 5


class ColumnTree:
    """A column and the columns inside of it.

    Args:
        kind: its Arrow type.
        at: its number; those of the columns inside of it follow.

    Attributes:
        type: the Arrow type.
        kind: what the column holds.
        width: bytes of a fixed value.
        parts: columns of the fields, or of the items.
        at: its number.
        end: number of the column behind all that it holds.
        weight: bytes that a row takes, without what lists hold.
    """

    def __init__(self, kind: pa.DataType, at: int = 0) -> None:
        self.type, self.at = kind, at
        self.kind, self.width, inside = _form(kind)
        self.parts: list[ColumnTree] = []
        self.end = at + 1
        for each in inside:
            self.parts.append(ColumnTree(each, self.end))
            self.end = self.parts[-1].end
        held = self.parts if self.kind is ColumnKind.STRUCT else ()
        own = self.width if self.kind is ColumnKind.FIXED else _OFFSET
        self.weight: int = min(1 + own + sum(part.weight for part in held), _MOST_WEIGHT)

    def shapes(self) -> compiled.ColumnShapes:
        """Return the tree as programs take it; the extension must be there."""
        assert extension is not None
        rows = ((each.kind, each.width, each.end, each.weight) for each in self._all())
        shapes: compiled.ColumnShapes = extension.ColumnShapes(
            array("i", chain.from_iterable(rows)).tobytes()
        )
        return shapes

    def array(self, parts: Sequence[compiled.ColumnParts]) -> pa.Array:
        """Return the array of the parts that a program made."""
        rows, valid, data, offsets = parts[self.at]
        if self.kind is ColumnKind.NULL:
            return pa.nulls(rows)
        buffers = [pa.py_buffer(valid) if len(memoryview(valid)) else None]
        if self.kind in (ColumnKind.BYTES, ColumnKind.LIST):
            buffers.append(pa.py_buffer(offsets))
        if self.kind in (ColumnKind.BOOLEAN, ColumnKind.FIXED, ColumnKind.BYTES):
            buffers.append(pa.py_buffer(data))
        inside = [part.array(parts) for part in self.parts]
        return pa.Array.from_buffers(self.type, rows, buffers, children=inside)

    def items_cost(self, value: Any) -> int:  # noqa: ANN401
        """Return the bytes that the items of lists in a value take, as programs count them.

        Args:
            value: what PyArrow takes for a value.
        """
        if value is None or not self.parts:
            return 0
        if self.kind is ColumnKind.LIST:
            (item,) = self.parts
            return len(value) * item.weight + sum(map(item.items_cost, value))
        inside = [value[each.name] for each in self.type] if isinstance(value, dict) else value
        return sum(part.items_cost(each) for part, each in zip(self.parts, inside, strict=True))

    def _all(self) -> list[ColumnTree]:
        return [self, *chain.from_iterable(part._all() for part in self.parts)]


def _form(kind: pa.DataType) -> tuple[ColumnKind, int, list[pa.DataType]]:
    """Return what a column of a type holds, the bytes of a value, and the types inside."""
    if pa.types.is_null(kind):
        return ColumnKind.NULL, 0, []
    if pa.types.is_boolean(kind):
        return ColumnKind.BOOLEAN, 0, []
    if pa.types.is_struct(kind):
        return ColumnKind.STRUCT, 0, [field.type for field in kind]
    if pa.types.is_map(kind):
        return ColumnKind.LIST, 0, [pa.struct([kind.key_field, kind.item_field])]
    if pa.types.is_list(kind):
        return ColumnKind.LIST, 0, [kind.value_type]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return ColumnKind.BYTES, 0, []
    return ColumnKind.FIXED, kind.bit_width // 8, []
