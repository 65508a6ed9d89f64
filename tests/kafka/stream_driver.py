"""A Spark driver that follows a log dir into a Parquet sink, until it is killed or has everything.

    python -m tests.kafka.stream_driver LOG_DIR HOME MOST

It starts its session, prints "ready" and waits for a word. "follow" prints the number of each micro-batch that is done,
for ever; "finish" reads what is there now and prints what the sink holds. MOST offsets are taken at a time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkafs.spark.session import session
from tests.streaming_starts import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


def start(
    spark: SparkSession, log_dir: str, home: Path, most: str, **trigger: Any
) -> StreamingQuery:
    """The query, from its checkpoint if there is one."""
    rows = (
        spark.readStream.format("kafkalog")
        .option("subscribe", "numbers,promises")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most)
        .option("kafka.isolation.level", "read_committed")
        .load(log_dir)
    )
    writer = (
        rows.selectExpr(
            "topic", "partition", "offset", "CAST(CAST(value AS STRING) AS LONG) number"
        )
        .writeStream.format("parquet")
        .option("path", str(home / "sink"))
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(**trigger)
    )
    return started(writer.start)


def held(spark: SparkSession, home: Path) -> dict[str, Any]:
    """What the sink holds: how often, and which."""
    rows = spark.read.parquet(str(home / "sink")).cache()
    rows.createOrReplaceTempView("sink")
    partitions = spark.sql(
        "SELECT topic, partition, count(*), count(DISTINCT offset), min(offset), max(offset) + 1"
        " FROM sink GROUP BY topic, partition ORDER BY topic, partition"
    )
    numbers = spark.sql(
        "SELECT count(*), count(DISTINCT number), min(number), max(number) FROM sink"
        " WHERE topic = 'numbers'"
    )
    promises = spark.sql("SELECT number FROM sink WHERE topic = 'promises' ORDER BY number")
    return {
        "partitions": [list(row) for row in partitions.collect()],
        "numbers": list(numbers.collect()[0]),
        "promises": [row[0] for row in promises.collect()],
    }


def main() -> None:
    """See the module's text."""
    log_dir, home, most = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    spark = session(
        "stream-driver",
        master="local[2]",
        quick=True,
        settings={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"},
    )
    print("ready", flush=True)
    if sys.stdin.readline().strip() == "finish":
        start(spark, log_dir, home, most, availableNow=True).awaitTermination()
        print(json.dumps(held(spark, home)), flush=True)
        return
    query, known = start(spark, log_dir, home, most, processingTime="1 second"), -1
    while query.exception() is None:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > known and progress["numInputRows"]:
            known = progress["batchId"]
            print(known, flush=True)
        time.sleep(0.05)
    raise SystemExit(str(query.exception()))


if __name__ == "__main__":
    main()
