"""Count bytes, batches, records and codecs from headers alone, and keys from records."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Window, functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructField, StructType

from engine.units import Timestamp
from kafkafs.job_summary import Table, percent, size
from kafkafs.spark.jobs.progress import JobWatch, OnProgress
from kafkafs.spark.jobs.selection import NOT_DECODING, JobSelection, OptionValue
from kafkafs.spark.jobs.split_frames import batches_of, records_of
from kafkafs.spark.reading import Moment
from kafkafs.spark.source.columns import BATCHES, CORRUPT, RECORDS
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.planning.batch_plan import plan_batch
from kafkafs.tree.path_names import instant_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.table.splits.split import Split

SHOWN_HOURS = 24
MOST_HOURS = 100_000
MOST_DAMAGES = 1000
_HOUR = 3_600_000
_BATCH = StructType(
    [
        StructField(name, BATCHES[name])
        for name in (
            *("topic", "partition", "size", "records", "codec", "maxTimestamp", "magic"),
            *("isControl", "isTransactional", CORRUPT),
        )
    ]
)
_KEY = StructType([StructField(name, RECORDS[name]) for name in ("topic", "key", CORRUPT)])


class Count(NamedTuple):
    """Number of batches and records, and their bytes."""

    batches: int
    records: int
    bytes: int


class TopKey(NamedTuple):
    """A key (None for null) and the number of records with it."""

    key: bytes | None
    records: int


class KeySkew(NamedTuple):
    """Keys of a topic.

    Attributes:
        distinct: number of keys other than null.
        null: number of records with a null key.
        records: number of all records.
        top: the most frequent keys, null among them.
    """

    distinct: int
    null: int
    records: int
    top: tuple[TopKey, ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts over some logs.

    Attributes:
        codecs: counts by topic, partition and codec, without control batches.
        transactional: number of transactional batches and of control batches, by topic.
        hours: counts by start of the hour in ms (None without a timestamp) and topic; the latest MOST_HOURS.
        skews: keys by topic; empty if keys were not counted.
        damages: facts of the first MOST_DAMAGES places that could not be read, as JSON.
        damaged: number of all such places.
        shown_hours: number of latest hours in the table.
    """

    codecs: Mapping[tuple[str, int, str], Count] = field(repr=False)
    transactional: Mapping[str, tuple[int, int]] = field(repr=False)
    hours: Mapping[tuple[Timestamp | None, str], Count] = field(repr=False)
    skews: Mapping[str, KeySkew] = field(repr=False)
    damages: Sequence[str] = field(repr=False)
    damaged: int
    shown_hours: int = SHOWN_HOURS

    @property
    def findings(self) -> int:
        """Number of damaged places."""
        return self.damaged

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON; keys are hexadecimal."""
        return {
            "total": _added(self.codecs.values())._asdict(),
            "topics": [self._topic(topic) for topic in self.topics],
            "hours": [
                {"hour": _hour(hour), "topic": topic, **count._asdict()}
                for (hour, topic), count in self.hours.items()
            ],
            "damagedPlaces": self.damaged,
            "damage": [json.loads(each) for each in self.damages],
        }

    @property
    def topics(self) -> list[str]:
        """Names of the topics, sorted."""
        return sorted({topic for topic, _, _ in self.codecs} | set(self.transactional))

    def partitions(self, topic: str) -> dict[int, Count]:
        """Return the counts of each partition of a topic."""
        found: dict[int, list[Count]] = defaultdict(list)
        for (name, partition, _), count in self.codecs.items():
            if name == topic:
                found[partition].append(count)
        return {partition: _added(found[partition]) for partition in sorted(found)}

    def by_codec(self, topic: str | None = None) -> dict[str, Count]:
        """Return the counts of each codec, in one topic or in all."""
        found: dict[str, list[Count]] = defaultdict(list)
        for (name, _, codec), count in self.codecs.items():
            if topic in (None, name):
                found[codec].append(count)
        return {codec: _added(found[codec]) for codec in sorted(found)}

    def _topic(self, topic: str) -> dict[str, Any]:
        partitions = self.partitions(topic)
        transactional, control = self.transactional.get(topic, (0, 0))
        facts: dict[str, Any] = {
            "topic": topic,
            **_added(partitions.values())._asdict(),
            "transactionalBatches": transactional,
            "controlBatches": control,
            "codecs": {codec: count._asdict() for codec, count in self.by_codec(topic).items()},
            "partitions": [
                {"partition": partition, **count._asdict()}
                for partition, count in partitions.items()
            ],
        }
        skew = self.skews.get(topic)
        if skew is not None:
            facts["keys"] = {
                "distinct": skew.distinct,
                "nullRecords": skew.null,
                "top": [
                    {
                        "keyHex": None if each.key is None else each.key.hex(),
                        "records": each.records,
                    }
                    for each in skew.top
                ],
            }
        return facts

    def tables(self) -> list[Table]:
        """Return tables of topics, codecs, hours, keys and damage."""
        tables = [self._topics_table(), self._codecs_table()]
        if self.hours and self.shown_hours:
            tables.append(self._hours_table())
        if self.skews:
            tables.append(self._keys_table())
        if self.damaged:
            tables.append(Table("", ("damaged", f"{self.damaged} places were not counted"), ()))
        return tables

    def _topics_table(self) -> Table:
        header = ("topic", "partitions", "records", "batches", "size", "bytes/record", "largest")
        rows = []
        for topic in self.topics:
            partitions = self.partitions(topic)
            total = _added(partitions.values())
            largest = max((count.bytes for count in partitions.values()), default=0)
            mean = total.bytes / len(partitions) if partitions else 0
            rows.append(
                (
                    *(topic, len(partitions), total.records, total.batches, size(total.bytes)),
                    f"{total.bytes / total.records:.1f}" if total.records else None,
                    f"{largest / mean:.2f} x mean" if mean else None,
                )
            )
        return Table("", header, rows)

    def _codecs_table(self) -> Table:
        total = _added(self.codecs.values())
        rows = [
            (codec, *count[:2], size(count.bytes), percent(count.bytes, total.bytes))
            for codec, count in self.by_codec().items()
        ]
        return Table("", ("codec", "batches", "records", "size", "share"), rows)

    def _hours_table(self) -> Table:
        by_hour: dict[Timestamp | None, list[Count]] = defaultdict(list)
        for (hour, _), count in self.hours.items():
            by_hour[hour].append(count)
        added = {hour: _added(counts) for hour, counts in by_hour.items()}
        shown = list(added.items())[-self.shown_hours :]
        rows = [(_hour(hour), *count[:2], size(count.bytes)) for hour, count in shown]
        earlier = len(added) - len(shown)
        title = f"by hour (UTC); {earlier} earlier ones: --hours, --json" if earlier else ""
        return Table(title, ("hour", "batches", "records", "size"), rows)

    def _keys_table(self) -> Table:
        rows = []
        for topic, skew in sorted(self.skews.items()):
            rows.append((topic, f"({skew.distinct} keys)", skew.records, "100.0%"))
            rows += [
                (topic, _key(each.key), each.records, percent(each.records, skew.records))
                for each in skew.top
            ]
        return Table("", ("topic", "key", "records", "share"), rows)


def stats(
    spark: SparkSession,
    path: str | Sequence[str],
    *,
    topics: str | Sequence[str] | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    keys: int = 5,
    shown_hours: int = SHOWN_HOURS,
    on_progress: OnProgress | None = None,
    **options: OptionValue,
) -> Stats:
    """Count batches, records, bytes, codecs and keys.

    Args:
        spark: session.
        path, topics, partitions, since, until, options: records to read, as for `kafkafs.spark.read`; batches across a
            bound of time count as a whole.
        keys: number of most frequent keys of each topic; 0 decodes nothing.
        shown_hours: number of latest hours in the table.
        on_progress: called with progress.

    Raises:
        OptionError: an argument is not valid.
        PySparkException: a task failed.
    """
    selection = JobSelection(
        path=path,
        topics=topics,
        partitions=partitions,
        since=since,
        until=until,
        options={"onCorrupt": "skip", **options},
    )
    read_options = selection.checked(*NOT_DECODING)
    if read_options.on_corrupt == "skip":
        read_options = replace(read_options, on_corrupt="row")
    splits = plan_batch(read_options)
    watch = JobWatch(spark, "stats", on_progress)
    parts = (0.0, 0.1 if keys else 1.0)
    with watch.step("batches", *parts):
        found, holes = _batches(spark, splits, read_options)
    skews: dict[str, KeySkew] = {}
    if keys and splits:
        with watch.step("keys", parts[1], 1.0):
            skews, holes = _skews(spark, splits, read_options, keys)
    return Stats(*found, skews, *holes, shown_hours)


_Found = tuple[
    dict[tuple[str, int, str], Count],
    dict[str, tuple[int, int]],
    dict[tuple[Timestamp | None, str], Count],
]


_Holes = tuple[list[str], int]
"""Facts of the first damaged places, and the number of all."""


def _holes(counted: DataFrame) -> _Holes:
    places = counted.where(F.col(CORRUPT).isNotNull()).select(CORRUPT)
    first = [row[0] for row in places.orderBy(CORRUPT).limit(MOST_DAMAGES + 1).collect()]
    return first[:MOST_DAMAGES], places.count() if len(first) > MOST_DAMAGES else len(first)


def _batches(
    spark: SparkSession, splits: list[Split], options: ReadOptions
) -> tuple[_Found, _Holes]:
    frame = batches_of(spark, splits, _BATCH, replace(options, view="batches"))
    hour = F.floor(F.unix_millis("maxTimestamp") / _HOUR) * _HOUR
    kinds = ("topic", "partition", "codec", "isControl", "isTransactional", CORRUPT)
    every = (
        frame.groupBy(*kinds, hour.alias("hour"))
        .agg(
            F.count(F.lit(1)).alias("batches"),
            F.sum("records").alias("records"),
            F.sum("size").alias("bytes"),
        )
        .persist()
    )
    try:
        counted = every.where(F.col(CORRUPT).isNull())
        data = counted.where(~F.col("isControl"))
        codecs = {
            (row["topic"], row["partition"], row["codec"]): _count(row)
            for row in _summed(data, "topic", "partition", "codec").collect()
        }
        marked = {
            row["topic"]: (row["transactional"], row["control"])
            for row in counted.groupBy("topic")
            .agg(
                F.sum(F.when(F.col("isTransactional"), F.col("batches")).otherwise(0)).alias(
                    "transactional"
                ),
                F.sum(F.when(F.col("isControl"), F.col("batches")).otherwise(0)).alias("control"),
            )
            .collect()
        }
        latest = _summed(data, "hour", "topic").orderBy(F.desc("hour"), F.desc("topic"))
        hours = {
            (row["hour"], row["topic"]): _count(row) for row in latest.limit(MOST_HOURS).collect()
        }
        holes = _holes(every)
    finally:
        every.unpersist()
    in_order = dict(sorted(hours.items(), key=lambda item: (item[0][0] or -1, item[0][1])))
    return (dict(sorted(codecs.items())), marked, in_order), holes


def _summed(frame: DataFrame, *by: str) -> DataFrame:
    return frame.groupBy(*by).agg(
        *[F.sum(name).alias(name) for name in ("batches", "records", "bytes")]
    )


def _skews(
    spark: SparkSession, splits: list[Split], options: ReadOptions, keys: int
) -> tuple[dict[str, KeySkew], _Holes]:
    records = records_of(spark, splits, _KEY, options)
    every = records.groupBy("topic", "key", CORRUPT).agg(F.count(F.lit(1)).alias("records"))
    every = every.persist()
    try:
        counts = every.where(F.col(CORRUPT).isNull())
        totals = {
            row["topic"]: row
            for row in counts.groupBy("topic")
            .agg(
                F.count("key").alias("distinct"),
                F.sum(F.when(F.col("key").isNull(), F.col("records")).otherwise(0)).alias("null"),
                F.sum("records").alias("records"),
            )
            .collect()
        }
        order = Window.partitionBy("topic").orderBy(F.desc("records"), F.asc_nulls_first("key"))
        ranked = counts.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= keys)
        top: dict[str, list[TopKey]] = defaultdict(list)
        for row in ranked.orderBy("topic", "rank").collect():
            key = None if row["key"] is None else bytes(row["key"])
            top[row["topic"]].append(TopKey(key, row["records"]))
        holes = _holes(every)
    finally:
        every.unpersist()
    skews = {
        topic: KeySkew(row["distinct"], row["null"], row["records"], tuple(top[topic]))
        for topic, row in totals.items()
    }
    return skews, holes


def _count(row: Any) -> Count:  # noqa: ANN401 - a Row
    return Count(row["batches"], row["records"], row["bytes"])


def _added(counts: Iterable[Count]) -> Count:
    batches = records = bytes_ = 0
    for count in counts:
        batches += count.batches
        records += count.records
        bytes_ += count.bytes
    return Count(batches, records, bytes_)


def _hour(hour: Timestamp | None) -> str | None:
    return None if hour is None else instant_name(hour)


def _key(key: bytes | None) -> str:
    if key is None:
        return "(null)"
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
