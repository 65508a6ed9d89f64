"""`format("kafkalog")` beside a broker with `format("kafka")`, and beside what Spark itself takes for the rows.

The peer is spark-sql-kafka-0-10 4.2.0 on the 4.3 engine: nobody published a connector for it. Its CPU time is the
JVM's and the broker's; ours is the JVM's and that of its Python workers.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bench_broker
import bench_spark_floor
from bench_broker import KEY_SIZE, PARTITIONS, TOPICS, Topic
from bench_jvm import process_cpu
from bench_report import Report, Row, Sample, median_cpu
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame, SparkSession

from kafkafs.spark import read
from kafkafs.spark.session import session
from tests.kafka import jars
from tests.kafka.broker import Broker

TICKS = os.sysconf("SC_CLK_TCK")
WARM = 2
"""Rounds before those that count."""


def run(report: Report, megabytes: int) -> None:
    """All rows, counting, and CPU per row over Spark's own floor."""
    with bench_broker.started(megabytes) as broker, _session() as spark:
        bench_broker.fill(broker, megabytes)
        java = int(spark.sparkContext._gateway.proc.pid)
        for topic in TOPICS:
            _compare(report, spark, broker, topic, topic.per_megabyte * megabytes, java)


def _compare(
    report: Report, spark: SparkSession, broker: Broker, topic: Topic, rows: int, java: int
) -> None:
    def ours(columns: list[str] | None = None) -> DataFrame:
        return read(spark, str(broker.log_dir), topics=topic.name, columns=columns)

    def peer() -> DataFrame:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
        return reader.option("subscribe", topic.name).load()

    def measured(action: Callable[[], object]) -> Callable[[], Sample]:
        return lambda: _measured(action, java, broker.pid)

    report.compare(
        *("spark", f"{topic.name}, all columns", rows / 1000, "krow/s"),
        measured(lambda: _drain(ours())),
        measured(lambda: _drain(peer())),
        target="wall 2",
        warm=WARM,
    )
    report.compare(
        *("spark", f"{topic.name}, count()", rows / 1000, "krow/s"),
        measured(lambda: _counted(ours([]), rows)),
        measured(lambda: _counted(peer(), rows)),
        target="wall 10",
        warm=WARM,
    )
    options = {"rows": str(rows // PARTITIONS), "value": str(topic.value), "key": str(KEY_SIZE)}
    floor = measured(
        lambda: _drain(spark.read.format("floor").options(tasks=PARTITIONS, **options).load())
    )
    _cpu_row(report, topic.name, rows, measured(lambda: _drain(ours())), floor)


def _cpu_row(
    report: Report, name: str, rows: int, ours: Callable[[], Sample], floor: Callable[[], Sample]
) -> None:
    """Microseconds of CPU per row, beside prebuilt batches of the same schema, in turns: the JVM goes on learning."""
    samples: dict[str, list[Sample]] = {"ours": [], "floor": []}
    for turn in range(WARM + report.rounds):
        for side, measure in (("ours", ours), ("floor", floor)):
            sample = measure()
            if turn >= WARM:
                samples[side].append(sample)
    mine, least = (median_cpu(samples[side]) / rows * 1e6 for side in ("ours", "floor"))
    report.add(
        Row(
            *("spark", f"{name}, CPU per row", "us", mine, least),
            target="floor + 0.4 us",
            note=f"{mine - least:+.2f} us over Spark's floor, the peer here",
            samples=samples,
        )
    )


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _counted(frame: DataFrame, rows: int) -> None:
    found = frame.count()
    if found != rows:
        raise RuntimeError(f"{found} rows where {rows} were written")


@contextlib.contextmanager
def _session() -> Iterator[SparkSession]:
    """Two tasks at a time, in the JVM's usual mode: it runs long enough to be compiled well."""
    settings = {
        "spark.jars": ",".join(map(str, jars.connector_jars())),
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = session("bench", master="local[2]", settings=settings)
    register_pickle_by_value(bench_spark_floor)
    spark.dataSource.register(bench_spark_floor.FloorDataSource)
    try:
        yield spark
    finally:
        spark.stop()


def _measured(action: Callable[[], object], java: int, broker: int) -> Sample:
    cpu, start = tree_cpu(java) + process_cpu(broker), time.perf_counter()
    action()
    wall = time.perf_counter() - start
    return Sample(wall, max(tree_cpu(java) + process_cpu(broker) - cpu, 1e-9))


def tree_cpu(pid: int) -> float:
    """Seconds of CPU of a process, its children, and those that are gone."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
                ticks[int(entry)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        total += ticks.get(each, 0)
        waiting += children.get(each, ())
    return total / TICKS
