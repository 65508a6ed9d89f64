"""Spark's source says what the other faces say: its rows, and those of damage with `onCorrupt` "row"."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from kafkafs.spark import data_source
from tests.kafkafs.faces.contradictions import of_naming
from tests.kafkafs.faces.damage import (
    Damaged,
    SoundNode,
    damaged_node,
    interrupted_swap,
    log_damage,
    sound_node,
)
from tests.kafkafs.faces.naming import Said, of_errors
from tests.spark_session import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]
COLUMNS = ("topic", "partition", "offset", "_corrupt")
KINDS = (log_damage, log_damage, log_damage, interrupted_swap)
SEEDS = int(os.environ.get("KAFKAFS_FACES_SEEDS", "6"))
FIRST_SEED = int(os.environ.get("KAFKAFS_FACES_FIRST_SEED", "1"))


def _said(spark: SparkSession, node: Damaged) -> Said:
    from kafkafs.spark import read

    frame = read(spark, str(node.path), onCorrupt="row", includeInternalTopics=True)
    return _of_rows(map(tuple, frame.select(*COLUMNS).collect()), node)


def _said_by_tasks(node: Damaged) -> Said:
    """What all tasks of a frame give, without a session."""
    options = {"path": str(node.path), "includeInternalTopics": "true", "onCorrupt": "row"}
    source = data_source.KafkaLogDataSource(options)
    schema = source.schema()
    reader = source.reader(type(schema)([each for each in schema if each.name in COLUMNS]))
    rows = (
        row
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    )
    return _of_rows((tuple(row[each] for each in COLUMNS) for row in rows), node)


def _of_rows(rows: Iterable[tuple[Any, ...]], node: Damaged) -> Said:
    shown: dict[str, set[int]] = defaultdict(set)
    errors: list[dict[str, Any]] = []
    for topic, partition, offset, corrupt in rows:
        if corrupt is None:
            shown[f"{topic}-{partition}"].add(offset)
        else:
            errors.append(json.loads(corrupt))
    met = {name: shown[name] | node.controls(name) for name in node.partitions()}
    return Said(int(bool(errors)), of_errors(errors, met, node.sound.ends), node.gone, shown)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> SoundNode:
    return sound_node(tmp_path_factory.mktemp("node"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_spark_tasks_read_what_is_left_and_have_rows_for_what_is_lost(
    seed: int, sound: SoundNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_source, "make_ready", lambda: None)
    node = damaged_node(sound, tmp_path, seed, KINDS)
    assert list(of_naming(node, {"Spark": _said_by_tasks(node)})) == [], node.did


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + max(SEEDS // 100, 1)))
def test_spark_reads_what_is_left_and_has_rows_for_what_is_lost(
    seed: int, sound: SoundNode, spark: SparkSession, tmp_path: Path
) -> None:
    node = damaged_node(sound, tmp_path, seed, KINDS)
    assert list(of_naming(node, {"Spark": _said(spark, node)})) == [], node.did
