"""Columns of decoded records: what stands in them at the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine import kernel
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.record import Header
from engine.units import TopicPartition
from tests.engine.kernel.kernels import table_of

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

PARTITION = TopicPartition("orders", 3)
MOST = (2**63 - 1) // 1000
FIELDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampMillis": pa.int64(),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def batches(
    *records: SimpleRecord,
    names: list[str],
    indices: list[int] | None = None,
    last_timestamp: int | None = None,
) -> list[pa.RecordBatch]:
    from kafkafs.forms.arrow.arrow_rows import Rows, record_batches

    data = bytes(records_of(*records).buffer)
    table = table_of(data)
    columns = kernel.decode(data, table, 0, len(table), start_position=0)
    if last_timestamp is not None:  # which no producer would be let write
        columns.table = columns.table.copy()
        columns.table["timestamp"][-1] = last_timestamp
    wanted = np.arange(len(columns)) if indices is None else np.array(indices, np.int64)
    rows = Rows(PARTITION, 0, columns, table, None, wanted)
    schema = pa.schema([(name, FIELDS[name]) for name in names])
    found = list(record_batches(schema, rows))
    for batch in found:
        batch.validate(full=True)
        assert batch.schema == schema
    return found


def rows_of(*records: SimpleRecord, names: list[str], indices: list[int] | None = None) -> Any:
    found = batches(*records, names=names, indices=indices)
    return [row for batch in found for row in batch.to_pylist()]


def test_header_keys_that_are_no_utf_8_are_shown_with_marks() -> None:
    bad = Header(b"\xffkey\xc3", b"\xff")
    good = Header("ключ".encode(), None)
    (row, other) = rows_of(
        SimpleRecord(b"", b"", headers=(good, bad)), SimpleRecord(b"", b""), names=["headers"]
    )
    assert row["headers"] == [
        {"key": "ключ", "value": None},
        {"key": "\ufffdkey\ufffd", "value": b"\xff"},
    ]
    assert other["headers"] is None


def test_a_character_across_two_header_keys_is_no_character() -> None:
    headers = (Header(b"\xc3", b"1"), Header(b"\xa4", b"2"))
    (row,) = rows_of(SimpleRecord(b"", b"", headers=headers), names=["headers"])
    assert [each["key"] for each in row["headers"]] == ["\ufffd", "\ufffd"]


def test_some_of_the_records_have_the_fields_of_just_these() -> None:
    records = [
        SimpleRecord(None if index % 3 else b"k%d" % index, b"v%d" % index, 1000 + index)
        for index in range(10)
    ]
    names = ["key", "value", "offset", "timestamp", "topic", "partition"]
    whole = rows_of(*records, names=names)
    assert [row["offset"] for row in whole] == list(range(10))
    for indices in ([0, 1, 5, 9], [4, 5, 6], [7], []):
        assert rows_of(*records, names=names, indices=indices) == [whole[i] for i in indices]


@pytest.mark.parametrize("timestamp", [MOST, 0, -1, -5, -MOST])
def test_times_that_fit_into_microseconds_are_shown(timestamp: int) -> None:
    (batch,) = batches(SimpleRecord(b"", b""), names=["timestamp"], last_timestamp=timestamp)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [timestamp * 1000]


@pytest.mark.parametrize("timestamp", [MOST + 1, -MOST - 1, 2**63 - 1, -(2**63)])
def test_a_time_that_does_not_fit_into_microseconds_is_null_and_its_number_stays(
    timestamp: int,
) -> None:
    records = [SimpleRecord(b"", b"", 5)] * 2
    names = ["timestamp", "timestampMillis"]
    (batch,) = batches(*records, names=names, last_timestamp=timestamp)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [5000, None]
    assert batch.column(1).to_pylist() == [5, timestamp]


def test_a_batch_has_not_too_many_rows_nor_bytes() -> None:
    from kafkafs.forms.arrow.arrow_rows import MOST_BYTES, MOST_ROWS

    many = batches(*[SimpleRecord(b"", b"")] * (MOST_ROWS + 1), names=["offset"])
    assert [batch.num_rows for batch in many] == [MOST_ROWS, 1]
    large = SimpleRecord(b"", bytes(MOST_BYTES // 3))
    assert [each.num_rows for each in batches(*[large] * 7, names=["value"])] == [3, 3, 1]
    huge = SimpleRecord(b"", bytes(MOST_BYTES + 1))
    assert [each.num_rows for each in batches(huge, huge, names=["value"])] == [1, 1]
