"""Reads payloads into a column with a program, and one by one with its twin in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from engine import kernel
from engine.lines.line_decoder import LineDecoder
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import TopicPartition
from kafkafs.forms.arrow.typed.typed_column import TypedColumn
from kafkafs.records.rows import Rows
from kafkafs.schemas.decoders.limits import MOST_COST
from kafkafs.schemas.programs import compiled
from tests.engine.kernel.kernels import table_of

READ, NULL, REFUSED, TOO_LARGE = range(4)
ENOUGH = 1 << 60


class ByProgram(NamedTuple):
    """What a program made of payloads: the column, and the state of each."""

    array: pa.Array
    states: list[int]


def read(
    column: TypedColumn, program: Any, payloads: Sequence[bytes | None], enough: int = ENOUGH
) -> ByProgram:
    """Read payloads into a column; None is null."""
    sizes = np.array([-1 if each is None else len(each) for each in payloads], np.int64)
    lengths = np.maximum(sizes, 0)
    parts, states = compiled.read_columns(
        column.shapes,
        [program],
        np.zeros(len(payloads), np.int32),
        b"".join(each or b"" for each in payloads),
        np.cumsum(lengths) - lengths,
        sizes,
        MOST_COST,
        enough,
    )
    array = column.tree.array(parts)
    array.validate(full=True)
    return ByProgram(array, states.tolist())


def rows_of(decoder: LineDecoder, records: Sequence[SimpleRecord]) -> Rows:
    """The rows of some records of the topic `t`."""
    table = table_of(bytes(records_of(*records).buffer))
    columns = kernel.decode(
        bytes(records_of(*records).buffer), table, 0, len(table), start_position=0
    )
    indices = np.arange(len(columns))
    return Rows(TopicPartition("t", 0), 0, columns, table, None, indices, decoder)


def equal(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays have the same type and values; not-a-number is itself."""
    if one.type != other.type or not one.is_valid().equals(other.is_valid()):
        return False
    one, other = (each.filter(each.is_valid()) for each in (one, other))
    if pa.types.is_struct(one.type):
        return all(map(equal, one.flatten(), other.flatten()))
    if pa.types.is_map(one.type):
        return (
            _lengths(one) == _lengths(other)
            and equal(one.keys, other.keys)
            and equal(one.items, other.items)
        )
    if pa.types.is_list(one.type):
        return _lengths(one) == _lengths(other) and equal(one.flatten(), other.flatten())
    if pa.types.is_floating(one.type):
        return bool(np.array_equal(one.to_numpy(False), other.to_numpy(False), equal_nan=True))
    return bool(one.equals(other))


def _lengths(array: pa.Array) -> list[int]:
    offsets = array.offsets.to_numpy(False)
    return (offsets[1:] - offsets[:-1]).tolist()
