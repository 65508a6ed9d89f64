"""Compiler of Avro schemas to programs: one step for each type, with links to the types inside it.

The shapes of steps and links are those of `programs/c/avro.h`. `program_of` returns None for what only the reader in
Python serves: a record that has a field's name twice, a union inside a union, a decimal with more than MOST_SCALE digits
after its point. A program refuses a big decimal, a decimal of more than 16 bytes and a map that has a key twice, where a
value has them.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING

from engine.lines.json_text import string_json
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
from kafkafs.schemas.programs import extension

if TYPE_CHECKING:
    from kafkafs.schemas.programs import compiled

MOST_SCALE = 1000


class StepKind(IntEnum):
    """Kinds of steps; the C code has the same numbers."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    FIXED = 8
    ENUM = 9
    UNION = 10
    ARRAY = 11
    MAP = 12
    RECORD = 13
    DATE = 14
    TIME = 15
    TIMESTAMP = 16
    LOCAL_TIMESTAMP = 17
    DECIMAL_BYTES = 18
    DECIMAL_FIXED = 19
    UUID_FIXED = 20
    DURATION = 21
    BIG_DECIMAL = 22


_DECIMALS = {"millis": 3, "micros": 6, "nanos": 9}
_NO_STEP = (0, 0, 0, 0, 0, 0)


class NotServedError(Exception):
    """Only the reader in Python serves the schema."""


def program_of(schema: AvroType) -> compiled.AvroProgram | None:
    """Return the program of a schema; None without the extension, and for a schema that programs do not serve."""
    if extension is None:
        return None
    steps = AvroSteps()
    try:
        steps.step(schema)
    except NotServedError:
        return None
    return steps.program()


class AvroSteps:
    """Compiler of schemas: steps, links and the texts that links refer to; a program begins at its first step."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, ...]] = []
        self.links: list[tuple[int, ...]] = []
        self.texts = bytearray()
        self._records: dict[int, int] = {}
        self._scalars: dict[tuple[int, ...], int] = {}

    def step(self, schema: AvroType) -> int:
        """Return the number of a type's step."""
        if isinstance(schema, AvroRecord):
            return self._record(schema)
        if isinstance(schema, AvroUnion):
            if any(isinstance(each, AvroUnion) for each in schema.branches):
                raise NotServedError
            return self._linked(StepKind.UNION, [(each, b"", 0) for each in schema.branches])
        if isinstance(schema, AvroArray):
            is_empty = int(may_be_empty(schema.items))
            return self._linked(StepKind.ARRAY, [(schema.items, b"", 0)], size=is_empty)
        if isinstance(schema, AvroMap):
            return self._linked(StepKind.MAP, [(schema.values, b"", 0)])
        if isinstance(schema, AvroEnum):
            return self._enumeration(schema)
        return self._scalar(*_scalar(schema))

    def program(self) -> compiled.AvroProgram:
        """Return the program of the steps; the extension must be there."""
        assert extension is not None
        program: compiled.AvroProgram = extension.AvroProgram(
            array("i", chain.from_iterable(self.steps)).tobytes(),
            array("i", chain.from_iterable(self.links)).tobytes(),
            bytes(self.texts),
            MOST_COST,
        )
        return program

    def _scalar(self, kind: StepKind, is_long: bool = False, size: int = 0, count: int = 0) -> int:
        step = (kind, int(is_long), size, 0, count, 0)
        if step not in self._scalars:
            self._scalars[step] = len(self.steps)
            self.steps.append(step)
        return self._scalars[step]

    def _enumeration(self, schema: AvroEnum) -> int:
        at = len(self.steps)
        self.steps.append((StepKind.ENUM, 0, 0, len(self.links), len(schema.symbols), 0))
        for symbol in schema.symbols:
            self.links.append((at, *self._text(_string(symbol)), len(symbol)))
        return at

    def _record(self, schema: AvroRecord) -> int:
        known = self._records.get(id(schema))
        if known is not None:
            return known
        names = [name for name, _ in schema.fields]
        if len(set(names)) < len(names):
            raise NotServedError
        fields = [
            (kind, (b"," if place else b"{") + _string(name) + b":", 0)
            for place, (name, kind) in enumerate(schema.fields)
        ]
        cost = CONTAINER_COST + sum(len(name) + ITEM_COST for name in names)
        return self._linked(StepKind.RECORD, fields, cost=cost, record=schema)

    def _linked(
        self,
        kind: StepKind,
        inside: list[tuple[AvroType, bytes, int]],
        *,
        size: int = 0,
        cost: int = 0,
        record: AvroRecord | None = None,
    ) -> int:
        at = len(self.steps)
        if record is not None:
            self._records[id(record)] = at
        self.steps.append(_NO_STEP)
        links = [
            (self.step(each), *self._text(text), each_cost) for each, text, each_cost in inside
        ]
        self.steps[at] = (kind, 0, size, len(self.links), len(links), cost)
        self.links += links
        return at

    def _text(self, text: bytes) -> tuple[int, int]:
        start = len(self.texts)
        self.texts += text
        return start, len(text)


def _string(text: str) -> bytes:
    try:
        return string_json(text).encode()
    except UnicodeEncodeError:
        raise NotServedError from None  # half of a surrogate pair


def _scalar(schema: AvroPrimitive | AvroFixed) -> tuple[StepKind, bool, int, int]:
    """Return the kind of a type without types inside, whether it has 64 bits, its size or digits, and its bytes."""
    logical = schema.logical
    if logical is Logical.DECIMAL and schema.scale > MOST_SCALE:
        raise NotServedError
    if isinstance(schema, AvroFixed):
        if logical is Logical.DECIMAL:
            return StepKind.DECIMAL_FIXED, False, schema.scale, schema.size
        kinds = {Logical.UUID: StepKind.UUID_FIXED, Logical.DURATION: StepKind.DURATION}
        return (
            kinds.get(logical, StepKind.FIXED) if logical else StepKind.FIXED,
            False,
            schema.size,
            0,
        )
    if logical is Logical.DECIMAL:
        return StepKind.DECIMAL_BYTES, False, schema.scale, 0
    if logical is Logical.BIG_DECIMAL:
        return StepKind.BIG_DECIMAL, False, 0, 0
    if logical is Logical.DATE:
        return StepKind.DATE, False, 0, 0
    if logical is not None and schema.name in ("int", "long"):
        name, _, unit = logical.value.rpartition("-")
        kind = StepKind[name.replace("-", "_").upper()]
        return kind, schema.name == "long", _DECIMALS[unit], 0
    return StepKind[schema.name.upper()], False, 0, 0
