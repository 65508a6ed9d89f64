"""`kafkafs.spark.write`: sort a frame and write it as a log dir."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkafs.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OptionValue = str | int | bool
_POSITION = "__kafkafs_position"
_POSITIVE = 0x7FFFFFFF


def write(
    frame: DataFrame,
    path: str,
    *,
    topic: str | None = None,
    partitions: int | Mapping[str, int] | None = None,
    order_by: str | Sequence[str] | None = None,
    tasks: int | None = None,
    **options: OptionValue,
) -> None:
    """Write a frame as a new log dir that a broker loads; the log dir is complete or absent.

    Rows go to the task of their partition and are sorted there: by `offset`, which they keep, or, without that
    column, by `order_by`, with new offsets from 0.

    Args:
        frame: rows with `value`, and any of `key`, `headers`, `topic`, `partition`, `offset`, `timestamp`,
            `timestampType`, `leaderEpoch`, `codec`; the types are those of the source.
        path: log dir to make, empty or absent, on a file system that driver and executors see at this path.
        topic: topic of all rows, in place of a column.
        partitions: number of partitions of a topic, for rows without a partition: the murmur2 of the key chooses.
        order_by: columns; by default `timestamp`. Rows with equal values keep their order.
        tasks: number of writing tasks; a partition with kept offsets is divided among them. By default a partition
            has one task, and there are as many tasks as Spark's shuffles have.
        options: other options of the sink, by name: codec, batchBytes, segmentBytes, topicIds, …

    Raises:
        OptionError: an argument is not valid; nothing was written.
        PySparkException: a task or the commit failed; nothing was written.
    """
    from kafkafs.spark.data_source import KafkaLogDataSource
    from kafkafs.spark.sink.frame_columns import check_frame
    from kafkafs.spark.sink.job_folder import refuse_target
    from kafkafs.spark.sink.write_options import parse_write_options

    given: dict[str, OptionValue] = {"path": path, **options}
    if topic is not None:
        given["topic"] = topic
    if partitions is not None:
        given["numPartitions"] = (
            partitions if isinstance(partitions, int) else json.dumps(dict(partitions))
        )
    checked = parse_write_options({name: _text(value) for name, value in given.items()})
    named = _ordering(order_by)
    missing = [name for name in named if name not in frame.columns]
    if missing:
        raise OptionError(f"there is no column {missing[0]!r} to order by")
    kept = [name for name in frame.columns if name not in named or name in _known()]
    columns = check_frame(frame.select(*kept).schema, checked)
    if columns.keeps_offsets and named:
        raise OptionError("order_by orders rows that get new offsets: drop the column offset")
    refuse_target(checked.path)
    frame.sparkSession.dataSource.register(KafkaLogDataSource)
    frame = frame if "topic" not in kept or topic is None else frame.drop("topic")
    kept = [name for name in kept if name in frame.columns]
    if columns.keeps_offsets:
        ordered = _by_offset(frame, tasks)
    else:
        ordered = _by_time(_with_partition(frame, topic, checked.partition_counts), named, tasks)
        kept = [*(name for name in kept if name not in ("offset", "partition")), "partition"]
    writer = ordered.select(*kept).write.format("kafkalog").mode("append")
    writer.options(**{name: _text(value) for name, value in given.items()}).save()


def _text(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ordering(order_by: str | Sequence[str] | None) -> list[str]:
    if order_by is None:
        return []
    return [order_by] if isinstance(order_by, str) else list(order_by)


def _known() -> frozenset[str]:
    from kafkafs.spark.source.columns import RECORDS

    return frozenset(RECORDS)


def _place_columns(frame: DataFrame) -> list[str]:
    return [name for name in ("topic", "partition") if name in frame.columns]


def _by_offset(frame: DataFrame, tasks: int | None) -> DataFrame:
    place = _place_columns(frame)
    if tasks is None:
        divided = frame.repartition(*place)
    else:
        divided = frame.repartitionByRange(tasks, *place, "offset")
    return divided.sortWithinPartitions(*place, "offset")


def _by_time(frame: DataFrame, named: list[str], tasks: int | None) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    place = _place_columns(frame)
    order = named or [name for name in ("timestamp",) if name in frame.columns]
    frame = frame.withColumn(_POSITION, F.monotonically_increasing_id())
    divided = frame.repartition(*place) if tasks is None else frame.repartition(tasks, *place)
    return divided.sortWithinPartitions(*place, *order, _POSITION)


def _with_partition(frame: DataFrame, topic: str | None, counts: Mapping[str, int]) -> DataFrame:
    """Return the frame with the partition of each row, as the sink chooses it."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    if "partition" in frame.columns and not counts:
        return frame
    key = F.col("key") if "key" in frame.columns else F.lit(None)
    name = F.col("topic") if topic is None else F.lit(topic)
    count: Column = F.lit(counts.get(""))
    for each, number in counts.items():
        if each:
            count = F.when(name == each, F.lit(number)).otherwise(count)
    unknown = F.raise_error(
        F.concat(
            F.lit("null partition present in the data: the option numPartitions says how many "),
            F.coalesce(name, F.lit("null")),
            F.lit(" has"),
        )
    ).cast("int")
    key, value = key.cast("binary"), F.coalesce(F.col("value").cast("binary"), F.lit(b""))
    hashed = F.when(key.isNull(), F.crc32(value)).otherwise(_murmur2()(key))
    chosen = (hashed.bitwiseAND(F.lit(_POSITIVE)) % count).cast("int")
    chosen = F.when(count.isNull(), unknown).otherwise(chosen)
    if "partition" in frame.columns:
        chosen = F.coalesce(F.col("partition"), chosen)
    return frame.withColumn("partition", chosen)


def _murmur2() -> Any:  # noqa: ANN401 - PySpark's own type is not one
    from pyspark.sql.pandas.functions import arrow_udf

    from kafkafs.spark.sink.partitioner import positive_murmur2

    make: Any = arrow_udf
    return make(positive_murmur2, "bigint")
