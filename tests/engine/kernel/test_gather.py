"""Keys and values of many records as one binary column: both kernels, and what the records hold."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, strategies as st

from engine.columns.columns import RECORD_ROW, Columns
from engine.kernel import python as kernel_python
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.record import Header
from tests.engine.kernel.kernels import decoded, each_kernel

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
    with pytest.raises(ValueError, match="is outside"):
        kernel.gather(columns, np.array([index]), "key")


@each_kernel
@pytest.mark.parametrize(("start", "size"), [(-1, 1), (5, 6), (11, 0), (2**62, 1), (0, 11)])
def test_bytes_outside_the_arena_are_refused(kernel: ModuleType, start: int, size: int) -> None:
    table = np.zeros(1, RECORD_ROW.dtype)
    table["value_start"], table["value_size"] = start, size
    columns = Columns(table, memoryview(bytes(10)), [], 1)
    with pytest.raises(ValueError, match="is outside"):
        kernel.gather(columns, np.zeros(1, np.int64), "value")


@each_kernel
def test_more_bytes_than_a_column_can_address_are_refused(kernel: ModuleType) -> None:
    table = np.zeros(1, RECORD_ROW.dtype)
    table["value_size"] = 1 << 20
    columns = Columns(table, memoryview(bytes(1 << 20)), [], 1)
    with pytest.raises(ValueError, match="do not fit"):
        kernel.gather(columns, np.zeros(2048, np.int64), "value")


@each_kernel
def test_only_keys_and_values_are_bytes(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="no field 'offset'"):
        kernel.gather(columns_of((b"a", b"b")), np.zeros(1, np.int64), "offset")


# -- headers

HEADERS = st.lists(st.builds(Header, st.binary(max_size=9), st.none() | st.binary(max_size=30)))


def rows_of(column: tuple[bytes | None, bytes, bytes], count: int) -> list[bytes | None]:
    valid, offsets, data = column
    bounds = np.frombuffer(offsets, np.int32).tolist()
    assert len(bounds) == count + 1
    bits = np.ones(count, bool)
    if valid is not None:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little").astype(bool)[:count]
    return [data[bounds[i] : bounds[i + 1]] if bits[i] else None for i in range(count)]


def with_headers(*lists: list[Header]) -> Columns:
    records = [SimpleRecord(b"k", b"v", headers=tuple(each)) for each in lists]
    return decoded(kernel_python, bytes(records_of(*records).buffer))


@each_kernel
@given(lists=st.lists(HEADERS, min_size=1, max_size=12), choice=st.data())
def test_lists_are_the_headers_of_the_records_that_were_named(
    kernel: ModuleType, lists: list[list[Header]], choice: st.DataObject
) -> None:
    columns = with_headers(*lists)
    indices = choice.draw(st.lists(st.integers(0, len(lists) - 1), max_size=20))
    valid, offsets, keys, values = kernel.gather_headers(columns, np.array(indices, np.int64))
    count = int(np.frombuffer(offsets, np.int32)[-1])
    flat = list(zip(rows_of(keys, count), rows_of(values, count), strict=True))
    bounds = np.frombuffer(offsets, np.int32).tolist()
    found = [flat[bounds[i] : bounds[i + 1]] for i in range(len(indices))]
    assert found == [[(header.key, header.value) for header in lists[i]] for i in indices]
    some = [bool(lists[i]) for i in indices]
    if all(some):
        assert valid is None
    else:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little").astype(bool)
        assert bits[: len(indices)].tolist() == some


@each_kernel
@pytest.mark.parametrize(
    "headers",
    [
        bytes([2, 65]),  # a key without a value
        bytes([9, 65, 2, 66]),  # a key that is cut off
        bytes([2, 65, 8, 66]),  # a value that is cut off
        bytes([1, 2, 66]),  # no key
        b"\xff" * 6,
        b"",
    ],
)
def test_headers_that_are_none_are_refused(kernel: ModuleType, headers: bytes) -> None:
    table = np.zeros(1, RECORD_ROW.dtype)
    table["headers_count"], table["headers_size"] = 1, len(headers)
    columns = Columns(table, memoryview(headers + b"\x00" * 8), [], 1)
    with pytest.raises(ValueError, match="is outside"):
        kernel.gather_headers(columns, np.zeros(1, np.int64))


@each_kernel
@pytest.mark.parametrize(("start", "size"), [(-1, 2), (9, 3), (0, -1), (2**62, 1)])
def test_headers_outside_the_arena_are_refused(kernel: ModuleType, start: int, size: int) -> None:
    table = np.zeros(1, RECORD_ROW.dtype)
    table["headers_count"], table["headers_start"], table["headers_size"] = 1, start, size
    columns = Columns(table, memoryview(bytes(10)), [], 1)
    with pytest.raises(ValueError, match="is outside"):
        kernel.gather_headers(columns, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="is outside"):
        kernel.gather_headers(columns, np.ones(1, np.int64))
