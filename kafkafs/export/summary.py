"""Result of an export: amounts by topic, for programs and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.units import Offset
from kafkafs.export.folders import NO_DAY, place_of
from kafkafs.export.ledger import DAMAGE, Done
from kafkafs.job_summary import Table, size


class Gap(NamedTuple):
    """Offsets [start, stop) of a partition that were deleted before an export went on."""

    partition: str
    start: Offset
    stop: Offset


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """Result of an export.

    Attributes:
        target: URI of the target.
        form: format of the files.
        chunks: chunks that this run wrote.
        before: chunks of earlier runs.
        gaps: offsets that are missing between an earlier run and this one.
        untyped: topics to which no schema gives the types that were asked for.
        unread: number of partitions that could not be read, and are missing.
        unmet: topics, and fields that the mask names and that no record had.
    """

    target: str
    form: str
    chunks: Sequence[Done] = field(repr=False)
    before: Sequence[Done] = field(repr=False)
    gaps: Sequence[Gap] = ()
    untyped: Sequence[str] = ()
    unread: int = 0
    unmet: Sequence[tuple[str, str]] = ()

    @property
    def records(self) -> int:
        """Number of records that this run wrote."""
        return sum(sum(chunk.records.values()) for chunk in self.chunks)

    @property
    def damaged(self) -> int:
        """Number of places that this run could not read; each is a line below _export/damage."""
        return sum(chunk.damaged for chunk in self.chunks)

    @property
    def findings(self) -> int:
        """Number of damaged places, of gaps, and of fields of the mask that no record had."""
        return self.damaged + len(self.gaps) + len(self.unmet)

    @property
    def misfits(self) -> Counter[str]:
        """Number of keys and values that do not fit the types of their columns, by topic."""
        found = Counter[str]()
        for chunk in self.chunks:
            found.update(chunk.misfits)
        return found

    @property
    def untimed(self) -> Counter[str]:
        """Number of timestamps that are null because microseconds do not hold them, by topic."""
        found = Counter[str]()
        for chunk in self.chunks:
            found.update(chunk.untimed)
        return found

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON."""
        topics = _by_topic(self.chunks)
        earlier = sum(sum(chunk.records.values()) for chunk in self.before)
        return {
            "target": self.target,
            "format": self.form,
            "records": self.records,
            "recordsBefore": earlier,
            "bytesRead": sum(chunk.source_bytes for chunk in self.chunks),
            "bytesWritten": sum(topic["bytes"] for topic in topics),
            "files": sum(topic["files"] for topic in topics),
            "damagedPlaces": self.damaged,
            "unreadPartitions": self.unread,
            "gaps": [
                {"partition": gap.partition, "firstOffset": gap.start, "nextOffset": gap.stop}
                for gap in self.gaps
            ],
            "untypedTopics": list(self.untyped),
            "unmetMaskFields": [{"topic": topic, "path": path} for topic, path in self.unmet],
            "misfits": dict(sorted(self.misfits.items())),
            "untimed": dict(sorted(self.untimed.items())),
            "topics": topics,
        }

    def tables(self) -> list[Table]:
        """Return tables of topics, and of amounts."""
        topics = _by_topic(self.chunks)
        rows: list[Sequence[object]] = [
            (
                *(topic["topic"], topic["partitions"], topic["records"]),
                *(topic["files"], size(topic["bytes"]), topic["firstDay"], topic["lastDay"]),
            )
            for topic in topics
        ]
        facts = self.facts()
        written = size(facts["bytesWritten"])
        rows.append(("total", None, facts["records"], facts["files"], written, None, None))
        header = ("topic", "partitions", "records", "files", "size", "first day", "last day")
        lines: list[tuple[str, object]] = [
            ("read", size(facts["bytesRead"])),
            ("written", f"{self.target} ({self.form})"),
        ]
        if self.before:
            lines.append(("there before", f"{facts['recordsBefore']} records"))
        if self.untyped:
            lines.append(("decoded as JSON", f"{', '.join(self.untyped)}: no schema gives types"))
        for topic, count in sorted(self.misfits.items()):
            text = f"{topic}: {count} keys or values, which are null; their notes say why"
            lines.append(("do not fit", text))
        for topic, count in sorted(self.untimed.items()):
            text = (
                f"{topic}: {count} timestamps, which are null; the column timestampMillis has them"
            )
            lines.append(("do not fit", text))
        if self.damaged:
            lines.append(("damaged", f"{self.damaged} places, see {self.target}/{DAMAGE}"))
        for gap in self.gaps:
            missing = (
                f"{gap.partition}: offsets {gap.start} to {gap.stop - 1}, deleted before this run"
            )
            lines.append(("missing", missing))
        return [Table("", header, rows), Table("", ("", ""), lines)]


def _by_topic(chunks: Sequence[Done]) -> list[dict[str, Any]]:
    """Return partitions, records, files, bytes and days of each topic."""
    partitions: dict[str, set[str]] = {}
    found: dict[str, dict[str, Any]] = {}
    for chunk in chunks:
        for name in chunk.ranges:
            partitions.setdefault(name.rpartition("-")[0], set()).add(name)
        for topic, count in chunk.records.items():
            facts = found.setdefault(topic, {"records": 0, "files": 0, "bytes": 0, "days": set()})
            facts["records"] += count
        for moved in chunk.files:
            place = place_of(moved.path)
            if place is None:
                continue
            topic, day = place
            facts = found[topic]
            facts["files"] += 1
            facts["bytes"] += moved.size
            if day != NO_DAY:
                facts["days"].add(day)
    return [
        {
            "topic": topic,
            "partitions": len(partitions.get(topic, ())),
            "records": facts["records"],
            "files": facts["files"],
            "bytes": facts["bytes"],
            "firstDay": min(facts["days"], default=None),
            "lastDay": max(facts["days"], default=None),
        }
        for topic, facts in sorted(found.items())
    ]
