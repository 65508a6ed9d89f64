"""Run the checks of `kafkafs check` over a whole volume in tasks; return the findings as a table.

Checks and sentences are the engine's (engine/check). Findings are the same as without Spark, also for a
partition with segments in several tasks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.check.rules.rules import RULES, Severity
from engine.clock import SYSTEM_CLOCK, Clock
from engine.log.log_directory import open_source
from kafkafs.export.target import TargetFiles
from kafkafs.job_summary import Table, size
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.audit_plan import TASK_BYTES, AuditPlan, plan_audit
from kafkafs.spark.jobs.files.exported_rows import FORMATS
from kafkafs.spark.jobs.files.target_files import target_files
from kafkafs.spark.jobs.progress import JobWatch, OnProgress
from kafkafs.spark.source.options.source_paths import resolved
from kafkafs.spark.source.planning.volume import Volume

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEVERITIES = tuple(severity.value for severity in (Severity.NOTE, Severity.WARNING, Severity.ERROR))
MOST_FINDINGS = 1000
_ROWS_PER_FILE = 1_000_000
_SCHEMA = (
    "partition string, topic string, number long, severity string, rule string, file string,"
    " position long, length long, firstOffset long, nextOffset long, sentence string,"
    " advice string, facts string, summary string"
)
_SEEN = "bucket int, partition binary, segment long, number long, payload binary"
_SUMMARY = (
    "live boolean, logStartOffset long, logEndOffset long, segments long, bytes long, batches long,"
    " records long, holes long, holeBytes long, errors long, warnings long, notes long"
)
_SUMS = ("segments", "bytes", "batches", "records", "holes", "holeBytes")


@dataclass(frozen=True, slots=True)
class Audit:
    """Result of an audit.

    Attributes:
        path: audited paths.
        partitions: one dict for each: name, amounts read, number of findings by severity.
        counts: number of chosen findings by severity and rule.
        first: the worst findings as dicts, in the order of the log; at most `most`.
        target: folder of the tables; None if they were not written.
        seconds: duration.
    """

    path: tuple[str, ...]
    partitions: tuple[dict[str, Any], ...]
    counts: dict[tuple[str, str], int]
    first: tuple[dict[str, Any], ...]
    target: str | None
    seconds: float

    def found(self, severity: str) -> int:
        """Return the number of findings of a severity."""
        return sum(count for (known, _), count in self.counts.items() if known == severity)

    @property
    def findings(self) -> int:
        """Number of errors and warnings; notes are no faults."""
        return self.found("error") + self.found("warning")

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON."""
        rules = [
            {"rule": rule, "severity": severity, "findings": count}
            for (severity, rule), count in self.counts.items()
        ]
        return {
            "job": "audit",
            "path": list(self.path),
            "target": self.target,
            "seconds": round(self.seconds, 3),
            **self._sums(),
            **{f"{severity}s": self.found(severity) for severity in reversed(SEVERITIES)},
            "rules": rules,
            "partitionSummaries": list(self.partitions),
            "findings": list(self.first),
        }

    def tables(self) -> Sequence[Table]:
        """Return tables of the findings, of their number by rule, and of the amounts read."""
        found = []
        if self.first:
            rows = [_shown(each) for each in self.first]
            more = sum(self.counts.values()) - len(rows)
            title = f"the first {len(rows)}; {more} more" if more else ""
            found.append(Table(title, ("severity", "rule", "where", "finding"), rows))
            rules = [
                (severity, rule, count, RULES[rule].advice)
                for (severity, rule), count in self.counts.items()
            ]
            found.append(Table("", ("severity", "rule", "findings", "what to do"), rules))
        sums = self._sums()
        rate = size(int(sums["bytes"] / max(self.seconds, 0.001)))
        header = (
            "partitions",
            "segments",
            "batches",
            "records",
            "read",
            "per second",
            "holes",
            "errors",
            "warnings",
            "notes",
        )
        row = (
            *(sums[name] for name in ("partitions", "segments", "batches", "records")),
            size(sums["bytes"]),
            rate,
            sums["holes"],
            *(self.found(severity) for severity in reversed(SEVERITIES)),
        )
        return [*found, Table("", header, [row])]

    def _sums(self) -> dict[str, int]:
        sums = {name: sum(each[name] for each in self.partitions) for name in _SUMS}
        return {"partitions": len(self.partitions), **sums}


