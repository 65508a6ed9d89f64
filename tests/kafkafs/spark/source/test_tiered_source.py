"""In a session: copies of tiered storage are read like the log that they were made of."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_data import log_dir, truth_records
from tests.spark_rows import by_partition, expected
from tests.tiered_folders import TieredWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

NAMES = ("orders-0", "txn-0")


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions; of one, the beginning was copied twice, by leaders that rolled at other offsets."""
    folder = tmp_path_factory.mktemp("storage")
    for name in NAMES:
        partition = log_dir("current") / name
        writer = TieredWriter(folder, name)
        writer.copy_all(partition)
    joined = tmp_path_factory.mktemp("joined") / "orders-0"
    joined.mkdir()
    shutil.copyfile(log_dir("current") / "orders-0" / f"{0:020}.log", joined / f"{0:020}.log")
    with (joined / f"{0:020}.log").open("ab") as file:
        file.write((log_dir("current") / "orders-0" / f"{395:020}.log").read_bytes()[:4000])
    (first,) = (folder / f"orders-0-{writer.topic_id}").glob(f"{0:020}-*.log")
    shutil.copyfile(joined / f"{0:020}.log", first)
    return folder


def test_rows_are_what_a_consumer_saw(spark: SparkSession, storage: Path) -> None:
    options = {"includeHeaders": "true", "splitBytes": "20000"}
    frame = spark.read.format("kafkalog").options(**options).load(str(storage))
    found = by_partition(frame.toArrow().to_pylist())
    assert found == {
        name: [expected(record) for record in truth_records("current", name)] for name in NAMES
    }


def test_segments_are_named_by_their_real_files(spark: SparkSession, storage: Path) -> None:
    frame = spark.read.format("kafkalog").option("view", "segments").load(str(storage))
    files = {row["file"] for row in frame.toArrow().to_pylist()}
    assert files == {str(path) for path in storage.glob("*/*.log")}
