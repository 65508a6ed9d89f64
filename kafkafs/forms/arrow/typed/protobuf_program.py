"""Compiler of a Protobuf type to a program that reads its messages into a column.

The shape of steps is that of `schemas/programs/c/protobuf_columns.h`. The rules are those of
`kafkafs.forms.arrow.typed.protobuf_types`, the twin.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.forms.arrow.typed.column_tree import ColumnKind, ColumnTree
from kafkafs.forms.arrow.typed.protobuf_types import (
    DURATION,
    NANOS_A_TICK,
    TIMESTAMP,
    Path,
    fields_of,
    is_map,
    is_text,
    is_wrapper,
)
from kafkafs.schemas.decoders.limits import MOST_COST
from kafkafs.schemas.programs import extension

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from kafkafs.schemas.programs import compiled


class FieldStep(IntEnum):
    """Kinds of steps; the C code has the same numbers."""

    NUMBER = 0
    BOOLEAN = 1
    ENUM = 2
    BYTES = 3
    MESSAGE = 4
    TEXT = 5
    TIMESTAMP = 6
    DURATION = 7
    WRAPPER = 8
    LIST = 9
    MAP = 10


class _Step(NamedTuple):
    kind: FieldStep
    column: int
    field: int = 0
    is_null: int = 0
    size: int = 0
    first: int = 0
    number: int = 0


def message_program(
    descriptor: Descriptor,
    messages: compiled.ProtobufProgram,
    column: ColumnTree,
    shapes: compiled.ColumnShapes,
) -> compiled.ProtobufColumnProgram:
    """Return the program that reads messages of a type.

    Args:
        descriptor: the type.
        messages: program of the type.
        column: the column, with the type's Arrow type.
        shapes: of the column.
    """
    assert extension is not None
    compiler = _Compiler()
    root = compiler.reserve(1)
    compiler.steps[root] = compiler.message(descriptor, column, ())
    program: compiled.ProtobufColumnProgram = extension.ProtobufColumnProgram(
        shapes, array("i", chain.from_iterable(compiler.steps)).tobytes(), messages, MOST_COST
    )
    return program


class _Compiler:
    """Compiler of a type; the steps of a message's fields stand one behind the other."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []

    def reserve(self, number: int) -> int:
        """Return the place of some steps that are set later."""
        self.steps += [_Step(FieldStep.NUMBER, 0)] * number
        return len(self.steps) - number

    def message(
        self,
        descriptor: Descriptor,
        column: ColumnTree,
        path: Path,
        field: int = 0,
        is_null: int = 0,
    ) -> _Step:
        """Return the step of messages of a type."""
        own = column.at, field, is_null
        if is_text(descriptor, path):
            return _Step(FieldStep.TEXT, *own)
        if descriptor.full_name in (TIMESTAMP, DURATION):
            is_time = descriptor.full_name == TIMESTAMP
            kind = FieldStep.TIMESTAMP if is_time else FieldStep.DURATION
            return _Step(kind, *own, NANOS_A_TICK[column.type.unit])
        if is_wrapper(descriptor):
            first = self.reserve(1)
            self.steps[first] = self._item(descriptor.fields_by_name["value"], column, path)
            return _Step(FieldStep.WRAPPER, *own, first=first, number=1)
        inside, fields = (*path, descriptor.full_name), fields_of(descriptor)
        first = self.reserve(len(fields))
        for place, (each, part) in enumerate(zip(fields, column.parts, strict=True)):
            self.steps[first + place] = self._field(place, each, part, inside)
        return _Step(FieldStep.MESSAGE, *own, first=first, number=len(fields))

    def _field(self, place: int, field: FieldDescriptor, column: ColumnTree, path: Path) -> _Step:
        if is_map(field):
            parts = zip(fields_of(field.message_type), column.parts[0].parts, strict=True)
            first = self.reserve(2)
            self.steps[first : first + 2] = [self._item(*each, path) for each in parts]
            return _Step(FieldStep.MAP, column.at, place, first=first, number=2)
        if field.is_repeated:
            first = self.reserve(1)
            self.steps[first] = self._item(field, column.parts[0], path)
            return _Step(FieldStep.LIST, column.at, place, first=first, number=1)
        return self._item(field, column, path, place, int(field.has_presence))

    def _item(
        self,
        field: FieldDescriptor,
        column: ColumnTree,
        path: Path,
        place: int = 0,
        is_null: int = 0,
    ) -> _Step:
        if field.message_type is not None:
            return self.message(field.message_type, column, path, place, is_null)
        kind, size = FieldStep.NUMBER, column.width
        if field.enum_type is not None:
            kind, size = FieldStep.ENUM, 0 if field.is_repeated else field.default_value
        elif column.kind is ColumnKind.BYTES:
            kind = FieldStep.BYTES
        elif column.kind is ColumnKind.BOOLEAN:
            kind = FieldStep.BOOLEAN
        return _Step(kind, column.at, place, is_null, size)
