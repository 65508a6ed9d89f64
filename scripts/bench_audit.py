"""`kafkafs check --spark` of a volume beside the same checks without Spark: `kafkafs check` with a thread for each core.

A volume here is a log dir of several partitions, which are one data set's files under other names; Spark's start is
not counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import bench_data
from bench_report import Report, Sample
from bench_spark import tree_cpu

from engine.check.log_dir_check import CheckOptions, SourceCheck
from engine.log.log_directory import open_source
from kafkafs.spark.checking import checked
from kafkafs.spark.executors import Executors
from kafkafs.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETS = ("plain-100b", "zstd-16k", "plain-1kb")
PARTITIONS = 8


def run(report: Report, megabytes: int) -> None:
    """Each data set as a volume."""
    cores = min(os.cpu_count() or 1, 2)
    spark = session("bench audit", master=f"local[{cores}]")
    try:
        for name in SETS:
            volume = _volume(name, megabytes)
            size = sum(file.stat().st_size for file in volume.glob("*/*.log")) / 1e6
            report.compare(
                "audit",
                f"{name}, {PARTITIONS} partitions",
                size,
                "MB/s",
                lambda volume=volume: _measured(lambda: _checked_there(spark, volume)),
                lambda volume=volume: _measured(lambda: _checked(volume, cores)),
                target="250 MB/s",
                note=f"{cores} cores, {size:.0f} MB",
            )
    finally:
        spark.stop()


def _volume(name: str, megabytes: int) -> Path:
    """A log dir whose partitions are links to one partition's files."""
    source = bench_data.partition(name, megabytes)
    volume = bench_data.cache() / f"audit-{megabytes}-{name}"
    for number in range(PARTITIONS):
        folder = volume / f"{name}-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for file in source.iterdir():
            if not (folder / file.name).exists():
                os.link(file, folder / file.name)
    return volume


def _checked_there(spark: SparkSession, volume: Path) -> None:
    source = open_source(str(volume))
    executors = Executors(spark, "check", source, [str(volume)])
    for _ in SourceCheck(source, CheckOptions(elsewhere=partial(checked, executors))).run():
        pass


def _checked(volume: Path, cores: int) -> None:
    for _ in SourceCheck(open_source(str(volume)), CheckOptions(jobs=cores)).run():
        pass


def _measured(action: Callable[[], object]) -> Sample:
    """With the CPU time of the JVM and its workers."""
    cpu, start = tree_cpu(os.getpid()), time.perf_counter()
    action()
    wall = time.perf_counter() - start
    return Sample(wall, max(tree_cpu(os.getpid()) - cpu, 1e-9))
