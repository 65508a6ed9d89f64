"""What batches' records say together is what they say one by one."""

from __future__ import annotations

import dataclasses
from types import ModuleType

import numpy as np
import pytest

from engine.budgets import DEFAULT_BUDGETS
from engine.coding.compression import CompressionType
from engine.columns.batch_table import Problem
from tests import builders
from tests.builders import Rec
from tests.engine.kernel.kernels import decoded, each_kernel, table_of

NOW = 1_700_000_000_000
RECORDS = [
    Rec(b"one", b"key", NOW + 5),
    Rec(b"two", None, NOW - 3),
    Rec(None, b"", NOW + 900),
    Rec(b"four", None, NOW),
]


def summaries(kernel: ModuleType, data: bytes) -> np.ndarray:
    """Of batches that have no problem."""
    rows, problems = kernel.summarize(data, table_of(data), start_position=0)
    assert problems == []
    return rows


@each_kernel
@pytest.mark.parametrize("codec", CompressionType)
def test_a_row_tells_count_bounds_and_the_first_record_without_a_key(
    kernel: ModuleType, codec: CompressionType
) -> None:
    data = builders.batch(RECORDS, 50, codec) + builders.batch(RECORDS[:1], 60, codec)
    first, second = summaries(kernel, data)
    assert (first["first_offset"], first["last_offset"], first["count"]) == (50, 53, 4)
    assert (first["smallest_timestamp"], first["largest_timestamp"]) == (NOW - 3, NOW + 900)
    assert (first["first_without_key"], first["without_key"], first["descents"]) == (51, 2, 0)
    assert (second["first_offset"], second["count"], second["without_key"]) == (60, 1, 0)


@each_kernel
@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_of_a_compressed_message_are_those_of_its_messages(
    kernel: ModuleType, magic: int
) -> None:
    data = builders.message_set(RECORDS[:3], 40, CompressionType.GZIP, magic=magic)
    (row,) = summaries(kernel, data)
    columns = decoded(kernel, data)
    assert (row["first_offset"], row["last_offset"], row["count"]) == (40, 42, 3)
    assert row["largest_timestamp"] == columns.timestamp.max()


@each_kernel
def test_offsets_that_do_not_ascend_are_counted(kernel: ModuleType) -> None:
    offsets = (50, 52, 52, 51)
    records = [Rec(offset=offset) for offset in offsets]
    (row,) = summaries(kernel, builders.batch(records, 50))
    assert (row["first_offset"], row["last_offset"], row["descents"]) == (50, 51, 2)


@each_kernel
def test_a_batch_without_records_is_a_row_of_zeros(kernel: ModuleType) -> None:
    data = builders.empty_batch(50, 55) + builders.batch(RECORDS, 60)
    rows = summaries(kernel, data)
    assert not any(rows[0].tolist())
    assert rows[1]["count"] == 4


@each_kernel
def test_the_records_before_a_problem_count(kernel: ModuleType) -> None:
    data = builders.batch(RECORDS, 50) + builders.batch(RECORDS[:2], 60)
    tight = dataclasses.replace(DEFAULT_BUDGETS, records_per_batch=3)
    rows, problems = kernel.summarize(data, table_of(data), start_position=0, budgets=tight)
    assert [(each.row, each.code, each.record_index) for each in problems] == [
        (0, Problem.LIMIT, 3)
    ]
    assert rows["count"].tolist() == [3, 2]
    assert rows["last_offset"].tolist() == [52, 61]


@each_kernel
def test_rows_that_do_not_lie_in_the_bytes_are_refused(kernel: ModuleType) -> None:
    data = builders.batch(RECORDS, 50)
    with pytest.raises(ValueError, match="is outside the buffer"):
        kernel.summarize(data[:-1], table_of(data), start_position=0)


@each_kernel
@pytest.mark.parametrize("codec", CompressionType)
def test_the_facts_of_one_batch_are_those_of_its_row_and_its_size(
    kernel: ModuleType, codec: CompressionType
) -> None:
    data = builders.batch(RECORDS, 50, codec)
    (row,) = summaries(kernel, data)
    found = kernel.record_facts(data)
    names = ("count", "first_offset", "last_offset", "smallest_timestamp", "largest_timestamp")
    assert found[:5] == tuple(row[name] for name in names)
    assert (found.without_key, found.descents) == (2, 0)
    assert found.size == len(builders.batch(RECORDS, 50)) - 61


@each_kernel
def test_a_batch_with_something_unusual_has_no_facts(kernel: ModuleType) -> None:
    data = builders.batch(RECORDS, 50)
    tight = dataclasses.replace(DEFAULT_BUDGETS, records_per_batch=3)
    packed = builders.batch([Rec(bytes(100_000))], 50, CompressionType.ZSTD)
    small = dataclasses.replace(DEFAULT_BUDGETS, inflated_bytes=99_999)
    assert kernel.record_facts(data, budgets=tight) is None
    assert kernel.record_facts(packed, budgets=small) is None
    assert kernel.record_facts(data[:-1]) is None
    assert kernel.record_facts(data + bytes(1)) is None
    assert kernel.record_facts(data[:60]) is None
    assert kernel.record_facts(builders.empty_batch(50, 55)) is None
    assert kernel.record_facts(builders.message_set(RECORDS[:1], 40, magic=1)) is None


@each_kernel
@pytest.mark.parametrize("codec", CompressionType)
def test_a_row_tells_the_bytes_of_decompressed_records(
    kernel: ModuleType, codec: CompressionType
) -> None:
    (row,) = summaries(kernel, builders.batch(RECORDS, 50, codec))
    plain = len(builders.batch(RECORDS, 50)) - 61
    assert row["inflated"] == (0 if codec is CompressionType.NONE else plain)
