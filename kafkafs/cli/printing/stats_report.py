"""Output of `kafkafs stats`: a table for people, or one JSON object a line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import click

from engine.check.log_check import PartitionSummary
from engine.check.log_statistics import (
    HOUR_MS,
    CodecCounts,
    LogStatistics,
    TimeCounts,
    add_codecs,
    joined_span,
)
from engine.check.rules.finding import Finding
from engine.json_facts import facts_of
from engine.verdict.loss import Loss
from engine.verdict.totals import LossTotals
from kafkafs.amounts import counted
from kafkafs.cli.printing.check_report import UNREAD
from kafkafs.cli.printing.terminal.bars import sparkline
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import duration, moment, print_json, print_table
from kafkafs.loss_words import closing

_HEADER = (
    "PARTITION", "BYTES", "BATCHES", "RECORDS", "CODECS", "RATIO", "PRODUCERS", "KEYLESS", "LATE",
    "FIRST", "LAST", "RECORDS-OVER-TIME",
)  # fmt: skip
_CODECS = ("CODEC", "BATCHES", "RECORDS", "BYTES", "UNCOMPRESSED", "RATIO", "RECORDS/BATCH")
_TOPICS = ("TOPIC", "PARTITIONS", "RECORDS", "LARGEST", "SKEW")
_HOURS = ("TOPIC", "FROM", "HOURS", "RECORDS", "RECORDS/S")
_SPARKS = 24
_UNDECODED = frozenset(
    {
        "batch-offsets",  # also of a batch that states fewer than no records
        "records-invalid",
        "records-count",
        "records-leftover",
        "records-compression",
        "records-codec",
    }
)


class StatsReport(ABC):
    """Receiver of partitions' statistics.

    Attributes:
        holes, hole_bytes: places that are no good batches, and so are not counted.
        losses: offsets that the partitions lost.
        undecoded: findings about batches with records that could not be decoded, or files that could not be read.
        leftovers: names of partitions that are files or folders that a broker set aside.
        copy_of: returns for JSON which of several copies a partition is read from.
    """

    def __init__(self) -> None:
        self.holes = 0
        self.hole_bytes = 0
        self.losses: list[Loss] = []
        self.leftovers: set[str] = set()
        self.copy_of: Callable[[str], dict[str, Any]] = lambda _: {}
        self.undecoded = 0
        self.partitions = 0
        self.records = 0
        self.size = 0
        self.codecs: dict[str, CodecCounts] = {}
        self.times = TimeCounts()
        self.topics: dict[str, list[int]] = {}
        self.first = self.last = -1

    def finding(self, finding: Finding) -> None:
        """Note a finding about records that could not be decoded."""
        if finding.rule in UNREAD or finding.rule in _UNDECODED:
            self.undecoded += 1 + finding.others

    @property
    def is_whole(self) -> bool:
        """Whether partitions were counted, with all their records."""
        return bool(self.partitions and not self.holes and not self.undecoded and not self.losses)

    def add(self, summary: PartitionSummary, topic: str) -> None:
        """Count and show a partition."""
        counts = summary.statistics
        assert counts is not None
        self.holes += len(summary.holes)
        self.hole_bytes += sum(hole.length for hole in summary.holes)
        self.losses += summary.losses
        self.partitions += 1
        self.records += summary.records
        self.size += summary.size
        add_codecs(self.codecs, counts.codecs)
        self.times.merge(counts.times)
        self.first, self.last = joined_span(
            (self.first, self.last), (counts.first_timestamp, counts.last_timestamp)
        )
        if summary.partition not in self.leftovers:
            known = self.topics.setdefault(topic, [0, 0, 0])
            known[0] += 1
            known[1] += summary.records
            known[2] = max(known[2], summary.records)
        self.show(summary, counts)

    def _mark(self, summary: PartitionSummary) -> dict[str, str]:
        """Return for JSON that a row is of a leftover."""
        return {"leftover": summary.partition} if summary.partition in self.leftovers else {}

    @abstractmethod
    def show(self, summary: PartitionSummary, counts: LogStatistics) -> None:
        """Show a partition."""

    @abstractmethod
    def end(self) -> None:
        """Show the sums."""

    def _print_uncounted(self) -> None:
        """Print a line on damage, and one on records that could not be read."""
        if self.holes:
            say(
                f"Not counted: {self.hole_bytes:,} damaged bytes in {counted(self.holes, 'hole')};"
                " see kafkafs check"
            )
        if self.losses:
            say(f"Not counted: {closing(LossTotals.of(self.losses))}; see kafkafs check")
        if self.undecoded:
            places = counted(self.undecoded, "place")
            say(f"Not counted: records of {places} that could not be read; see kafkafs check")


class JsonStats(StatsReport):
    """One JSON object a line."""

    def show(self, summary: PartitionSummary, counts: LogStatistics) -> None:
        """Print the statistics of a partition."""
        print_json(
            {
                "type": "partition",
                **facts_of(
                    summary,
                    "partition log_start_offset log_end_offset segments bytes=size batches records",
                ),
                "codecs": _codec_facts(counts.codecs),
                "controlBatches": counts.control_batches,
                "transactionalBatches": counts.transactional_batches,
                "producers": len(counts.producers),
                "recordsWithoutKey": counts.without_key,
                "recordsWithoutTime": counts.without_time,
                "firstTimestamp": _known(counts.first_timestamp),
                "lastTimestamp": _known(counts.last_timestamp),
                "lateBatches": counts.late_batches,
                "latestMs": counts.latest,
                "holes": len(summary.holes),
                "holeBytes": sum(hole.length for hole in summary.holes),
                "losses": [loss.to_json() for loss in summary.losses],
                **_time_facts(counts.times),
                **self._mark(summary),
                **self.copy_of(summary.partition),
            }
        )

    def end(self) -> None:
        """Print the sums."""
        print_json(
            {
                "type": "summary",
                **facts_of(self, "partitions bytes=size records"),
                "codecs": _codec_facts(self.codecs),
                "holes": self.holes,
                "holeBytes": self.hole_bytes,
                "lossTotals": LossTotals.of(self.losses).to_json(),
                "notDecoded": self.undecoded,
                **_time_facts(self.times),
            }
        )


class TextStats(StatsReport):
    """Tables of partitions, codecs and topics, and a closing line."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[object, ...]] = []

    def show(self, summary: PartitionSummary, counts: LogStatistics) -> None:
        """Keep the row of a partition."""
        sizes = counts.codecs.values()
        late = f"{counts.late_batches} ≤{duration(counts.latest)}" if counts.late_batches else None
        self._rows.append(
            (
                summary.partition,
                summary.size,
                summary.batches,
                summary.records,
                ",".join(sorted(counts.codecs)),
                _ratio(sum(each.plain for each in sizes), sum(each.size for each in sizes)),
                len(counts.producers) or None,
                counts.without_key or None,
                late,
                _minute(counts.first_timestamp),
                _minute(counts.last_timestamp),
                _spark(counts.times, counts.first_timestamp, counts.last_timestamp),
            )
        )

    def end(self) -> None:
        """Print the tables."""
        print_table(_HEADER, self._rows)
        skewed = [
            (topic, number, records, largest, _ratio(largest * number, records))
            for topic, (number, records, largest) in sorted(self.topics.items())
            if number > 1
        ]
        if skewed:
            click.echo()
            print_table(_TOPICS, skewed)
        if self.codecs:
            click.echo()
            by_size = sorted(self.codecs.items(), key=lambda item: -item[1].size)
            print_table(_CODECS, (_codec_row(name, counts) for name, counts in by_size))
        if self.first >= 0:
            line = _spark(self.times, self.first, self.last, 2 * _SPARKS)
            say(f"\n{_minute(self.first)} {line} {_minute(self.last)}")
        amounts = (counted(self.partitions, "partition"), counted(self.records, "record"))
        say(f"\n{', '.join(amounts)}, {self.size:,} bytes")
        self._print_uncounted()


