"""Targets of the programs that fill columns: each on hostile values, and the column that its twin in Python makes.

The values are those of `fuzz_programs`. An Avro schema is read with itself, and with a newer one of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from engine.lines.line_decoder import DecodedField
from kafkafs.forms.arrow.typed.avro_column import AvroColumn
from kafkafs.forms.arrow.typed.protobuf_column import ProtobufColumn
from kafkafs.forms.arrow.typed.typed_column import TypedColumn
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.avro_schema import AvroPrimitive, AvroRecord, AvroType
from kafkafs.schemas.decoders.limits import MOST_COST
from kafkafs.schemas.decoders.protobuf import ProtobufDecoder
from kafkafs.schemas.decoders.value_decoder import ValueDecoder
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.programs import compiled
from tests.kafkafs.forms.arrow.typed.reading import NULL, READ, REFUSED, TOO_LARGE, equal
from tests.soak import fuzz_programs
from tests.soak.fuzz_kernel import exact
from tests.soak.fuzz_programs import NUMBER, Kind
from tests.soak.targets import Target

LARGEST_TWIN = 256 * 1024
"""Bytes of JSON above which the twin is not asked."""
BYTES_OF_A_VALUE = 3 * MOST_COST
"""Bytes that the columns of a value may take."""
ENOUGH = 1 << 60


@dataclass
class ColumnKind:
    """Values of a schema, and a column that they are read into."""

    kind: Kind
    make: Callable[[], TypedColumn]

    @cached_property
    def column(self) -> TypedColumn:
        """The column."""
        return self.make()

    @cached_property
    def program(self) -> Any:
        """The program; None without one."""
        column = self.column
        if isinstance(column, AvroColumn):
            return column.program(self.kind.decoder)
        assert isinstance(column, ProtobufColumn)
        return column.program

    def of_twin(self, data: bytes) -> pa.Array | None:
        """The array of one value by the twin; None if it has none."""
        try:
            text, left, _ = ValueDecoder.json(self.kind.decoder, data, self.kind.message)
        except UndecodableError:
            return None
        if left or len(text) > LARGEST_TWIN:
            return None
        made = self.kind.decoder.made_of(data, self.kind.message)
        array, notes = self.column.array([DecodedField(text, made_by=made)])
        return None if notes else array


def newer(schema: AvroType) -> AvroType:
    """A schema that has a record's fields the other way round, without one of them, and with a default."""
    if not isinstance(schema, AvroRecord) or not schema.fields:
        return schema
    made = AvroRecord(schema.name, [*reversed(schema.fields[1:])])
    made.fields.insert(len(made.fields) // 2, ("of a newer schema", AvroPrimitive("string")))
    made.defaults["of a newer schema"] = "new"
    return made


def read(column: TypedColumn, program: Any, data: bytes) -> tuple[pa.Array, list[int]]:
    """The column of a value, of its half, of nothing, and of the value again."""
    middle = len(data) // 2
    starts = np.array([0, 0, middle, 0], np.int64)
    sizes = np.array([len(data), middle, -1, len(data)], np.int64)
    which = np.zeros(len(sizes), np.int32)
    parts, states = compiled.read_columns(
        column.shapes, [program], which, exact(data), starts, sizes, MOST_COST, ENOUGH
    )
    array = column.tree.array(parts)
    array.validate(full=True)
    return array, states.tolist()


def check(kind: ColumnKind, data: bytes) -> None:
    """Check that the program has the twin's column, or leaves the value to the twin."""
    if kind.program is None:
        return
    array, states = read(kind.column, kind.program, data)
    assert array.nbytes < len(states) * (BYTES_OF_A_VALUE + 64 * len(data)), array.nbytes
    assert states[2] == NULL
    assert states[0] == states[3]
    for place, size in enumerate((len(data), len(data) // 2)):
        assert states[place] in (READ, REFUSED, TOO_LARGE)
        if states[place] != READ:
            assert not array[place].is_valid
        expected = kind.of_twin(data[:size])
        if expected is None:
            continue
        assert states[place] != TOO_LARGE
        if states[place] == READ:
            assert equal(array.slice(place, 1), expected)
        else:
            assert not kind.kind.is_all_read


def target(kinds: list[ColumnKind]) -> Target:
    """Values of some kinds, made as those of the programs that print JSON."""
    make = fuzz_programs.target([each.kind for each in kinds]).make

    def read_one(data: bytes) -> None:
        (number,) = NUMBER.unpack(data[: NUMBER.size].ljust(NUMBER.size, b"\0"))
        check(kinds[number % len(kinds)], data[NUMBER.size :])

    return Target(make, read_one)


def avro_kinds() -> list[ColumnKind]:
    """The Avro schemas of the other targets, each with itself and with a newer schema."""
    found: list[ColumnKind] = []
    for kind in fuzz_programs.avro_kinds():
        assert isinstance(kind.decoder, AvroDecoder)
        own = kind.decoder.schema
        found += [ColumnKind(kind, partial(AvroColumn, each)) for each in (own, newer(own))]
    return found


def protobuf_kinds() -> list[ColumnKind]:
    """The messages of the other targets."""

    def column(kind: Kind) -> Callable[[], TypedColumn]:
        assert isinstance(kind.decoder, ProtobufDecoder)
        decoder = kind.decoder
        return lambda: ProtobufColumn(decoder, kind.message)

    return [ColumnKind(kind, column(kind)) for kind in fuzz_programs.protobuf_kinds()]


TARGETS = {
    "avro-columns": lambda: target(avro_kinds()),
    "protobuf-columns": lambda: target(protobuf_kinds()),
}
"""What makes each target, by name."""
