"""What `kafkafs check` prints: for people, or one JSON object a line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import NamedTuple

import click

from engine.check.batches.holes import Hole
from engine.check.log_check import PartitionSummary
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.files.read_failures import IMAGE_FIRST
from kafkafs.cli.printing.table import counted, print_json
from kafkafs.decode.shown_text import printable

_SHOWN_HOLES = 10
UNREAD = frozenset(
    {"file-unreadable", "file-link", "records-not-checked", "snapshot-not-compared", "unreadable"}
)
"""Rules whose findings name something that was not looked at, or not wholly."""
_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


class Asked(NamedTuple):
    """Which findings to show.

    Attributes:
        rules: their rules; empty for all.
        least: the mildest severity.
    """

    rules: tuple[str, ...] = ()
    least: Severity = Severity.NOTE

    @property
    def severities(self) -> list[Severity]:
        """Those that are shown, the worst first."""
        order = list(_COLORS)
        return order[: order.index(self.least) + 1]

    @property
    def words(self) -> str:
        """The choice of rules as it was made; empty for all of them."""
        return ", ".join(f"only --rule {rule}" for rule in self.rules)

    def takes(self, finding: Finding) -> bool:
        """Whether to show a finding."""
        return finding.severity in self.severities and (
            not self.rules or finding.rule in self.rules
        )


class CheckReport(ABC):
    """Takes findings and summaries as they come.

    Args:
        asked: which findings to show; of the others only those are counted that name what was not read.

    Attributes:
        counts: findings by severity.
        unread: findings that name something that was not looked at.
        is_failing_disk: whether a device could not read some of its bytes.
    """

    def __init__(self, asked: Asked) -> None:
        self.counts: Counter[Severity] = Counter()
        self.unread = 0
        self._asked = asked
        self.is_failing_disk = False
        self.summaries: list[PartitionSummary] = []

    @property
    def is_unsound(self) -> bool:
        """Whether anything but notes was found, or there was nothing to check."""
        found = self.counts[Severity.ERROR] or self.counts[Severity.WARNING]
        return bool(found or not self.summaries)

    def finding(self, finding: Finding) -> None:
        """One more finding."""
        self.unread += finding.rule in UNREAD
        if not self.is_failing_disk and finding.is_of_device:
            self.is_failing_disk = True
            self.advise(IMAGE_FIRST)
        if not self._asked.takes(finding):
            return
        self.counts[finding.severity] += 1
        self.show(finding)

    @abstractmethod
    def advise(self, sentence: str) -> None:
        """Print what to do before anything else, as soon as that is known."""

    @abstractmethod
    def show(self, finding: Finding) -> None:
        """Print a finding."""

    @abstractmethod
    def partition(self, summary: PartitionSummary) -> None:
        """A partition is done."""

    @abstractmethod
    def end(self) -> None:
        """Everything is done."""

    def totals(self) -> dict[str, int]:
        """Of all partitions together."""
        fields = ("segments", "size", "batches", "records")
        sums = {name: sum(getattr(each, name) for each in self.summaries) for name in fields}
        holes = [hole for each in self.summaries for hole in each.holes]
        return {
            "partitions": len(self.summaries),
            **sums,
            "holes": len(holes),
            "holeBytes": sum(hole.length for hole in holes),
            **{_plural(each.value): self.counts[each] for each in self._asked.severities},
            "notRead": self.unread,
        }


class JsonReport(CheckReport):
    """One JSON object a line."""

    def advise(self, sentence: str) -> None:
        """Print the advice."""
        print_json({"type": "advice", "advice": sentence})

    def show(self, finding: Finding) -> None:
        """Print a finding."""
        print_json({"type": "finding", **finding.to_json()})

    def partition(self, summary: PartitionSummary) -> None:
        """Print what was looked at, and the map of holes."""
        self.summaries.append(summary)
        print_json(
            {
                "type": "partition",
                "partition": summary.partition,
                "live": summary.is_live,
                "logStartOffset": summary.log_start_offset,
                "logEndOffset": summary.log_end_offset,
                "segments": summary.segments,
                "bytes": summary.size,
                "batches": summary.batches,
                "records": summary.records,
                "found": {severity.value: summary.found[severity.value] for severity in _COLORS},
                "holes": [hole.to_json() for hole in summary.holes],
            }
        )

    def end(self) -> None:
        """Print the sums."""
        print_json({"type": "summary", **self.totals()})


class TextReport(CheckReport):
    """Findings under their partition; what to do once for each rule; a table at the end."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._partition: str | None = None
        self._advised: set[str] = set()

    def advise(self, sentence: str) -> None:
        """Print the advice in lines of its own."""
        click.secho(f"\n{sentence}\n", fg="red")

    def show(self, finding: Finding) -> None:
        """Print a finding: what and where, and what to do when the rule is new."""
        if finding.partition != self._partition:
            self._partition = finding.partition
            click.echo(printable(finding.partition) or "log dir")
        severity = click.style(f"{finding.severity.value:<8}", fg=_COLORS[finding.severity])
        click.echo(f"  {severity}{finding.rule}: {printable(finding.sentence)}")
        click.echo(f"          {printable(_where(finding))}")
        if finding.rule not in self._advised:
            self._advised.add(finding.rule)
            click.echo(f"          → {finding.advice}")

    def partition(self, summary: PartitionSummary) -> None:
        """Print the holes."""
        self.summaries.append(summary)
        holes = summary.holes
        for hole in holes[:_SHOWN_HOLES]:
            click.echo(f"  hole    {printable(_hole_line(hole))}")
        if len(holes) > _SHOWN_HOLES:
            click.echo(f"  hole    {len(holes) - _SHOWN_HOLES} more; --json has them all")

    def end(self) -> None:
        """Print the table of partitions with findings, and the sums."""
        hurt = [each for each in self.summaries if each.found["error"] or each.found["warning"]]
        if hurt:
            click.echo()
            rows = [_row(each) for each in hurt]
            for line in _table(
                ("partition", "errors", "warnings", "notes", "holes", "bytes lost"), rows
            ):
                click.echo(line)
            click.echo()
        click.echo(self._closing(self.totals()))
        if self.unread:
            what = "finding names" if self.unread == 1 else "findings name"
            click.echo(f"Not everything was read: {self.unread:,} {what} what was not.")

    def _closing(self, sums: dict[str, int]) -> str:
        """What was read, and how much was found in it."""
        counts = ", ".join(
            counted(sums[_plural(each.value)], each.value) for each in self._asked.severities
        )
        counts += f" ({self._asked.words})" if self._asked.rules else ""
        if not sums["partitions"]:
            return (
                f"Nothing was checked: no partition was read. In the log dir's own files: {counts}"
            )
        read = ", ".join(
            counted(sums[_plural(noun)], noun)
            for noun in ("partition", "segment", "batch", "record")
        )
        nothing = "" if sums["batches"] or sums["holes"] else " (there was no record to check)"
        return f"{read}, {sums['size']:,} bytes{nothing}: {counts}"


def _where(finding: Finding) -> str:
    """File, bytes and offsets of a finding."""
    text = finding.file
    if finding.position is not None:
        text += f", byte {finding.position}"
        if finding.length is not None:
            text += f" to {finding.position + finding.length}"
    if finding.first_offset is not None:
        end = "" if finding.next_offset is None else str(finding.next_offset)
        text += f", offsets {finding.first_offset}..{end}"
    return text


def _hole_line(hole: Hole) -> str:
    end = "" if hole.next_offset is None else str(hole.next_offset)
    return (
        f"{hole.file}, byte {hole.position} to {hole.position + hole.length}"
        f" ({hole.length} bytes), offsets {hole.first_offset}..{end}"
    )


def _row(summary: PartitionSummary) -> tuple[str, ...]:
    lost = sum(hole.length for hole in summary.holes)
    counts = (summary.found[severity.value] for severity in _COLORS)
    name = printable(summary.partition)
    return (name, *map(str, counts), str(len(summary.holes)), str(lost))


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as they must be, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]


def _plural(noun: str) -> str:
    return noun + ("es" if noun.endswith("ch") else "s")
