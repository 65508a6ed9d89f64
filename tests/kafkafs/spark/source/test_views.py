# ruff: noqa: E402
"""Rows of batches and segments say what DumpLogSegments says; counting from headers counts every record."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine import kernel
from engine.errors import CorruptRecordError
from tests.fixtures_data import dump_text, log_dir, truth_partitions, truth_records

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.sql.conversion import ArrowBatchTransformer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from kafkafs.spark.data_source import KafkaLogReader
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.columns import VIEWS, schema_of
from kafkafs.spark.source.options.read_options import parse_options
from kafkafs.spark.source.planning.batch_plan import plan_batch
from kafkafs.spark.source.rows import SplitReader
from kafkafs.spark.source.schemas import with_schemas

CASES = [
    (kind, partition)
    for kind in ("current", "live", "legacy")
    for partition in truth_partitions(kind)
    if not partition.endswith("-delete")
]
DUMPED = [(kind, partition) for kind, partition in CASES if dump_text(kind, partition)]
LEVELS = pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])


@pytest.fixture(autouse=True)
def pyspark_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task changes in its worker's PySpark is not to last in this process."""
    found = ArrowBatchTransformer
    monkeypatch.setattr(found, "wrap_struct", staticmethod(found.wrap_struct))


def read(folder: Path, columns: list[str] | None = None, **options: str) -> Iterator[Any]:
    """Record batches of a query, made without Spark."""
    given = parse_options({"path": str(folder)} | options)
    schema = schema_of(given)
    if columns is not None:
        known = VIEWS[given.view]
        schema = StructType([StructField(name, known[name]) for name in columns])
    reader = KafkaLogReader(schema, with_schemas(given, schema))
    for partition in reader.partitions():
        for batch in reader.read(partition):
            assert batch.schema == to_arrow_schema(schema, timezone="UTC")
            yield batch


def rows_of(folder: Path, **options: str) -> list[dict[str, Any]]:
    rows = [row for batch in read(folder, **options) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["segment"], row.get("position")))


def count(folder: Path, **options: str) -> int:
    return sum(batch.num_rows for batch in read(folder, [], **options))


# -- batches


def milliseconds(moment: Any) -> int:
    return -1 if moment is None else round(moment.timestamp() * 1000)


def fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+): (\S+)", line))


def dumped(kind: str, partition: str) -> list[dict[str, str]]:
    """DumpLogSegments' lines of batches, each with its segment."""
    found, segment = [], ""
    for line in (dump_text(kind, partition) or "").splitlines():
        if line.startswith("Dumping "):
            segment = str(int(re.findall(r"(\d+)\.log", line)[0]))
        elif line.startswith(("baseOffset:", "offset:")):
            found.append(fields(line) | {"segment": segment})
    return found


KINDS = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def as_dumped(row: dict[str, Any]) -> dict[str, str]:
    """A row in DumpLogSegments' words."""
    shared = {
        "segment": row["segment"],
        "position": row["position"],
        KINDS[row["timestampType"]]: milliseconds(row["maxTimestamp"]),
        "size": row["size"],
        "magic": row["magic"],
        "compresscodec": row["codec"],
        "crc": row["crc"],
        "isvalid": "true",
    }
    if row["magic"] < 2:
        shared |= {"offset": row["lastOffset"]}
    else:
        horizon = row["deleteHorizon"]
        shared |= {
            "baseOffset": row["baseOffset"],
            "lastOffset": row["lastOffset"],
            "count": row["records"],
            "baseSequence": row["baseSequence"],
            "producerId": row["producerId"],
            "producerEpoch": row["producerEpoch"],
            "partitionLeaderEpoch": row["leaderEpoch"],
            "isTransactional": str(row["isTransactional"]).lower(),
            "isControl": str(row["isControl"]).lower(),
            "deleteHorizonMs": f"OptionalLong[{milliseconds(horizon)}]"
            if horizon
            else "OptionalLong.empty",
        }
    return {name: str(value) for name, value in shared.items()}


@pytest.mark.parametrize(("kind", "partition"), DUMPED)
@pytest.mark.parametrize("size", ["5k", "64m"])
def test_a_batchs_row_is_its_line_of_the_dump(kind: str, partition: str, size: str) -> None:
    rows = rows_of(log_dir(kind) / partition, view="batches", splitBytes=size)
    first = rows[0]["lastOffset"]
    lines = [line for line in dumped(kind, partition) if int(_last(line)) >= first]
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines, strict=True):
        found = as_dumped(row)
        line["compresscodec"] = line["compresscodec"].lower()  # Kafka 2.8 writes capitals
        assert found.keys() - line.keys() <= {"deleteHorizonMs"}  # and no horizon
        assert {name: found[name] for name in found if name in line} == {
            name: line[name] for name in found if name in line
        }


def _last(line: dict[str, str]) -> str:
    return line.get("lastOffset") or line["offset"]


