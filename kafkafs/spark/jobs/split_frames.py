"""Frames over splits that a job has planned itself, with the rows of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from engine.budgets import MiB
from kafkafs.spark.source.rows import SplitReader
from kafkafs.spark.source.worker_process import make_ready
from kafkafs.table.splits.task_packing import largest_first, packed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkafs.spark.source.options.read_options import ReadOptions
    from kafkafs.table.splits.split import Split

_TASKS_OF_A_CORE = 4
_LEAST = 8 * MiB
_OPENING = 64 * 1024
"""Cost of opening a split, in bytes."""


def records_of(
    spark: SparkSession, splits: Sequence[Split], schema: StructType, options: ReadOptions
) -> DataFrame:
    """Return the records of some splits, the largest tasks first.

    Args:
        spark: session.
        splits: from `kafkafs.table.splits.split.plan`.
        schema: columns of view=records.
        options: options of the read, but paths, choice and bounds.
    """
    arrow = to_arrow_schema(schema, timezone="UTC")

    def read(split: Split) -> Iterator[pa.RecordBatch]:
        return SplitReader(arrow, options).read(split)

    return frame_of(spark, splits, schema, read, options.split_bytes)


def frame_of(
    spark: SparkSession,
    splits: Sequence[Split],
    schema: StructType,
    read: Callable[[Split], Iterable[pa.RecordBatch]],
    split_bytes: int,
) -> DataFrame:
    """Return the rows that `read` yields for each split; see `tasks_of` for the tasks."""
    tasks = tasks_of(splits, spark.sparkContext.defaultParallelism, split_bytes)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        make_ready()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for split in tasks[number]:
                    yield from read(split)

    return spark.range(0, len(tasks), 1, max(len(tasks), 1)).mapInArrow(run, schema)


def tasks_of(splits: Sequence[Split], cores: int, split_bytes: int) -> list[tuple[Split, ...]]:
    """Return the splits of each task, in order, the largest task first.

    A task has a cost, and writes files of its own: a few tasks for each core suffice, unless they are large.
    """
    total = sum(split.size + _OPENING for split in splits)
    most = max(_LEAST, min(total // (cores * _TASKS_OF_A_CORE), split_bytes))
    return largest_first(packed(splits, most, _OPENING))


@contextmanager
def settings(spark: SparkSession, **wanted: str) -> Iterator[None]:
    """Set properties of Spark SQL in a block; "__" in a name stands for a dot."""
    named = {name.replace("__", "."): value for name, value in wanted.items()}
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in named}
    try:
        for name, value in named.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
