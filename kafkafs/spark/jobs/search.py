"""Search records by their content in whole volumes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Observation, functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from engine.lines.record_line import LineOptions, record_line
from engine.record.attributes import TimestampType
from engine.record.fate import Fate
from engine.record.record import Header, Record
from kafkafs.job_summary import Table, size
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.conditions import check_condition
from kafkafs.spark.jobs.files.exported_rows import check_form, files_writer
from kafkafs.spark.jobs.files.target_files import outside_of, target_files
from kafkafs.spark.jobs.progress import JobWatch, OnProgress
from kafkafs.spark.jobs.record_filter import Predicate, SearchFilter
from kafkafs.spark.jobs.selection import NOT_DECODING, JobSelection, OptionValue
from kafkafs.spark.jobs.split_frames import frame_of, settings
from kafkafs.spark.reading import Moment
from kafkafs.spark.source.columns import CORRUPT, RECORDS
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.planning.batch_plan import plan_batch
from kafkafs.spark.source.rows import SplitReader, key_filter
from kafkafs.table.splits.split import Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

MOST = 1000
_FOUND = StructType(
    [
        StructField(name, RECORDS[name])
        for name in (
            *("topic", "partition", "offset", "timestamp", "timestampType", "key", "value"),
            *("headers", "leaderEpoch", "producerId", "producerEpoch", "sequence", "transaction"),
            CORRUPT,
        )
    ]
)


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """Result of a search.

    Attributes:
        records: number of matching records.
        rows: the first matches by topic, partition and offset, at most `most`; none with a target.
        target: URI of the written matches; None if they were not written.
        damages: facts of the first MOST places that could not be searched, as JSON.
        damaged: number of all such places.
        source_bytes: bytes searched.
    """

    records: int
    rows: Sequence[Row] = field(repr=False)
    target: str | None
    damages: Sequence[str] = field(repr=False)
    damaged: int
    source_bytes: int

    @property
    def findings(self) -> int:
        """1 when nothing matched, as for grep; else 0."""
        return 0 if self.records else 1

    def lines(self) -> Iterator[bytes]:
        """Return the record line of each row."""
        return map(line_of, self.rows)

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "records": self.records,
            "target": self.target,
            "damagedPlaces": self.damaged,
            "damage": [json.loads(each) for each in self.damages],
            "bytesSearched": self.source_bytes,
        }

    def tables(self) -> list[Table]:
        """Return a table of amounts."""
        lines: list[tuple[str, object]] = [
            ("found", f"{self.records} records in {size(self.source_bytes)}")
        ]
        if self.target is not None:
            lines.append(("written", self.target))
        if self.damaged:
            lines.append(("damaged", f"{self.damaged} places were not searched"))
        return [Table("", ("", ""), lines)]


def find(
    spark: SparkSession,
    path: str | Sequence[str],
    predicate: Predicate,
    *,
    topics: str | Sequence[str] | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    **options: OptionValue,
) -> DataFrame:
    """Return the records that match a predicate as a frame: the connector's columns, `headers`, and those of the batch.

    Batches that cannot have a match are not decoded. With `onCorrupt=row` damaged places are rows as well.

    Raises:
        OptionError: an argument is not valid.
    """
    selection = JobSelection(
        path=path, topics=topics, partitions=partitions, since=since, until=until, options=options
    )
    predicate.checked()
    read_options = selection.checked(*NOT_DECODING)
    has_rows = read_options.on_corrupt == "row"
    schema = _FOUND if has_rows else StructType(_FOUND.fields[:-1])
    return _found(spark, plan_batch(read_options), schema, read_options, predicate)


def search(
    spark: SparkSession,
    path: str | Sequence[str],
    predicate: Predicate,
    *,
    topics: str | Sequence[str] | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    where: str | None = None,
    target: str | None = None,
    form: str = "json",
    most: int = MOST,
    on_progress: OnProgress | None = None,
    **options: OptionValue,
) -> SearchSummary:
    """Search all records, and count the matches.

    Args:
        spark: session.
        path, topics, partitions, since, until, options: records to read, as for `kafkafs.spark.read`.
        predicate: conditions on a record.
        where: further SQL condition, on the connector's columns and `headers`.
        target: folder, empty or absent, for all matches, in the layout of an export.
        form: format of its files.
        most: most records to return without a target.
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
    if predicate.is_empty() and where is None and not _asks_key(options):
        raise OptionError("name something to search for: a pattern, a key or a condition")
    predicate.checked()
    read_options = selection.checked(*NOT_DECODING)
    check_condition(spark, where)
    uri = None if target is None else _checked_target(spark, target, form, read_options)
    if read_options.on_corrupt == "skip":
        read_options = replace(read_options, on_corrupt="row")
    splits = plan_batch(read_options)
    searching = _Search(spark, splits, read_options, predicate, where)
    with JobWatch(spark, "search", on_progress).step("searching"):
        rows = searching.collect(most) if uri is None else searching.write(uri, form)
        records, damaged = searching.counts()
    damages = searching.damages() if damaged else []
    return SearchSummary(records, rows, uri, damages, damaged, sum(split.size for split in splits))


