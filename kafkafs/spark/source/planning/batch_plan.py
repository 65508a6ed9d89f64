"""Plan of a batch query: the splits of the chosen partitions, and the splits of each task."""

from __future__ import annotations

from dataclasses import replace

from engine.budgets import MiB
from kafkafs.spark.source.options.partition_choice import choose
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.options.source_paths import open_paths
from kafkafs.spark.source.planning.offset_ranges import resolve_batch
from kafkafs.spark.source.planning.task_ranges import split_ranges
from kafkafs.table.splits.log_dir_owners import owners_by_root
from kafkafs.table.splits.split import Split, plan, plan_segments
from kafkafs.table.splits.task_packing import packed

SMALL_TASK = 8 * MiB
"""Bytes below which starting a task costs Spark more than reading."""
COUNTED_BYTES = 256 * MiB
"""Split size when records are only counted, which takes a tenth of the time."""
FEW_TASKS = 200
"""Number of tasks above which tasks get larger."""
_OPENING = 1 * MiB
"""Cost of opening a split, in bytes."""


def for_counting(options: ReadOptions) -> ReadOptions:
    """Return the options of a query without columns: larger splits, unless splitBytes was set."""
    return options if options.says_split_bytes else replace(options, split_bytes=COUNTED_BYTES)


def plan_batch(options: ReadOptions) -> list[Split]:
    """Return the splits of a batch query, sorted by partition and offset.

    Raises:
        OptionError, DataLossError, SourceError: see `resolve_batch`, `choose` and `open_paths`.
    """
    source = open_paths(options.paths, options.at)
    try:
        logs = choose(source.partitions(), options.choice, internal=options.internal)
        views = {partition: log.view() for partition, log in logs.items()}
        ranges = resolve_batch(views, options)
        owners = owners_by_root(source)
        owner_of = {partition: owners[log.root] for partition, log in logs.items()}
        if options.view == "segments":
            return [
                split
                for wanted in ranges
                for split in plan_segments(
                    views[wanted.partition], wanted, owner_of[wanted.partition]
                )
            ]
        return [
            split
            for wanted in split_ranges(ranges, options)
            for split in plan(
                views[wanted.partition], wanted, options.split_bytes, owner_of[wanted.partition]
            )
        ]
    finally:
        source.close()


def tasks_of(splits: list[Split], options: ReadOptions) -> list[tuple[Split, ...]]:
    """Return the splits of each task, in order; a task takes several small splits.

    Rows are in the order of the tasks: `show`, `head` and `limit` take the first rows of the first partition, `tail` the
    last rows of the last.

    Args:
        splits: splits sorted by partition and offset.
        options: with `minPartitions` or `maxRecordsPerPartition` each split has its own task.
    """
    is_said = options.min_partitions is not None or options.max_records_per_partition is not None
    if is_said:
        return [(split,) for split in splits]
    total = sum(split.size + _OPENING for split in splits)
    share = min(max(total // FEW_TASKS, SMALL_TASK), options.split_bytes)
    return packed(splits, share, _OPENING)