class HourStats(StatsReport):
    """Records by topic and hour: a table, or one JSON object a line.

    Args:
        as_json: whether to print JSON.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._times: dict[str, TimeCounts] = {}

    def add(self, summary: PartitionSummary, topic: str) -> None:
        """Count a partition."""
        super().add(summary, topic)
        assert summary.statistics is not None
        self._times.setdefault(topic, TimeCounts()).merge(summary.statistics.times)

    def show(self, summary: PartitionSummary, counts: LogStatistics) -> None:
        """Show nothing: a topic ends with its last partition."""

    def end(self) -> None:
        """Print the hours of each topic."""
        rows = [
            (topic, step * times.width, times.width, count)
            for topic, times in sorted(self._times.items())
            for times in [times.at_least(HOUR_MS)]
            for step, count in sorted(times.counts.items())
        ]
        if self._as_json:
            for topic, start, width, count in rows:
                rate = {"records": count, "recordsPerSecond": _rate(count, width)}
                place = {"topic": topic, "timestamp": start, "time": moment(start)}
                print_json({"type": "hours", **place, "hours": width // HOUR_MS, **rate})
            return
        print_table(
            _HOURS,
            [
                (topic, _minute(start), width // HOUR_MS, count, f"{_rate(count, width):.3f}")
                for topic, start, width, count in rows
            ],
        )
        self._print_uncounted()


def _rate(count: int, width: int) -> float:
    return count * 1000 / width


def _spark(times: TimeCounts, first: int, last: int, width: int = _SPARKS) -> str:
    if first < 0:
        return ""
    # From the beginning of the first step to the end of the last one, and no column finer than a step.
    step = times.width
    start, end = first // step * step, (last // step + 1) * step
    return sparkline(times.sums(start, end, min(width, (end - start) // step)))


def _codec_row(name: str, counts: CodecCounts) -> tuple[object, ...]:
    each = f"{counts.records / counts.batches:.1f}"
    return (
        *(name, counts.batches, counts.records, counts.size, counts.plain),
        *(_ratio(counts.plain, counts.size), each),
    )


def _codec_facts(codecs: dict[str, CodecCounts]) -> dict[str, Any]:
    return {
        name: facts_of(counts, "batches records bytes=size uncompressedBytes=plain")
        for name, counts in sorted(codecs.items())
    }


def _time_facts(times: TimeCounts) -> dict[str, Any]:
    """Return the records by time: the length of a step, and pairs of its beginning and its records."""
    found = sorted(times.counts.items())
    return {"stepMs": times.width, "times": [[step * times.width, count] for step, count in found]}


def _ratio(number: int, of: int) -> str | None:
    return f"{number / of:.2f}" if of else None


def _minute(timestamp: int) -> str | None:
    known = moment(timestamp)
    return None if known is None else known[:16] + "Z" if known.endswith("Z") else known


def _known(timestamp: int) -> int | None:
    return timestamp if timestamp >= 0 else None