@pytest.mark.parametrize(("kind", "partition"), CASES)
@LEVELS
def test_the_records_of_the_batches_are_those_a_consumer_saw(
    kind: str, partition: str, level: str
) -> None:
    records = truth_records(kind, partition, level == "read_committed")
    folder = log_dir(kind) / partition
    rows = [
        row for row in rows_of(folder, view="batches", isolationLevel=level) if not row["isControl"]
    ]
    if level == "read_committed":
        assert {row["transaction"] for row in rows} <= {None, "committed"}
    offsets = [record.offset for record in records]
    for row in rows:
        inside = [each for each in offsets if row["baseOffset"] <= each <= row["lastOffset"]]
        assert len(inside) == row["records"] or row["baseOffset"] < offsets[0]
        if row["magic"] < 2:
            assert (inside[0], inside[-1]) == (row["baseOffset"], row["lastOffset"])
    covered = {each for row in rows for each in range(row["baseOffset"], row["lastOffset"] + 1)}
    assert covered >= set(offsets)


@pytest.mark.parametrize("partition", ["orders-0", "compacted-0", "txn-0"])
@pytest.mark.parametrize("most", ["20", "100"])
def test_a_batch_across_the_border_of_two_tasks_comes_once(partition: str, most: str) -> None:
    folder = log_dir("current") / partition
    whole = rows_of(folder, view="batches")
    assert rows_of(folder, view="batches", maxRecordsPerPartition=most) == whole
    assert len(whole) > 5


def test_batches_of_a_range_are_those_that_hold_some_of_it() -> None:
    folder = log_dir("current") / "orders-0"
    options = {
        "startingOffsets": '{"orders":{"0":30}}',
        "endingOffsets": '{"orders":{"0":41}}',
    }
    rows = rows_of(folder, view="batches", **options)
    assert [(row["baseOffset"], row["lastOffset"]) for row in rows] == [(25, 36), (37, 49)]
    pieces = rows_of(folder, view="batches", maxRecordsPerPartition="2", **options)
    assert pieces == rows


def test_wrappers_of_old_messages_are_counted_by_what_they_hold() -> None:
    for partition in ("v0-gzip-0", "v1-lz4-0", "v1-recoded-lz4-0", "v0-snappy-0"):
        rows = rows_of(log_dir("legacy") / partition, view="batches")
        assert {row["codec"] for row in rows} != {"none"}
        assert sum(row["records"] for row in rows) == len(truth_records("legacy", partition))
        assert rows[0]["baseOffset"] == 0
        assert all(later["baseOffset"] == row["lastOffset"] + 1 for row, later in pairwise(rows))


# -- segments


@pytest.mark.parametrize(("kind", "partition"), CASES)
def test_a_segments_row_sums_up_its_batches(kind: str, partition: str) -> None:
    folder = log_dir(kind) / partition
    rows = rows_of(folder, view="segments")
    batches = rows_of(folder, view="batches")
    for row in rows:
        own = [batch for batch in batches if batch["segment"] == row["segment"]]
        data = [batch for batch in own if not batch["isControl"]]
        assert row["size"] == Path(row["file"]).stat().st_size
        assert (row["damagedBytes"], row["damagedPlaces"]) == (0, 0)
        assert row["lastOffset"] == own[-1]["lastOffset"]
        largest = [each["maxTimestamp"] for each in data if each["maxTimestamp"]]
        assert row["maxTimestamp"] == max(largest, default=None)
        if own[0]["position"] == 0:  # all of it is above the log start
            assert row["batches"] == len(own)
            assert row["controlBatches"] == len(own) - len(data)
            assert row["records"] == sum(batch["records"] for batch in data)
            assert row["firstOffset"] == own[0]["baseOffset"]
            smallest = [each["baseTimestamp"] for each in data if each["baseTimestamp"]]
            assert row["minTimestamp"] == min(smallest, default=None)
    assert {row["segment"] for row in rows} == {batch["segment"] for batch in batches}


def test_segments_of_a_range_are_told_of_whole() -> None:
    folder = log_dir("current") / "orders-0"
    whole = rows_of(folder, view="segments")
    ends = f'{{"orders":{{"0":{whole[1]["firstOffset"] + 1}}}}}'
    some = rows_of(
        folder, view="segments", endingOffsets=ends, startingOffsets='{"orders":{"0":90}}'
    )
    assert some == whole[:2]
    assert len(whole) > 2


# -- counting


