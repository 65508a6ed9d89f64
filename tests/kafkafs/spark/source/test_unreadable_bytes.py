"""Sectors that a device cannot read cost the records of the batches that touch them, and no others."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from engine.errors import CorruptRecordError
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from kafkafs.spark import data_source
from tests.fixtures_data import log_dir
from tests.unreadable import sector, unreadable_bytes

Row = dict[str, Any]
SAMPLE = 3
SIZE = 512


class Batch(NamedTuple):
    """Where a batch lies, and the records in it by topic, partition and offset."""

    path: Path
    start: int
    stop: int
    records: frozenset[tuple[str, int, int]]


@pytest.fixture(autouse=True)
def tasks_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_source, "make_ready", lambda: None)


def rows(path: Path, **options: str) -> list[Row]:
    """What all tasks of a frame give."""
    given = {"path": str(path), "includeInternalTopics": "true"} | options
    source = data_source.KafkaLogDataSource(given)
    wanted = ("topic", "partition", "offset", "records", "_corrupt")
    schema = source.schema()
    schema = type(schema)([field for field in schema if field.name in wanted])
    reader = source.reader(schema)
    found: list[Row] = []
    for task in reader.partitions():
        for batch in reader.read(task):
            found += batch.to_pylist()
    return found


def records(found: list[Row]) -> set[tuple[str, int, int]]:
    """The rows that are records."""
    return {
        (row["topic"], row["partition"], row["offset"]) for row in found if not row.get("_corrupt")
    }


def batches(path: Path) -> Iterator[Batch]:
    """All batches of a log dir without damage."""
    whole = records(rows(path))
    source = open_source(str(path))
    for log in source.partitions().values():
        topic, number = log.topic_partition
        following = 0
        for segment, run in log.view().runs():
            assert isinstance(run, BatchRun)
            for row in run.table:
                # Of a compressed batch of magic 0 or 1 only the last offset is known.
                first = int(row["base_offset"]) if row["magic"] >= 2 else following
                following = int(row["last_offset"]) + 1
                held = frozenset((topic, number, offset) for offset in range(first, following))
                start = int(row["position"])
                yield Batch(path / segment.path, start, start + int(row["size"]), held & whole)
    source.close()


@pytest.mark.parametrize("kind", ["current", "legacy", "crashed"])
@pytest.mark.parametrize("split_bytes", ["4k", "64m"])
def test_records_lost_are_those_of_the_batches_that_touch_a_sector(
    kind: str, split_bytes: str
) -> None:
    found = list(batches(log_dir(kind)))
    dice = random.Random(f"{kind} {split_bytes}")
    for _ in range(SAMPLE):
        some = dice.choice(found)
        start, stop = sector(dice.randrange(some.start, some.stop), SIZE)
        near = [each for each in found if each.path == some.path]
        beside = [each for each in found if each.path.parent == some.path.parent]
        whole = frozenset().union(*(each.records for each in beside))
        touched = [each.records for each in near if each.start < stop and start < each.stop]
        folder = some.path.parent
        with unreadable_bytes({some.path: [(start, stop)]}):
            given = rows(folder, onCorrupt="row", splitBytes=split_bytes)
            skipped = rows(folder, onCorrupt="skip", splitBytes=split_bytes)
            with pytest.raises(CorruptRecordError, match="cannot be read") as told:
                rows(folder, onCorrupt="fail", splitBytes=split_bytes)
        place = some.path, start
        assert records(given) == whole - frozenset().union(*touched), place
        assert records(skipped) == records(given), place
        damage = [json.loads(row["_corrupt"]) for row in given if row["_corrupt"]]
        assert {each["kind"] for each in damage} == {"unreadable"}, place
        assert {each["file"] for each in damage} == {str(some.path)}, place
        assert str(some.path) in str(told.value)


def test_views_count_what_can_be_read() -> None:
    path = log_dir("sample") / "orders-0" / f"{395:020}.log"
    whole = sum(row["records"] for row in rows(log_dir("sample"), view="batches"))
    with unreadable_bytes({path: [sector(20_000)]}):
        found = rows(log_dir("sample"), view="batches", onCorrupt="row")
        segments = rows(log_dir("sample"), view="segments", onCorrupt="row")
        read = records(rows(log_dir("sample"), onCorrupt="skip"))
    holes = [json.loads(row["_corrupt"]) for row in found if row["_corrupt"]]
    assert {each["kind"] for each in holes} == {"unreadable"}
    control = whole - len(records(rows(log_dir("sample"))))
    count = sum(row["records"] for row in found if not row["_corrupt"])
    assert len(read) < count == len(read) + control < whole
    assert sum(row["records"] for row in segments) == len(read)
