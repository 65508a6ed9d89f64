"""A split's rows are what a consumer saw; holes are rows, or failures, as was asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CorruptRecordError
from engine.log.log_directory import open_source
from kafkafs.records.conditions.wanted_keys import TopicKeys
from kafkafs.schemas.sources.fixed_schemas import FixedSchemas
from kafkafs.spark.errors import DataLossError
from kafkafs.spark.source.options.read_options import parse_options
from kafkafs.spark.source.planning.offset_ranges import resolve_batch
from kafkafs.table.splits.split import Split, plan
from tests.fixtures_data import log_dir, truth_partitions, truth_records
from tests.spark_rows import expected, seen

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()),
        ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")), ("timestampType", pa.int32()),
        ("headers", HEADERS), ("_corrupt", pa.string()),
    ]
)  # fmt: skip
CASES = [
    (kind, partition) for kind in ("current", "legacy") for partition in truth_partitions(kind)
]


def splits_of(folder: Path, **options: str) -> Iterator[Split]:
    given = parse_options({"path": str(folder)} | options)
    log = next(iter(open_source(str(folder)).partitions().values()))
    view = log.view()
    for wanted in resolve_batch({log.topic_partition: view}, given):
        yield from plan(view, wanted, given.split_bytes)


def rows_of(folder: Path, schema: Any = SCHEMA, **options: str) -> list[dict[str, Any]]:
    from kafkafs.spark.source.rows import SplitReader

    given = parse_options({"path": str(folder)} | options)
    keys = None if given.key is None else TopicKeys([given.key], FixedSchemas(None))
    reader = SplitReader(schema, replace(given, keys=keys))
    found = []
    for split in splits_of(folder, **options):
        for batch in reader.read(split):
            assert batch.schema == schema
            found += batch.to_pylist()
    return found


@pytest.mark.parametrize(("kind", "partition"), CASES)
@pytest.mark.parametrize("committed", [False, True])
def test_rows_are_what_a_consumer_saw(kind: str, partition: str, committed: bool) -> None:
    level = "read_committed" if committed else "read_uncommitted"
    rows = rows_of(log_dir(kind) / partition, splitBytes="20k", isolationLevel=level)
    topic, _, number = partition.rpartition("-")
    assert {(row["topic"], row["partition"]) for row in rows} <= {(topic, int(number))}
    assert [seen(row) for row in rows] == [
        expected(each) for each in truth_records(kind, partition, committed)
    ]


def test_no_headers_are_null_and_null_values_stay_null() -> None:
    rows = rows_of(log_dir("current") / "weird-0")
    assert {row["headers"] is None for row in rows} == {True, False}
    assert {row["value"] is None for row in rows} == {True, False}
    assert {row["value"] == b"" for row in rows} == {True, False}


@pytest.mark.parametrize("names", [["offset"], ["value", "offset"], ["timestamp"], []])
def test_only_the_columns_that_are_asked_for_are_built(names: list[str]) -> None:
    folder = log_dir("current") / "orders-0"
    schema = pa.schema([SCHEMA.field(name) for name in names])
    whole = [{name: row[name] for name in names} for row in rows_of(folder)]
    assert rows_of(folder, schema) == whole


def test_a_range_of_offsets_gives_its_records_and_no_neighbours() -> None:
    rows = rows_of(
        log_dir("current") / "orders-0",
        startingOffsets='{"orders":{"0":30}}',
        endingOffsets='{"orders":{"0":41}}',
    )
    assert [row["offset"] for row in rows] == list(range(30, 41))


def test_rows_of_a_key_or_of_a_pattern_of_keys() -> None:
    folder = log_dir("current") / "orders-0"
    whole = rows_of(folder)
    key = whole[5]["key"]
    assert rows_of(folder, keyEquals=key.decode()) == [row for row in whole if row["key"] == key]
    some = [row for row in whole if row["key"] and b"k34" in row["key"]]
    assert rows_of(folder, keyPattern="k3[4]") == some
    assert 0 < len(some) < len(whole)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A copy of a partition with a bit flipped in the third batch of its first segment."""
    folder = tmp_path / "orders-0"
    shutil.copytree(log_dir("current") / "orders-0", folder)
    log = min(folder.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[4000] ^= 1
    log.chmod(0o644)
    log.write_bytes(data)
    return folder


@pytest.mark.parametrize("size", ["1k", "64m"])
def test_a_damaged_place_is_one_row_among_all_good_ones(damaged: Path, size: str) -> None:
    rows = rows_of(damaged, onCorrupt="row", splitBytes=size)
    (hole,) = [row for row in rows if row["_corrupt"]]
    facts = json.loads(hole["_corrupt"])
    lost = range(facts["firstOffset"], facts["lastOffset"] + 1)
    assert hole["offset"] == lost[0]
    good = [row["offset"] for row in rows if not row["_corrupt"]]
    whole = [each.offset for each in truth_records("current", "orders-0")]
    assert good == [offset for offset in whole if offset not in lost]
    assert 1 <= len(lost) < 50


def test_a_damaged_place_can_be_skipped(damaged: Path) -> None:
    rows = rows_of(damaged, onCorrupt="skip")
    assert rows == [row for row in rows_of(damaged, onCorrupt="row") if not row["_corrupt"]]


def test_a_damaged_place_fails_the_task_by_default_and_says_where(damaged: Path) -> None:
    with pytest.raises(CorruptRecordError, match=r"onCorrupt=skip or row") as failed:
        rows_of(damaged)
    assert failed.value.position == 3904


def test_a_segment_that_was_replaced_is_read_by_offsets(tmp_path: Path) -> None:
    from kafkafs.spark.source.rows import SplitReader

    folder = tmp_path / "orders-0"
    shutil.copytree(log_dir("current") / "orders-0", folder)
    splits = list(splits_of(folder, splitBytes="10k"))
    reader = SplitReader(SCHEMA, parse_options({"path": str(folder)}))
    before = [
        [row["offset"] for b in reader.read(split) for row in b.to_pylist()] for split in splits
    ]
    for log in folder.glob("*.log"):
        data = log.read_bytes()
        log.unlink()
        log.write_bytes(data)
    after = [
        [row["offset"] for b in reader.read(split) for row in b.to_pylist()] for split in splits
    ]
    assert after == before
    assert len(splits) > 5


@pytest.mark.parametrize("lenient", [False, True])
def test_a_segment_that_is_gone_is_a_loss(tmp_path: Path, lenient: bool) -> None:
    from kafkafs.spark.source.rows import SplitReader

    folder = tmp_path / "orders-0"
    shutil.copytree(log_dir("current") / "orders-0", folder)
    options = parse_options({"path": str(folder), "failOnDataLoss": str(not lenient).lower()})
    (first, *_) = splits_of(folder)
    shutil.rmtree(folder)
    (tmp_path / "payments-0").mkdir()  # the log dir is still there, and seen
    reader = SplitReader(SCHEMA, options)
    if lenient:
        assert list(reader.read(first)) == []
    else:
        with pytest.raises(DataLossError, match="COULD_NOT_READ_OFFSET_RANGE"):
            list(reader.read(first))