@pytest.mark.parametrize(("kind", "partition"), CASES)
@LEVELS
def test_no_columns_count_every_record(kind: str, partition: str, level: str) -> None:
    records = truth_records(kind, partition, level == "read_committed")
    folder = log_dir(kind) / partition
    assert count(folder, isolationLevel=level) == len(records)
    topic, _, number = partition.rpartition("-")
    if len(records) > 20:
        low, high = records[len(records) // 5].offset, records[-5].offset
        bounds = {
            f"{side}Offsets": json.dumps({topic: {number: offset}})
            for side, offset in (("starting", low), ("ending", high))
        }
        wanted = sum(low <= record.offset < high for record in records)
        assert count(folder, isolationLevel=level, splitBytes="3k", **bounds) == wanted


@pytest.mark.parametrize("partition", ["orders-0", "codec-zstd-0", "compacted-0", "txn-0"])
def test_counting_decodes_only_the_batches_that_a_bound_goes_through(
    monkeypatch: pytest.MonkeyPatch, partition: str
) -> None:
    decoded: list[int] = []
    decode = kernel.decode

    def counting(buffer: Any, table: Any, first: int, last: int, **options: Any) -> Any:
        decoded.append(int(table["position"][first]))
        return decode(buffer, table, first, last, **options)

    folder = log_dir("current") / partition
    topic = partition.rpartition("-")[0]
    given = parse_options({"path": str(folder)})
    splits = plan_batch(given)
    monkeypatch.setattr(kernel, "decode", counting)
    reader = SplitReader(pa.schema([]), given)
    rows = sum(batch.num_rows for split in splits for batch in reader.read(split))
    records = truth_records("current", partition)
    assert rows == len(records)
    assert decoded == []
    low, high = records[40].offset, records[-40].offset
    count(
        folder,
        startingOffsets=json.dumps({topic: {"0": low}}),
        endingOffsets=json.dumps({topic: {"0": high}}),
    )
    assert len(decoded) <= 2


def test_counting_a_key_looks_at_keys() -> None:
    folder = log_dir("current") / "orders-0"
    key = truth_records("current", "orders-0")[5].key
    assert key is not None
    wanted = sum(record.key == key for record in truth_records("current", "orders-0"))
    assert count(folder, keyEquals=key.decode()) == wanted > 0


# -- damage


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A copy of a partition with a bit flipped in the third batch of its first segment, at 3904."""
    folder = tmp_path / "orders-0"
    shutil.copytree(log_dir("current") / "orders-0", folder)
    log = min(folder.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[4000] ^= 1
    log.write_bytes(data)
    return folder


@pytest.mark.parametrize("size", ["9k", "64m"])
def test_a_damaged_batch_is_a_row_of_its_own(damaged: Path, size: str) -> None:
    rows = rows_of(damaged, view="batches", onCorrupt="row", splitBytes=size)
    whole = rows_of(log_dir("current") / "orders-0", view="batches")
    (hole,) = [row for row in rows if row["_corrupt"]]
    known = {name: hole[name] for name in ("position", "size", "baseOffset", "lastOffset")}
    assert known == {name: whole[2][name] for name in known}
    assert json.loads(hole["_corrupt"])["kind"] == "crc_mismatch"
    assert len(rows) == len(whole)
    skipped = rows_of(damaged, view="batches", onCorrupt="skip", splitBytes=size)
    assert skipped == [row for row in whole if row["position"] != 3904 or row["segment"]]


@pytest.mark.parametrize("view", ["batches", "segments", "records"])
def test_damage_fails_by_default_in_every_view(damaged: Path, view: str) -> None:
    with pytest.raises(CorruptRecordError, match=r"onCorrupt=skip or row") as failed:
        list(read(damaged, view=view))
    assert failed.value.position == 3904


@pytest.mark.parametrize("how", ["skip", "row"])
def test_damage_in_a_segment_is_counted(damaged: Path, how: str) -> None:
    row, *others = rows_of(damaged, view="segments", onCorrupt=how)
    whole, *rest = rows_of(log_dir("current") / "orders-0", view="segments")
    batch = rows_of(log_dir("current") / "orders-0", view="batches")[2]
    assert row["damagedBytes"] == batch["size"]
    assert row["damagedPlaces"] == 1
    assert row["size"] == whole["size"]
    assert row["records"] == whole["records"] - batch["records"]
    assert [dict(each, file="") for each in others] == [dict(each, file="") for each in rest]


def test_counting_counts_a_hole_where_it_is_a_row(damaged: Path) -> None:
    lost = rows_of(log_dir("current") / "orders-0", view="batches")[2]["records"]
    assert count(damaged, onCorrupt="skip") == 1000 - lost
    assert count(damaged, onCorrupt="row") == 1000 - lost + 1


# -- options


@pytest.mark.parametrize("view", ["batches", "segments"])
@pytest.mark.parametrize(
    "option",
    [
        {"keyEquals": "a"},
        {"keyPattern": "a"},
        {"decode": "true"},
        {"schemas": "x"},
        {"includeHeaders": "1"},
    ],
)
def test_what_is_about_records_is_refused_in_other_views(view: str, option: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="is for view='records'"):
        parse_options({"path": "/x", "view": view} | option)


def test_a_schema_is_of_the_view_that_was_asked_for() -> None:
    assert (
        "_corrupt"
        in schema_of(parse_options({"path": "/x", "view": "batches", "onCorrupt": "row"})).names
    )
    assert "_corrupt" not in schema_of(parse_options({"path": "/x", "view": "batches"})).names
    assert schema_of(parse_options({"path": "/x", "view": "segments"})).names == list(
        VIEWS["segments"]
    )
