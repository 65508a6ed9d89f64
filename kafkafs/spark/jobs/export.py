"""Export records as Parquet, JSON, CSV or ORC files, by topic and day."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Observation, functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructField, StructType

from engine.budgets import MiB
from kafkafs.export.chunks import ExportChunk
from kafkafs.export.ledger import (
    DAMAGE,
    LOCK,
    Done,
    Ledger,
    Manifest,
    Moved,
    offsets_done,
    topic_ids_done,
    types_done,
)
from kafkafs.export.summary import ExportSummary
from kafkafs.export.typed_topics import TypedTopics, typed_topics
from kafkafs.schemas.errors import SchemaFileError
from kafkafs.schemas.fixed_schemas import FixedSchemas
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.conditions import check_condition
from kafkafs.spark.jobs.files.export_plan import plan_chunks
from kafkafs.spark.jobs.files.exported_rows import VALUES, check_form, files_writer
from kafkafs.spark.jobs.files.target_files import outside_of, target_files
from kafkafs.spark.jobs.progress import JobWatch, OnProgress
from kafkafs.spark.jobs.selection import JobSelection, OptionValue
from kafkafs.spark.jobs.split_frames import records_of, settings
from kafkafs.spark.reading import Moment
from kafkafs.spark.source.columns import CONNECTOR, CORRUPT, DECODED, RECORDS, WITH_TYPES
from kafkafs.spark.source.schemas import with_schemas
from kafkafs.spark.source.typed_values import arrow_type, shown_types
from kafkafs.table.splits.split import Split
from kafkafs.table.typed.typed_beside_bytes import TypedBesideBytes, Types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK_BYTES = 1024 * MiB
_TASKS_OF_A_CORE = 4
_ITS_OWN = ("view", "includeHeaders", "minPartitions", "maxRecordsPerPartition")
_PLACE = StructType(
    [
        StructField(name, RECORDS[name])
        for name in ("topic", "partition", "offset", "segment", "batchPosition", CORRUPT)
    ]
)


def export(
    spark: SparkSession,
    path: str | Sequence[str],
    target: str,
    *,
    form: str = "parquet",
    values: str = "text",
    compression: str | None = None,
    topics: str | Sequence[str] | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    where: str | None = None,
    resume: bool = False,
    chunk_bytes: int | None = None,
    on_progress: OnProgress | None = None,
    **options: OptionValue,
) -> ExportSummary:
    """Write records to files, in folders `topic=…/date=…` (dates of timestamps, UTC).

    Records are written in chunks, each complete or absent. `resume` continues a killed or failed export, and adds
    newer records to a finished one: no record is written twice. With `onCorrupt` skip or row, damaged places are
    listed in `_export/damage`.

    Args:
        spark: session; its time zone is UTC during the job.
        path, topics, partitions, since, until, options: records to read, as for `kafkafs.spark.read`; with
            decode="columns" each topic has the types of its own schemas, in Parquet.
        target: folder, empty or absent: a path, or a URI of a file system for Hadoop's client.
        form: "parquet", "orc", "json" or "csv"; see `exported_rows` for the columns.
        values: form of bytes in JSON and CSV: "text" (base64 where bytes are not UTF-8) or "base64".
        compression: codec of the files; None for Spark's default.
        where: SQL condition on the connector's columns and `headers`.
        resume: continue the export in the target.
        chunk_bytes: bytes of logs in a chunk; by default 1 GiB, or more on many cores.
        on_progress: called with progress.

    Raises:
        OptionError: an argument is not valid; nothing was written.
        DataLossError: records to read no longer exist.
        PySparkException: a task failed, such as for damage; finished chunks stay.
    """
    selection = JobSelection(
        path=path,
        topics=topics,
        partitions=partitions,
        since=since,
        until=until,
        options={"onCorrupt": "fail", **options},
    )
    job = _Export(spark, selection, _checked_form(form, values), compression, where, target)
    return job.run(resume=resume, chunk_bytes=chunk_bytes, on_progress=on_progress)


def _checked_form(form: str, values: str) -> tuple[str, str]:
    check_form(form)
    if values not in VALUES:
        raise OptionError(f"values are {' or '.join(VALUES)}, not {values!r}")
    return form, values


class _Part(NamedTuple):
    """Part of a chunk that is one frame.

    Attributes:
        topics, splits: its topics and their splits.
        schema: the columns to read.
        typed: the decoded columns that have types; None without any.
    """

    topics: Sequence[str]
    splits: Sequence[Split]
    schema: StructType
    typed: TypedBesideBytes | None


class _Wrote(NamedTuple):
    """What was written: records by topic, keys and values that do not fit their types by topic, and damaged places."""

    records: Mapping[str, int]
    misfits: Mapping[str, int]
    damaged: int

    def and_(self, more: _Wrote) -> _Wrote:
        """Return this with what other topics have."""
        records, misfits = {**self.records, **more.records}, {**self.misfits, **more.misfits}
        return _Wrote(records, misfits, self.damaged + more.damaged)


class _Export:
    """One run of an export."""

    def __init__(
        self,
        spark: SparkSession,
        selection: JobSelection,
        form: tuple[str, str],
        compression: str | None,
        where: str | None,
        target: str,
    ) -> None:
        self._spark = spark
        self._form, self._values = form
        self._where = where
        self._compression = compression
        options = selection.checked(*_ITS_OWN)
        if options.has_types and self._form != "parquet":
            raise OptionError("'decode' has columns for parquet: with 'true' it has JSON")
        if options.decode and self._form == "csv":
            raise OptionError("'decode' is for parquet, orc and json")
        self._has_types = options.has_types
        decoded = () if not options.decode else WITH_TYPES if options.has_types else DECODED
        self._names = (*CONNECTOR, "headers", *decoded, CORRUPT)
        # The types of one topic are not those of all: see `_parts`.
        self._options = with_schemas(replace(options, has_types=False), self._record({}))
        self._typed: TypedTopics | None = None
        check_condition(spark, where)
        self._files = target_files(spark, target)
        outside_of(self._files, self._options.paths)

    def run(
        self, *, resume: bool, chunk_bytes: int | None, on_progress: OnProgress | None
    ) -> ExportSummary:
        ledger = Ledger(self._files)
        manifest = Manifest(self._form, self._values, self._filters())
        ledger.check(manifest, resume=resume)
        earlier = ledger.done() if resume else []
        done = offsets_done(earlier)
        chunks = plan_chunks(
            self._options, done, topic_ids_done(earlier), chunk_bytes or self._chunk_bytes()
        )
        if self._has_types and chunks:
            self._typed = self._types_of(chunks, earlier)
        watch = JobWatch(self._spark, "export", on_progress)
        with self._files.lock(LOCK):
            before = ledger.begin(manifest)
            if offsets_done(before) != done:
                raise OptionError(f"{self._files.uri} was changed by another job: try again")
            ends = list(accumulate((chunk.size for chunk in chunks), initial=0))
            total = ends[-1] or 1
            written = []
            for place, chunk in enumerate(chunks):
                name = f"chunk {place + 1} of {len(chunks)}"
                with watch.step(name, ends[place] / total, ends[place + 1] / total):
                    written.append(self._write(ledger, len(before) + place + 1, chunk))
            ledger.end()
        untyped = [] if self._typed is None else self._typed.without
        return ExportSummary(self._files.uri, self._form, written, before, untyped=untyped)

    def _types_of(self, chunks: Sequence[ExportChunk], earlier: Sequence[Done]) -> TypedTopics:
        topics = {topic for chunk in chunks for topic in chunk.topics}
        known = self._options.decoder_of
        assert isinstance(known, FixedSchemas)
        try:
            return typed_topics(topics, known.store, types_done(earlier), arrow_type)
        except SchemaFileError as error:
            raise OptionError(f"'schemas': {error}") from error

    def _record(self, types: Types) -> StructType:
        """Return the columns to read; of decoded ones, those that have no type are JSON."""
        known = RECORDS | shown_types(types)
        return StructType([StructField(name, known[name]) for name in self._names])

    def _chunk_bytes(self) -> int:
        cores: int = self._spark.sparkContext.defaultParallelism
        return max(CHUNK_BYTES, cores * _TASKS_OF_A_CORE * self._options.split_bytes)

    def _filters(self) -> dict[str, str]:
        options = self._options
        decode = ",".join(options.schemas) if options.decode else None
        if self._has_types:
            # Other types than those of kafkafs export, which does not continue these files.
            decode = f"columns of Spark, {decode}"
        found = {
            "where": self._where,
            "keyEquals": None if options.key is None else options.key.hex(),
            "keyPattern": options.key_pattern,
            "isolationLevel": "read_committed" if options.committed else None,
            "decode": decode,
        }
        return {name: value for name, value in found.items() if value is not None}

    def _write(self, ledger: Ledger, number: int, chunk: ExportChunk) -> Done:
        """Write a chunk, and the list of its damaged places."""
        staged = ledger.staging(number)
        wrote = _Wrote(dict.fromkeys(chunk.topics, 0), {}, 0)
        files: list[Moved] = []
        if chunk.splits:
            with settings(
                self._spark,
                spark__sql__session__timeZone="UTC",
                spark__sql__parquet__outputTimestampType="TIMESTAMP_MICROS",
            ):
                for part in self._parts(chunk):
                    wrote = wrote.and_(self._write_part(part, f"{staged}/records"))
            files += ledger.moved(number, f"{staged}/records", "")
        if wrote.damaged:
            self._write_damage(chunk, f"{staged}/damage")
            files += ledger.moved(number, f"{staged}/damage", DAMAGE)
        types = None if self._typed is None else self._typed.types
        done = chunk.done(number, wrote.records, files, wrote.damaged, types, wrote.misfits)
        ledger.record(done)
        return done

    def _parts(self, chunk: ExportChunk) -> Iterator[_Part]:
        """Yield the parts of a chunk that have the same columns."""
        if self._typed is None:
            yield _Part(chunk.topics, chunk.splits, self._record({}), None)
            return
        for topic in chunk.topics:
            splits = [split for split in chunk.splits if split.partition.topic == topic]
            typed = self._typed.columns.get(topic)
            if splits:
                schema = self._record({} if typed is None else typed.types)
                yield _Part([topic], splits, schema, typed)

    def _write_part(self, part: _Part, staged: str) -> _Wrote:
        frame = self._read(part)
        holes = Observation(f"holes-{secrets.token_hex(8)}")
        counts = Observation(f"counts-{secrets.token_hex(8)}")
        frame = frame.observe(holes, F.count(CORRUPT).alias("damaged"))
        frame = frame.where(F.col(CORRUPT).isNull()).drop(CORRUPT)
        if self._where is not None:
            frame = frame.where(self._where)
        by_topic = [
            F.count_if(F.col("topic") == topic).alias(f"topic {place}")
            for place, topic in enumerate(part.topics)
        ]
        misfits = F.lit(0)
        for name in () if part.typed is None else part.typed.types:
            note = F.col(name.removeprefix("decoded").lower() + "Note")
            misfits += F.count_if(F.col(name).isNull() & note.isNotNull())
        frame = frame.observe(counts, *by_topic, misfits.alias("misfits"))
        writer = files_writer(frame, self._form, self._values, self._compression)
        writer.mode("append").save(f"{self._files.uri}/{staged}")
        found = counts.get
        records = {topic: int(found[f"topic {place}"]) for place, topic in enumerate(part.topics)}
        count = int(found["misfits"])
        return _Wrote(records, {part.topics[0]: count} if count else {}, int(holes.get["damaged"]))

    def _write_damage(self, chunk: ExportChunk, staged: str) -> None:
        places = self._read(_Part(chunk.topics, chunk.splits, _PLACE, None)).where(
            F.col(CORRUPT).isNotNull()
        )
        facts = places.withColumnRenamed(CORRUPT, "damage")
        facts.write.format("json").save(f"{self._files.uri}/{staged}")

    def _read(self, part: _Part) -> DataFrame:
        how = self._options.on_corrupt
        options = replace(
            self._options, on_corrupt="fail" if how == "fail" else "row", typed=part.typed
        )
        return records_of(self._spark, part.splits, part.schema, options)
