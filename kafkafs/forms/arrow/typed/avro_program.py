"""Compiler of two Avro schemas to a program: it reads values of the writer's schema into a column of the reader's.

The shapes of steps and links are those of `schemas/programs/c/avro_columns.h`. The rules are those of
`kafkafs.forms.arrow.typed.avro_types`, the twin. A part of a value that no program serves has a step that refuses it: the twin then
has the value, or the words for what is wrong with it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kafkafs.forms.arrow.typed.avro_resolved import is_same_form
from kafkafs.forms.arrow.typed.avro_rules import (
    DAY_TICKS,
    NULL,
    check_scalar,
    enum_symbols,
    record_sources,
    type_name,
    without_null,
)
from kafkafs.forms.arrow.typed.avro_types import Path, default_of, is_text
from kafkafs.forms.arrow.typed.column_tree import ColumnKind, ColumnTree
from kafkafs.schemas.decoders.avro_program import AvroSteps, NotServedError
from kafkafs.schemas.decoders.avro_schema import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    Logical,
    may_be_empty,
)
from kafkafs.schemas.decoders.limits import CONTAINER_COST, ITEM_COST, MOST_COST
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.programs import extension

if TYPE_CHECKING:
    from kafkafs.schemas.programs import compiled

_MOST_CONSTANTS = 10_000


class ColumnStep(IntEnum):
    """Kinds of steps; the C code has the same numbers."""

    REFUSED = 0
    NULL = 1
    BOOLEAN = 2
    NUMBER = 3
    NUMBER_AS_FLOAT = 4
    NUMBER_AS_DOUBLE = 5
    TIME = 6
    FLOAT = 7
    FLOAT_AS_DOUBLE = 8
    DOUBLE = 9
    STRING = 10
    BYTES = 11
    FIXED = 12
    ENUM = 13
    UNION = 14
    ARRAY = 15
    MAP = 16
    RECORD = 17
    DECIMAL = 18
    DURATION = 19
    TEXT = 20
    QUOTED = 21
    SKIP = 22
    CONSTANT = 23
    CONSTANT_LIST = 24
    CONSTANT_STRUCT = 25


class _Step(NamedTuple):
    kind: ColumnStep
    column: int = 0
    is_long: int = 0
    size: int = 0
    first: int = 0
    number: int = 0
    cost: int = 0
    bytes: int = 0
    bytes_size: int = 0


def column_program(
    writer: AvroType, reader: AvroType, column: ColumnTree, shapes: compiled.ColumnShapes
) -> compiled.AvroColumnProgram | None:
    """Return the program that reads values of a writer's schema; None for schemas that programs do not serve.

    Args:
        writer: schema of the values.
        reader: schema of the column.
        column: the column, with the reader's type.
        shapes: of the column.

    Raises:
        UndecodableError: no value of the writer's schema has the reader's type.
    """
    assert extension is not None
    compiler = _Compiler()
    try:
        root = compiler.step(writer, reader, column, ())
    except NotServedError:
        return None
    return compiler.program(root, shapes)


class _Compiler:
    """Compiler of a pair of schemas: steps, links, and the texts that they refer to."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._links: list[tuple[int, int, int]] = []
        self._texts = bytearray()
        self._json = AvroSteps()
        self._json.step(NULL)
        self._constants = 0

    def program(self, root: int, shapes: compiled.ColumnShapes) -> compiled.AvroColumnProgram:
        """Return the program that begins at a step."""
        assert extension is not None
        program: compiled.AvroColumnProgram = extension.AvroColumnProgram(
            shapes,
            array("i", chain.from_iterable(self._steps)).tobytes(),
            array("i", chain.from_iterable(self._links)).tobytes(),
            bytes(self._texts),
            self._json.program(),
            root,
            MOST_COST,
        )
        return program

    def step(self, writer: AvroType, reader: AvroType, column: ColumnTree, path: Path) -> int:
        """Return the number of the step for a writer's values in a reader's column. Raises as `column_program`."""
        plain, is_nullable = without_null(reader)
        null = ColumnStep.NULL if is_nullable or plain == NULL else ColumnStep.REFUSED
        if not isinstance(writer, AvroUnion):
            if writer == NULL:
                return self._add(_Step(null, column.at))
            return self._plain(writer, plain, column, path)
        source, _ = without_null(writer)
        if isinstance(source, AvroUnion) and not is_text(plain, path):
            raise UndecodableError(f"type {type_name(source)} is not read as {type_name(plain)}")
        if any(isinstance(branch, AvroUnion) for branch in writer.branches):
            raise NotServedError
        steps = [
            self._add(_Step(null, column.at))
            if branch == NULL
            else self._plain(branch, plain, column, path)
            for branch in writer.branches
        ]
        return self._linked(ColumnStep.UNION, column, steps)

    def _plain(self, writer: AvroType, reader: AvroType, column: ColumnTree, path: Path) -> int:
        """Return the step for types that are not null; the branch of `avro_types` that has the same name."""
        if is_text(reader, path):
            if not is_same_form(writer, reader):
                return self._add(_Step(ColumnStep.REFUSED))  # the twin has the reader's names
            return self._add(_Step(ColumnStep.TEXT, column.at, first=self._json.step(writer)))
        inside = (*path, reader)
        if isinstance(reader, AvroRecord) and isinstance(writer, AvroRecord):
            return self._record(writer, reader, column, inside)
        if isinstance(reader, AvroArray) and isinstance(writer, AvroArray):
            item = self.step(writer.items, reader.items, column.parts[0], inside)
            size = int(may_be_empty(writer.items))
            return self._linked(ColumnStep.ARRAY, column, [item], size=size)
        if isinstance(reader, AvroMap) and isinstance(writer, AvroMap):
            value = self.step(writer.values, reader.values, column.parts[0].parts[1], inside)
            return self._linked(ColumnStep.MAP, column, [value])
        if isinstance(reader, AvroEnum) and isinstance(writer, AvroEnum):
            return self._enumeration(enum_symbols(writer, reader).values(), column)
        if isinstance(reader, AvroPrimitive | AvroFixed) and isinstance(
            writer, AvroPrimitive | AvroFixed
        ):
            check_scalar(writer, reader)
            return self._add(self._scalar(writer, reader, column))
        raise UndecodableError(f"type {type_name(writer)} is not read as {type_name(reader)}")

    # Types with types inside

    def _record(
        self, writer: AvroRecord, reader: AvroRecord, column: ColumnTree, inside: Path
    ) -> int:
        names = [name for name, _ in writer.fields]
        sources = record_sources(writer, reader)
        read = [source for source in sources if source is not None]
        if any(len(set(each)) < len(each) for each in (names, read, [n for n, _ in reader.fields])):
            raise NotServedError
        steps: dict[str, int] = {}
        constants: list[int] = []
        for (name, kind), source, part in zip(reader.fields, sources, column.parts, strict=True):
            if source is None:
                constants.append(self._default(kind, reader.defaults[name], part, inside))
                continue
            try:
                steps[source] = self.step(dict(writer.fields)[source], kind, part, inside)
            except UndecodableError as error:
                raise UndecodableError(f"field {name}: {error.reason}") from None
        for name, kind in writer.fields:
            if name not in steps:
                first = self._json.step(kind)
                steps[name] = self._add(_Step(ColumnStep.SKIP, column.at, first=first))
        cost = CONTAINER_COST + sum(len(name) + ITEM_COST for name in names)
        in_order = [*(steps[name] for name in names), *constants]
        return self._linked(ColumnStep.RECORD, column, in_order, cost=cost)

    def _enumeration(self, shown: Iterable[str], column: ColumnTree) -> int:
        try:
            symbols = [symbol.encode() for symbol in shown]
        except UnicodeEncodeError:
            raise NotServedError from None
        first = len(self._links)
        self._links += [(0, self._text(symbol), len(symbol)) for symbol in symbols]
        return self._add(_Step(ColumnStep.ENUM, column.at, first=first, number=len(symbols)))

    # Types without types inside

    def _scalar(
        self,
        writer: AvroPrimitive | AvroFixed,
        reader: AvroPrimitive | AvroFixed,
        column: ColumnTree,
    ) -> _Step:
        logical, at = writer.logical, column.at
        if logical is Logical.DECIMAL:
            return self._decimal(writer, column)
        if logical is Logical.BIG_DECIMAL or (
            logical is Logical.UUID and isinstance(writer, AvroFixed)
        ):
            return _Step(ColumnStep.QUOTED, at, first=self._json.step(writer))
        if logical is Logical.DURATION:
            return _Step(ColumnStep.DURATION, at)
        if isinstance(writer, AvroFixed):
            return _Step(ColumnStep.FIXED, at, size=writer.size)
        if writer.name in ("int", "long"):
            return self._number(writer, column)
        if writer.name == "bytes" and reader.name == "string":
            return _Step(ColumnStep.STRING, at)
        if (writer.name, reader.name) == ("float", "double"):
            return _Step(ColumnStep.FLOAT_AS_DOUBLE, at)
        return _Step(ColumnStep[writer.name.upper()], at)

    def _number(self, writer: AvroPrimitive, column: ColumnTree) -> _Step:
        """Return the step for an int or long; the type of the column says what it becomes."""
        at, is_long, kind = column.at, int(writer.name == "long"), column.type
        if pa.types.is_floating(kind):
            name = "NUMBER_AS_FLOAT" if column.width == 4 else "NUMBER_AS_DOUBLE"
            return _Step(ColumnStep[name], at, is_long)
        if pa.types.is_time(kind):
            bound = DAY_TICKS[kind.unit].to_bytes(8, "little")
            place = self._text(bound)
            return _Step(
                ColumnStep.TIME, at, is_long, column.width, bytes=place, bytes_size=len(bound)
            )
        return _Step(ColumnStep.NUMBER, at, is_long, column.width)

    def _decimal(self, writer: AvroPrimitive | AvroFixed, column: ColumnTree) -> _Step:
        if column.kind is ColumnKind.BYTES:
            return _Step(ColumnStep.QUOTED, column.at, first=self._json.step(writer))
        bound = (10**column.type.precision).to_bytes(column.width, "little")
        is_fixed = isinstance(writer, AvroFixed)
        return _Step(
            ColumnStep.DECIMAL,
            column.at,
            int(is_fixed),
            column.width,
            number=writer.size if isinstance(writer, AvroFixed) else 0,
            bytes=self._text(bound),
            bytes_size=len(bound),
        )

    # Defaults

    def _default(self, schema: AvroType, value: Any, column: ColumnTree, inside: Path) -> int:  # noqa: ANN401
        made = default_of(schema, value, inside)
        try:
            return self._constant(made, column)
        except (ValueError, TypeError, KeyError, OverflowError, pa.ArrowException):
            return self._add(_Step(ColumnStep.REFUSED))  # the twin says why

    def _constant(self, value: Any, column: ColumnTree) -> int:  # noqa: ANN401
        """Return the step that appends a value in the form that PyArrow takes."""
        self._constants += 1
        if self._constants > _MOST_CONSTANTS:
            raise NotServedError
        if value is None:
            return self._add(_Step(ColumnStep.NULL, column.at))
        if column.kind is ColumnKind.STRUCT:
            items = value if isinstance(value, tuple) else [value[f.name] for f in column.type]
            steps = [self._constant(*each) for each in zip(items, column.parts, strict=True)]
            return self._linked(ColumnStep.CONSTANT_STRUCT, column, steps)
        if column.kind is ColumnKind.LIST:
            steps = [self._constant(each, column.parts[0]) for each in value]
            return self._linked(ColumnStep.CONSTANT_LIST, column, steps)
        data = _constant_bytes(value, column)
        place = self._text(data)
        return self._add(_Step(ColumnStep.CONSTANT, column.at, bytes=place, bytes_size=len(data)))

    # Tables

    def _add(self, step: _Step) -> int:
        self._steps.append(step)
        return len(self._steps) - 1

    def _linked(
        self,
        kind: ColumnStep,
        column: ColumnTree,
        steps: list[int],
        *,
        size: int = 0,
        cost: int = 0,
    ) -> int:
        first = len(self._links)
        self._links += [(step, 0, 0) for step in steps]
        return self._add(
            _Step(kind, column.at, size=size, first=first, number=len(steps), cost=cost)
        )

    def _text(self, text: bytes) -> int:
        self._texts += text
        return len(self._texts) - len(text)


def _constant_bytes(value: Any, column: ColumnTree) -> bytes:  # noqa: ANN401
    """Return the bytes of a value without parts in its column."""
    made = pa.array([value], column.type)
    if column.kind is ColumnKind.BOOLEAN:
        return bytes([bool(value)])
    data = made.buffers()[-1]
    if column.kind is ColumnKind.BYTES:
        return b"" if data is None else data.to_pybytes()[: len(made.cast(pa.binary())[0].as_py())]
    return bytes(data.to_pybytes()[: column.width])