def audit(
    spark: SparkSession,
    path: str | Sequence[str],
    target: str | None = None,
    *,
    topic: str | None = None,
    rules: Sequence[str] = (),
    severity: str = "note",
    form: str = "parquet",
    most: int = MOST_FINDINGS,
    task_bytes: int = TASK_BYTES,
    on_progress: OnProgress | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Audit:
    """Check every byte of log dirs and of the files beside the logs.

    Args:
        spark: session.
        path: log dirs, partition folders or .log files, also with wildcards; each executor must see them.
        target: folder for the tables `findings` and `partitions`; new, or empty.
        topic: regular expression that must match topics as a whole.
        rules: ids of the rules to show; by default all.
        severity: least severity to show: note, warning or error.
        form: format of the tables: one of FORMATS.
        most: most findings to return; the tables have all.
        task_bytes: bytes of logs for each task, about.
        on_progress: called with progress.
        clock: clock of the audit.

    Raises:
        OptionError: an option is wrong, there is nothing to check, or the target is not empty.
        SourceError: a path is not Kafka's.
        NotVisibleError: inside Spark's error: an executor does not see the driver's log dirs.
    """
    started = time.monotonic()
    _check_options(rules, severity, form)
    files = None if target is None else _empty_target(spark, target)
    plan = _planned(path, topic, task_bytes)
    watch = JobWatch(spark, "audit", on_progress)
    events = _events(spark, plan, clock).persist()
    try:
        with watch.step("check", 0.0, 0.95):
            partitions = _summaries(events)
            summaries = [row.asDict() for row in partitions.collect()]
        with watch.step("findings", 0.95, 1.0):
            chosen = _chosen(events, rules, severity)
            counts = _counts(chosen)
            first = _worst(chosen, most) if counts and most else []
            if files is not None:
                _write(chosen.drop("number"), sum(counts.values()), f"{files.uri}/findings", form)
                _write(partitions, len(summaries), f"{files.uri}/partitions", form)
    finally:
        events.unpersist()
    return Audit(
        plan.volume.paths,
        tuple(summaries),
        counts,
        tuple(first),
        target,
        time.monotonic() - started,
    )


def findings(
    spark: SparkSession,
    path: str | Sequence[str],
    *,
    topic: str | None = None,
    task_bytes: int = TASK_BYTES,
    clock: Clock = SYSTEM_CLOCK,
) -> DataFrame:
    """Return the findings of an audit as a frame, computed on each use.

    Columns: partition, topic, severity, rule, file, position, length (bytes), firstOffset, nextOffset
    (exclusive), sentence, advice, facts (JSON); null for unknown. Args and errors are those of `audit`.
    """
    events = _events(spark, _planned(path, topic, task_bytes), clock)
    return events.where("rule is not null").drop("number", "summary")


# -- before


def _check_options(rules: Sequence[str], severity: str, form: str) -> None:
    unknown = [rule for rule in rules if rule not in RULES]
    if unknown:
        raise OptionError(f"no rule is called {unknown[0]!r}; see kafkafs check --list-rules")
    if severity not in SEVERITIES:
        raise OptionError(f"no severity is called {severity!r}; there are {', '.join(SEVERITIES)}")
    if form not in FORMATS:
        raise OptionError(f"no such format: {form!r}; there are {', '.join(FORMATS)}")


def _empty_target(spark: SparkSession, target: str) -> TargetFiles:
    files = target_files(spark, target)
    if files.names():
        raise OptionError(f"the target {target} is not empty")
    return files


def _planned(path: str | Sequence[str], topic: str | None, task_bytes: int) -> AuditPlan:
    if task_bytes <= 0:
        raise OptionError(f"task_bytes is a number above 0, not {task_bytes}")
    paths = resolved([path] if isinstance(path, str) else path)
    source = open_source(paths)
    try:
        return plan_audit(source, Volume.of(paths, source), topic=topic, task_bytes=task_bytes)
    finally:
        source.close()


# -- the frames


def _events(spark: SparkSession, plan: AuditPlan, clock: Clock) -> DataFrame:
    import pickle

    from kafkafs.spark.jobs.audit_tasks import AuditTasks

    tasks = AuditTasks(plan.volume, plan.topic, clock.now_ms())
    rows = [(number, bytearray(pickle.dumps(units))) for number, units in enumerate(plan.tasks)]
    return (
        spark.createDataFrame(rows, "task int, units binary")
        .repartitionById(len(rows), "task")
        .mapInArrow(tasks.look, _SEEN)
        .repartitionById(plan.buckets, "bucket")
        .sortWithinPartitions("partition", "segment", "number")
        .mapInArrow(tasks.conclude, _SCHEMA)
    )


def _summaries(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    summary = F.from_json("summary", _SUMMARY)
    known = events.where("summary is not null").withColumn("summary", summary)
    return known.select("partition", "topic", "summary.*")


def _chosen(events: DataFrame, rules: Sequence[str], severity: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    bad_enough = SEVERITIES[SEVERITIES.index(severity) :]
    chosen = events.where("rule is not null").where(F.col("severity").isin(*bad_enough))
    if rules:
        chosen = chosen.where(F.col("rule").isin(*rules))
    return chosen.drop("summary")


def _counts(chosen: DataFrame) -> dict[tuple[str, str], int]:
    """Return the number of findings by severity and rule, the worst first."""
    rows = chosen.groupBy("severity", "rule").count().collect()
    rows.sort(key=lambda row: (-SEVERITIES.index(row["severity"]), row["rule"]))
    return {(row["severity"], row["rule"]): int(row["count"]) for row in rows}


def _worst(chosen: DataFrame, most: int) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    rank = F.array_position(F.array(*map(F.lit, SEVERITIES)), F.col("severity"))
    rows = chosen.orderBy(rank.desc(), "partition", "number").limit(most).drop("number").collect()
    found = [
        {name: value for name, value in row.asDict().items() if value is not None} for row in rows
    ]
    for each in found:
        if "facts" in each:
            each["facts"] = json.loads(each["facts"])
    return found


def _write(frame: DataFrame, rows: int, uri: str, form: str) -> None:
    options = {"header": "true"} if form == "csv" else {}
    files = frame.coalesce(1 + rows // _ROWS_PER_FILE)
    files.write.format(form).options(**options).mode("errorifexists").save(uri)


def _shown(finding: dict[str, Any]) -> tuple[str, ...]:
    """Return a finding as a row for people: severity, rule, place, and sentence."""
    where = str(finding["file"])
    if "position" in finding:
        where += f", byte {finding['position']}"
    if "firstOffset" in finding:
        where += f", offset {finding['firstOffset']}"
    return finding["severity"], finding["rule"], where, finding["sentence"]
