"""Who reads which splits, and settings that are only for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.budgets import MiB
from engine.units import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from kafkafs.spark.jobs.split_frames import settings, tasks_of
from kafkafs.table.splits.split import Split


def split_of(number: int, size: int) -> Split:
    return Split(
        source=f"/logs/t-{number}", path=f"/logs/t-{number}/0.log", partition=TopicPartition("t", number),
        segment=0, identity=(1, number),
        position=0, end_position=size, next_offset=0, start=0, stop=10, part_start=0, part_stop=10,
        file_size=size,
    )  # fmt: skip


def test_small_splits_share_a_task_in_their_order() -> None:
    splits = [split_of(number, 1000) for number in range(50)]
    assert tasks_of(splits, 2, 64 * MiB) == [tuple(splits)]


def test_large_ones_have_their_own_and_come_first() -> None:
    sizes = [MiB, 64 * MiB, MiB, 60 * MiB, 64 * MiB]
    splits = [split_of(number, size) for number, size in enumerate(sizes)]
    tasks = tasks_of(splits, 1, 64 * MiB)
    assert [[split.size // MiB for split in task] for task in tasks] == [[64], [64], [60], [1], [1]]
    assert {split for task in tasks for split in task} == set(splits)


def test_work_is_divided_for_all_cores() -> None:
    splits = [split_of(number, 10 * MiB) for number in range(64)]
    for cores in (1, 2, 8):
        tasks = tasks_of(splits, cores, 64 * MiB)
        assert 4 * cores <= len(tasks) <= 8 * cores + 10
        assert sum(map(len, tasks)) == 64


def test_nothing_to_read_is_no_task() -> None:
    assert tasks_of([], 2, 64 * MiB) == []


def test_settings_are_as_they_were_after_an_error(spark: SparkSession) -> None:
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    during = []

    def fail() -> None:
        with settings(spark, spark__sql__session__timeZone="Asia/Tokyo"):
            during.append(spark.conf.get(name))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert during == ["Asia/Tokyo"]
    assert spark.conf.get(name) == before
