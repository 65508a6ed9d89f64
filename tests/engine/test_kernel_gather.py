"""Keys and values of many records as one binary column: both kernels, and what the records hold."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, strategies as st

from engine import kernel_python
from engine.record.building import records_of
from engine.record.columns import RECORD_DTYPE, Columns
from engine.record.simple_record import SimpleRecord
from tests.engine.kernels import decoded, each_kernel

FIELDS = st.none() | st.binary(max_size=40)


def columns_of(*records: tuple[bytes | None, bytes | None]) -> Columns:
    made = records_of(*(SimpleRecord(key, value) for key, value in records))
    return decoded(kernel_python, bytes(made.buffer))


def gathered(
    kernel: ModuleType, columns: Columns, indices: list[int], field: str
) -> list[bytes | None]:
    """The column's rows, by Arrow's rules."""
    valid, offsets, data = kernel.gather(columns, np.array(indices, np.int64), field)
    bounds = np.frombuffer(offsets, np.int32).tolist()
    assert len(bounds) == len(indices) + 1
    assert bounds[-1] == len(data)
    bits = np.ones(len(indices), bool)
    if valid is not None:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little").astype(bool)
        assert not bits[len(indices) :].any()
        assert not bits[: len(indices)].all()
    return [
        data[bounds[row] : bounds[row + 1]] if bits[row] else None for row in range(len(indices))
    ]


@each_kernel
@given(
    records=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=30), choice=st.data()
)  # fmt: skip
def test_rows_are_the_keys_and_values_of_the_records_that_were_named(
    kernel: ModuleType,
    records: list[tuple[bytes | None, bytes | None]],
    choice: st.DataObject,
) -> None:
    columns = columns_of(*records)
    indices = choice.draw(st.lists(st.integers(0, len(records) - 1), max_size=40))
    assert gathered(kernel, columns, indices, "key") == [records[i][0] for i in indices]
    assert gathered(kernel, columns, indices, "value") == [records[i][1] for i in indices]


@each_kernel
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 300, 70_000])
def test_short_and_long_values_are_copied_whole(kernel: ModuleType, size: int) -> None:
    values = [bytes([row]) * size for row in range(5)]
    columns = columns_of(*((b"", value) for value in values))
    assert gathered(kernel, columns, [0, 1, 2, 3, 4], "value") == values
    assert gathered(kernel, columns, [4, 0], "value") == [values[4], values[0]]


@each_kernel
@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_is_refused(kernel: ModuleType, index: int) -> None:
    columns = columns_of((b"a", b"b"), (b"c", b"d"))
    with pytest.raises(ValueError, match="does not lie"):
        kernel.gather(columns, np.array([index]), "key")


@each_kernel
@pytest.mark.parametrize(("start", "size"), [(-1, 1), (5, 6), (11, 0), (2**62, 1), (0, 11)])
def test_bytes_outside_the_arena_are_refused(kernel: ModuleType, start: int, size: int) -> None:
    table = np.zeros(1, RECORD_DTYPE)
    table["value_start"], table["value_size"] = start, size
    columns = Columns(table, memoryview(bytes(10)), [], 1)
    with pytest.raises(ValueError, match="does not lie"):
        kernel.gather(columns, np.zeros(1, np.int64), "value")


@each_kernel
def test_more_bytes_than_a_column_can_address_are_refused(kernel: ModuleType) -> None:
    table = np.zeros(1, RECORD_DTYPE)
    table["value_size"] = 1 << 20
    columns = Columns(table, memoryview(bytes(1 << 20)), [], 1)
    with pytest.raises(ValueError, match="do not fit"):
        kernel.gather(columns, np.zeros(2048, np.int64), "value")


@each_kernel
def test_only_keys_and_values_are_bytes(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="no field 'offset'"):
        kernel.gather(columns_of((b"a", b"b")), np.zeros(1, np.int64), "offset")
