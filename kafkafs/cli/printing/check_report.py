"""Output of `kafkafs check`: text for people, or one JSON object a line."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import click

from engine.check.log_check import PartitionSummary
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.check.scope import Scope
from engine.files.read_failures import IMAGE_FIRST
from engine.json_facts import facts_of
from engine.verdict.holes import Hole
from engine.verdict.loss import Loss
from engine.verdict.totals import LossTotals
from kafkafs.amounts import counted
from kafkafs.cli.printing.losses import print_losses
from kafkafs.cli.printing.terminal.bars import strip
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import print_json, print_table
from kafkafs.decode.shown_text import printable
from kafkafs.loss_words import FORGETS, NEXT_STEP, closing

_TABLE = ("partition", "errors", "warnings", "notes", "holes", "bytes lost")
_SHOWN_HOLES = 10
_SHOWN_STRIPS = 10
UNREAD = frozenset(
    {"file-unreadable", "file-link", "records-not-checked", "snapshot-not-compared", "unreadable"}
)
"""Rules of findings about files or bytes that were not read, or only in part."""
_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


class FindingFilter(NamedTuple):
    """Filter on findings.

    Attributes:
        rules: ids of the rules that pass; empty for all.
        least: the mildest severity that passes.
    """

    rules: tuple[str, ...] = ()
    least: Severity = Severity.NOTE

    @property
    def severities(self) -> list[Severity]:
        """Severities that pass, the worst first."""
        order = list(_COLORS)
        return order[: order.index(self.least) + 1]

    @property
    def words(self) -> str:
        """The --rule options as text; empty when all rules pass."""
        return ", ".join(f"only --rule {rule}" for rule in self.rules)

    def takes(self, finding: Finding) -> bool:
        """Return whether a finding passes."""
        return finding.severity in self.severities and (
            not self.rules or finding.rule in self.rules
        )


class CheckReport(ABC):
    """Receiver of findings and partition summaries, in the order of the check.

    Args:
        asked: filter on findings; findings that do not pass count in `unread` alone.

    Attributes:
        counts: shown findings by severity.
        unread: number of findings about files or bytes that were not read.
        is_failing_disk: whether a device failed to read some bytes.
        lost_partitions: partitions whose folders are lost.
        rules: number of findings by rule, shown or not.
        scope: what was looked at; None for everything.
        not_looked_at: number of partitions that were left when the time was over.
        forgets_topics: whether the log dirs lack the metadata log, which is no finding.
    """

    def __init__(self, asked: FindingFilter) -> None:
        self.counts: Counter[Severity] = Counter()
        self.unread = 0
        self._asked = asked
        self.is_failing_disk = False
        self.rules: Counter[str] = Counter()
        self.scope: Scope | None = None
        self.not_looked_at = 0
        self.forgets_topics = False
        self.summaries: list[PartitionSummary] = []
        self.lost_partitions: list[Loss] = []

    @property
    def is_unsound(self) -> bool:
        """Whether there were errors or warnings, or nothing to check."""
        found = self.counts[Severity.ERROR] or self.counts[Severity.WARNING]
        return bool(found or self.lost_partitions or not (self.summaries or self._is_empty_part))

    @property
    def _is_empty_part(self) -> bool:
        """Whether there was nothing to look at in the part that was asked for."""
        return self.scope is not None and self.scope.total > 0 and not self.scope.looked_at

    def finding(self, finding: Finding) -> None:
        """Count a finding, and show a finding that passes the filter."""
        self.unread += finding.rule in UNREAD
        self.rules[finding.rule] += 1 + finding.others
        if not self.is_failing_disk and finding.is_of_device:
            self.is_failing_disk = True
            self.advise(IMAGE_FIRST)
        if not self._asked.takes(finding):
            return
        self.counts[finding.severity] += 1
        self.show(finding)

    @abstractmethod
    def advise(self, sentence: str) -> None:
        """Print advice that comes before any other, as soon as it is known."""

    @abstractmethod
    def show(self, finding: Finding) -> None:
        """Print a finding."""

    @abstractmethod
    def partition(self, summary: PartitionSummary) -> None:
        """Take the summary of a finished partition."""

    @abstractmethod
    def end(self) -> None:
        """Print the end of the report."""

    @property
    def losses(self) -> list[Loss]:
        """The losses of all partitions, and the lost partitions."""
        return [loss for each in self.summaries for loss in each.losses] + self.lost_partitions

    def summary(self) -> dict[str, Any]:
        """Return the sums, and those of the losses."""
        totals = LossTotals.of(self.losses).to_json()
        return {**self.totals(), "lossTotals": totals, "forgetsTopics": self.forgets_topics}

    def totals(self) -> dict[str, Any]:
        """Return the sums over all partitions."""
        fields = ("segments", "size", "batches", "records")
        sums = {name: sum(getattr(each, name) for each in self.summaries) for name in fields}
        holes = [hole for each in self.summaries for hole in each.holes]
        return {
            "partitions": len({each.partition for each in self.summaries}),
            **sums,
            "holes": len(holes),
            "holeBytes": sum(hole.length for hole in holes),
            **{_plural(each.value): self.counts[each] for each in self._asked.severities},
            "notRead": self.unread,
            **({} if self.scope is None else {"scope": self.scope.to_json()}),
            **({"partitionsNotLookedAt": self.not_looked_at} if self.not_looked_at else {}),
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
        """Print the counts and the holes of a partition."""
        self.summaries.append(summary)
        print_json(
            {
                "type": "partition",
                **facts_of(
                    summary,
                    "partition live=is_live log_start_offset log_end_offset segments bytes=size "
                    "batches records",
                ),
                "found": {severity.value: summary.found[severity.value] for severity in _COLORS},
                "holes": [hole.to_json() for hole in summary.holes],
                "losses": [loss.to_json() for loss in summary.losses],
            }
        )

    def end(self) -> None:
        """Print the sums."""
        for lost in self.lost_partitions:
            print_json({"type": "loss", **lost.to_json()})
        print_json({"type": "summary", **self.summary()})


class TextReport(CheckReport):
    """Findings under their partition, each advice once, a table at the end."""

    def __init__(self, asked: FindingFilter) -> None:
        super().__init__(asked)
        self._partition: str | None = None
        self._advised: set[str] = set()

    def advise(self, sentence: str) -> None:
        """Print the advice between empty lines."""
        say(click.style(f"\n{sentence}\n", fg="red"))

    def show(self, finding: Finding) -> None:
        """Print a finding, and its advice when that is new."""
        if finding.partition != self._partition:
            self._partition = finding.partition
            say(printable(finding.partition) or "log dir")
        severity = click.style(f"{finding.severity.value:<8}", fg=_COLORS[finding.severity])
        say(f"  {severity}{finding.rule}: {printable(finding.text)}", hang=10)
        say(f"          {printable(_where(finding))}", hang=12)
        if finding.advice not in self._advised:
            self._advised.add(finding.advice)
            say(f"          → {finding.advice}")

    def partition(self, summary: PartitionSummary) -> None:
        """Print the holes, and the damaged files to scale."""
        self.summaries.append(summary)
        holes = summary.holes
        for hole in holes[:_SHOWN_HOLES]:
            say(f"  hole    {printable(_hole_line(hole))}")
        if len(holes) > _SHOWN_HOLES:
            say(f"  hole    {len(holes) - _SHOWN_HOLES} more; --json has them all")
        for line in _strip_lines(holes):
            say(line)

    def end(self) -> None:
        """Print the table of partitions with errors or warnings, and the sums."""
        hurt = [each for each in self.summaries if each.found["error"] or each.found["warning"]]
        if hurt:
            click.echo()
            rows = [_row(each) for each in hurt]
            print_table(_TABLE, rows, has_numbers=True)
            click.echo()
        losses = self.losses
        if losses:
            print_losses(losses)
            click.echo()
        say(self._closing(self.totals()))
        if self.scope is not None:
            say(_scope_sentence(self.scope))
        if self.not_looked_at:
            left = counted(self.not_looked_at, "partition")
            say(f"The time was over: {left} not looked at, of which nothing is known.")
        if self.unread:
            name = "finding names" if self.unread == 1 else "findings name"
            say(f"Not everything was read: {self.unread:,} {name} the unread parts.")
        if self.forgets_topics:
            say(FORGETS)
        if losses:
            say(f"{closing(LossTotals.of(losses))}; {NEXT_STEP}")

    def _closing(self, sums: dict[str, Any]) -> str:
        """Return the closing line: amounts read, and findings by severity."""
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


def _scope_sentence(scope: Scope) -> str:
    """Return what was looked at, and that the rest was not."""
    facts, is_sample = scope.facts, scope.alone is not None
    if is_sample:
        words, noun = f"Sample of {facts['samplePercent']:g}% (--seed {facts['seed']})", "segment"
    else:
        words, noun = f"Part {facts['part']} of {facts['parts']}", "partition"
    text = (
        f"{words}: {scope.looked_at:,} of {counted(scope.total, noun)},"
        f" {scope.bytes:,} of {scope.total_bytes:,} bytes of records."
    )
    if left := scope.total - scope.looked_at:
        text += f" {counted(left, noun)} not looked at: nothing is known of them."
    if is_sample:
        text += " Each segment was checked on its own, without what spans segments."
    return text


def _where(finding: Finding) -> str:
    """Return file, bytes and offsets of a finding."""
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


def _strip_lines(holes: Sequence[Hole]) -> Iterator[str]:
    """Yield a line for each damaged file: its bytes from the first to the last, to scale."""
    files = [(file, list(found)) for file, found in groupby(holes, attrgetter("file"))]
    for file, found in files[:_SHOWN_STRIPS]:
        size = found[0].file_size
        drawn = strip(size, ((hole.position, hole.length) for hole in found))
        name = printable(os.path.basename(file))
        yield f"  strip   [{drawn}] {name}, {size:,} bytes, X: {counted(len(found), 'hole')}"
    if len(files) > _SHOWN_STRIPS:
        yield f"  strip   {len(files) - _SHOWN_STRIPS} more damaged files"


def _row(summary: PartitionSummary) -> tuple[str, ...]:
    lost = sum(hole.length for hole in summary.holes)
    counts = (summary.found[severity.value] for severity in _COLORS)
    return (summary.partition, *map(str, counts), str(len(summary.holes)), str(lost))


def _plural(noun: str) -> str:
    return noun + ("es" if noun.endswith("ch") else "s")
