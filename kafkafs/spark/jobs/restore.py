"""Make logs from an export, with the same offsets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from engine.budgets import MiB
from engine.units import Offset
from kafkafs.export.ledger import MANIFEST, Done, Ledger
from kafkafs.export.target import LocalFiles, TargetFiles
from kafkafs.job_summary import Table, size
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.files.exported_rows import read_files
from kafkafs.spark.jobs.files.target_files import target_files
from kafkafs.spark.jobs.progress import JobWatch, OnProgress
from kafkafs.spark.sink.job_folder import refuse_target
from kafkafs.spark.sink.log_dir_assembly import read_manifest
from kafkafs.spark.sink.write_options import WriteOptions, parse_write_options
from kafkafs.spark.writing import OptionValue, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_BYTES = 128 * MiB
"""Bytes of the export's files for each task: a large partition is divided among several tasks."""
_ITS_OWN = ("topic", "numPartitions", "offsets", "logStartOffsets", "logEndOffsets", "path")


@dataclass(frozen=True, slots=True)
class RestoreSummary:
    """Result of a restore.

    Attributes:
        source: URI of the export.
        target: path of the log dir.
        topic_ids: topic ids in base64, by topic.
        partitions: one entry for each, as in the log dir's manifest.
        missing: expected and found number of records, of topics where the two differ.
    """

    source: str
    target: str
    topic_ids: Mapping[str, str]
    partitions: Sequence[Mapping[str, Any]] = field(repr=False)
    missing: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Number of records written."""
        return sum(each["records"] for each in self.partitions)

    @property
    def findings(self) -> int:
        """Number of topics that differ from the export."""
        return len(self.missing)

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "source": self.source,
            "target": self.target,
            "records": self.records,
            "bytesWritten": sum(each["bytes"] for each in self.partitions),
            "topicIds": dict(self.topic_ids),
            "partitions": [dict(each) for each in self.partitions],
            "missing": {
                topic: {"expected": expected, "found": found}
                for topic, (expected, found) in self.missing.items()
            },
        }

    def tables(self) -> list[Table]:
        """Return tables of partitions, and of topic ids."""
        rows: list[Sequence[object]] = [
            (
                *(each["partition"], each["logStartOffset"], each["logEndOffset"]),
                *(each["records"], each["segments"], size(each["bytes"])),
            )
            for each in self.partitions
        ]
        facts = self.facts()
        rows.append(("total", None, None, self.records, None, size(facts["bytesWritten"])))
        header = ("partition", "log start", "log end", "records", "segments", "size")
        lines: list[tuple[str, object]] = [("written", self.target)]
        lines += [(f"id of {topic}", each) for topic, each in sorted(self.topic_ids.items())]
        lines += [
            ("MISSING", f"{topic}: {found} records, the export has {expected}")
            for topic, (expected, found) in sorted(self.missing.items())
        ]
        return [Table("", header, rows), Table("", ("", ""), lines)]


def restore(
    spark: SparkSession,
    source: str,
    target: str,
    *,
    form: str | None = None,
    topics: str | Sequence[str] | None = None,
    renames: Mapping[str, str] | None = None,
    incomplete: bool = False,
    tasks: int | None = None,
    on_progress: OnProgress | None = None,
    **options: OptionValue,
) -> RestoreSummary:
    """Make a log dir from an export: the same offsets, timestamps, keys, values and headers.

    Logs have the log start and log end of the exported ones. If the last offsets have no record (transaction markers,
    compacted records), a batch without records covers them.

    Args:
        spark: session; its time zone is UTC during the job.
        source: target of an `export`: a path, or a URI of a file system for Hadoop's client.
        target: log dir to make, empty or absent, on a file system that driver and executors see.
        form: format of the files, for a folder with the layout of an export but without its manifest.
        topics: topics to restore; None for all.
        renames: new names of topics by their names in the export.
        incomplete: accept an unfinished export.
        tasks: number of writing tasks; by default one per 128 MiB of files.
        on_progress: called with progress.
        options: options of the sink: codec, compressionLevel, batchBytes, segmentBytes, topicIds (by the new names),
            clusterId and nodeId, leaderEpoch.

    Raises:
        OptionError: an argument is not valid; nothing was written.
        PySparkException: a task or the commit failed; nothing was written.
    """
    job = _Restore(spark, source, target, _names(topics), dict(renames or {}), options)
    return job.run(form, incomplete=incomplete, tasks=tasks, on_progress=on_progress)


def _names(topics: str | Sequence[str] | None) -> list[str] | None:
    if topics is None:
        return None
    found = topics.split(",") if isinstance(topics, str) else list(topics)
    return [topic.strip() for topic in found if topic.strip()]


class _Restore:
    """One run of a restore."""

    def __init__(
        self,
        spark: SparkSession,
        source: str,
        target: str,
        topics: list[str] | None,
        renames: dict[str, str],
        options: dict[str, OptionValue],
    ) -> None:
        self._spark = spark
        self._files = target_files(spark, source)
        self._topics = topics
        self._renames = renames
        self._options = options
        self._checked = self._check(target)

    def _check(self, target: str) -> WriteOptions:
        lower = {name.lower() for name in self._options}
        for name in _ITS_OWN:
            if name.lower() in lower:
                raise OptionError(f"a restore sets the option {name!r} itself")
        texts = {name: str(value) for name, value in self._options.items()}
        checked = parse_write_options({"path": target, **texts})
        sources = [self._files.path] if isinstance(self._files, LocalFiles) else []
        refuse_target(checked.path, [each for each in sources if os.path.lexists(each)])
        if len(set(self._renames.values())) < len(self._renames):
            raise OptionError("two topics cannot have the same new name")
        return checked

    def run(
        self,
        form: str | None,
        *,
        incomplete: bool,
        tasks: int | None,
        on_progress: OnProgress | None,
    ) -> RestoreSummary:
        ledger = _ledger(self._files, form, incomplete=incomplete)
        done = [] if ledger is None else ledger.done()
        if ledger is not None:
            form = ledger.manifest().form
        assert form is not None
        self._check_topics(done)
        if tasks is None and done:
            tasks = max(sum(each.size for chunk in done for each in chunk.files) // TASK_BYTES, 1)
        keywords: dict[str, Any] = {**self._bounds(done), **self._options}
        with _utc(self._spark):
            frame = self._frame(form)
            with JobWatch(self._spark, "restore", on_progress).step("writing"):
                write(
                    frame,
                    self._checked.path,
                    tasks=tasks if tasks is not None and tasks > 1 else None,
                    **keywords,
                )
        return self._summary(done)

    def _check_topics(self, done: list[Done]) -> None:
        known = {topic for chunk in done for topic in chunk.records}
        asked = [*(self._topics or []), *self._renames]
        unknown = [topic for topic in asked if done and topic not in known]
        if unknown:
            raise OptionError(
                f"the export has no topic {unknown[0]!r}; it has {', '.join(sorted(known))}"
            )

    def _is_wanted(self, topic: str) -> bool:
        return self._topics is None or topic in self._topics

    def _bounds(self, done: list[Done]) -> dict[str, str]:
        """Return log starts and log ends as options of the sink."""
        starts: dict[str, dict[str, Offset]] = {}
        ends: dict[str, dict[str, Offset]] = {}
        for chunk in done:
            for name, (start, stop) in chunk.ranges.items():
                topic, _, partition = name.rpartition("-")
                if self._is_wanted(topic):
                    topic = self._renames.get(topic, topic)
                    low = starts.setdefault(topic, {})
                    low[partition] = min(start, low.get(partition, start))
                    high = ends.setdefault(topic, {})
                    high[partition] = max(stop, high.get(partition, stop))
        if not starts:
            return {}
        return {"logStartOffsets": json.dumps(starts), "logEndOffsets": json.dumps(ends)}

    def _frame(self, form: str) -> DataFrame:
        frame = read_files(self._spark, self._files.uri, form)
        if self._topics is not None:
            frame = frame.where(F.col("topic").isin(self._topics))
        for old, new in self._renames.items():
            is_old = F.col("topic") == old
            frame = frame.withColumn("topic", F.when(is_old, F.lit(new)).otherwise(F.col("topic")))
        return frame

    def _summary(self, done: list[Done]) -> RestoreSummary:
        manifest = read_manifest(self._checked.path)
        found: dict[str, int] = {}
        for each in manifest["partitions"]:
            topic = each["partition"].rpartition("-")[0]
            found[topic] = found.get(topic, 0) + each["records"]
        expected: dict[str, int] = {}
        for chunk in done:
            for topic, count in chunk.records.items():
                if self._is_wanted(topic):
                    new = self._renames.get(topic, topic)
                    expected[new] = expected.get(new, 0) + count
        missing = {
            topic: (count, found.get(topic, 0))
            for topic, count in expected.items()
            if count != found.get(topic, 0)
        }
        return RestoreSummary(
            self._files.uri,
            manifest["target"],
            manifest["topicIds"],
            manifest["partitions"],
            missing,
        )


def _ledger(files: TargetFiles, form: str | None, *, incomplete: bool) -> Ledger | None:
    if not files.exists(MANIFEST) and form is not None:
        return None
    ledger = Ledger(files)
    ledger.manifest()
    if not ledger.is_whole() and not incomplete:
        raise OptionError(
            f"the export {files.uri} is unfinished: resume it, or restore it with incomplete"
        )
    return ledger


@contextmanager
def _utc(spark: SparkSession) -> Iterator[None]:
    """Set the session's time zone in a block."""
    name = "spark.sql.session.timeZone"
    before = str(spark.conf.get(name))
    spark.conf.set(name, "UTC")
    try:
        yield
    finally:
        spark.conf.set(name, before)