class _Search:
    """One search; its counts are known after it has run."""

    def __init__(
        self,
        spark: SparkSession,
        splits: list[Split],
        options: ReadOptions,
        predicate: Predicate,
        where: str | None,
    ) -> None:
        self._spark = spark
        self._all = _found(spark, splits, _FOUND, options, predicate)
        self._holes = Observation(f"holes-{secrets.token_hex(8)}")
        self._counts = Observation(f"found-{secrets.token_hex(8)}")
        frame = self._all.observe(self._holes, F.count(CORRUPT).alias("damaged"))
        frame = frame.where(F.col(CORRUPT).isNull()).drop(CORRUPT)
        if where is not None:
            frame = frame.where(where)
        self._frame = frame.observe(self._counts, F.count(F.lit(1)).alias("records"))

    def collect(self, most: int) -> list[Row]:
        # All tasks run, and each keeps its first matches: the count is exact, and memory is bounded.
        shown = F.unix_millis("timestamp").alias("timestamp")
        columns = [shown if name == "timestamp" else F.col(name) for name in self._frame.columns]
        first = self._frame.orderBy("topic", "partition", "offset").limit(max(most, 1))
        rows: list[Row] = first.select(*columns).collect()
        return rows[:most]

    def write(self, uri: str, form: str) -> list[Row]:
        with settings(
            self._spark,
            spark__sql__session__timeZone="UTC",
            spark__sql__parquet__outputTimestampType="TIMESTAMP_MICROS",
        ):
            files_writer(self._frame, form).mode("append").save(uri)
        return []

    def counts(self) -> tuple[int, int]:
        return int(self._counts.get["records"]), int(self._holes.get["damaged"])

    def damages(self) -> list[str]:
        places = self._all.where(F.col(CORRUPT).isNotNull())
        first = places.orderBy("topic", "partition", "offset").select(CORRUPT).limit(MOST)
        return [row[0] for row in first.collect()]


def _found(
    spark: SparkSession,
    splits: list[Split],
    schema: StructType,
    options: ReadOptions,
    predicate: Predicate,
) -> DataFrame:
    arrow = to_arrow_schema(schema, timezone="UTC")

    def read(split: Split) -> Iterator[pa.RecordBatch]:
        wanted = SearchFilter(predicate, split.partition.topic, key_filter(options))
        return SplitReader(arrow, options, wanted).read(split)

    return frame_of(spark, splits, schema, read, options.split_bytes)


def _asks_key(options: Mapping[str, OptionValue]) -> bool:
    return any(name.lower() in ("keyequals", "keypattern") for name in options)


def _checked_target(spark: SparkSession, target: str, form: str, options: ReadOptions) -> str:
    check_form(form)
    files = target_files(spark, target)
    outside_of(files, options.paths)
    if files.names():
        raise OptionError(f"{files.uri} is not empty: choose another target, or move it away")
    return files.uri


def line_of(row: Row) -> bytes:
    """Return the record line of a row of `SearchSummary.rows`, with its newline."""
    headers = tuple(
        Header(header["key"].encode(), None if header["value"] is None else bytes(header["value"]))
        for header in row["headers"] or ()
    )
    record = Record(
        offset=row["offset"],
        timestamp=row["timestamp"],
        timestamp_type=TimestampType(row["timestampType"]),
        key=None if row["key"] is None else bytes(row["key"]),
        value=None if row["value"] is None else bytes(row["value"]),
        headers=headers,
        sequence=-1 if row["sequence"] is None else row["sequence"],
        leader_epoch=row["leaderEpoch"],
    )
    fate = row["transaction"]
    return record_line(
        record,
        LineOptions(row["topic"], row["partition"]),
        producer_id=row["producerId"],
        producer_epoch=row["producerEpoch"],
        is_transactional=fate is not None,
        fate=Fate.NONE if fate is None else Fate[fate.upper()],
    )
