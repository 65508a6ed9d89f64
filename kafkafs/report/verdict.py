"""The verdict of a report: what is wrong, the worst first, in a line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.verdict.totals import LossTotals
from kafkafs.amounts import count, counted, size, without_quotes
from kafkafs.loss_words import NEXT_STEP, closing
from kafkafs.report.facts import SourceFacts


class Sentence(NamedTuple):
    """A sentence of the verdict.

    Attributes:
        level: "error", "warning" or "fine".
        text: the sentence.
        link: id of the section with the details.
    """

    level: str
    text: str
    link: str


def verdict(facts: SourceFacts) -> list[Sentence]:
    """Return the sentences, the worst first; always at least one."""
    order = {"error": 0, "warning": 1, "fine": 2}
    return sorted(_sentences(facts), key=lambda each: order[each.level])


def _sentences(facts: SourceFacts) -> Iterator[Sentence]:
    errors, warnings = facts.found("error"), facts.found("warning")
    hurt = sum(each.state in ("error", "warning") for each in facts.partitions)
    if errors or warnings:
        counts = " and ".join(
            counted(number, word)
            for number, word in ((errors, "error"), (warnings, "warning"))
            if number
        )
        are = "is" if hurt == 1 else "are"
        place = (
            f"; {hurt:,} of {counted(len(facts.partitions), 'partition')} {are} affected"
            if hurt
            else ""
        )
        yield Sentence(
            "error" if errors else "warning", f"The check found {counts}{place}.", "findings"
        )
    elif not facts.partitions:
        yield Sentence("error", "Nothing was checked: no partition could be read.", "source")
    elif not facts.records:
        yield Sentence("fine", "There was no record to check, and no damage was found.", "findings")
    elif not facts.unread and not facts.losses:
        yield Sentence(
            "fine",
            f"No damage: all {count(facts.records)} records were read and checked.",
            "findings",
        )
    missing = closing(LossTotals.of(facts.losses))
    if missing:
        yield Sentence("error", f"{missing[0].upper()}{missing[1:]}; {NEXT_STEP}.", "losses")
    lost = sum(each.hole_bytes for each in facts.partitions)
    if lost:
        files = sum(len(each.damaged) for each in facts.partitions)
        yield Sentence(
            "error", f"Damage covers {size(lost)} in {counted(files, 'file')}.", "damage"
        )
    if facts.unread:
        yield Sentence(
            "error", f"{counted(len(facts.unread), 'place')} could not be read.", "source"
        )
    if facts.notes:
        yield Sentence("warning", "Not everything could be found out.", "source")
    yield from _start(facts)
    if facts.hanging:
        text = f"{counted(facts.hanging, 'transaction')} will never end without help."
        yield Sentence("error", text, "transactions")


def _start(facts: SourceFacts) -> Iterator[Sentence]:
    start = facts.start
    if start.skipped:
        return
    broker = f"a {start.version} broker"
    reason = without_quotes(start.reason)
    if start.outcome == "broker-does-not-start":
        yield Sentence("error", f"{broker.capitalize()} would not start: {reason}.", "start")
        return
    if start.outcome == "unknown":
        yield Sentence("warning", f"What {broker} would do is unknown: {reason}.", "start")
        return
    if start.outcome == "log-dir-offline":
        text = f"{broker.capitalize()} would start without a log dir: {reason}."
        yield Sentence("error", text, "start")
    if start.made_anew:
        partitions = counted(start.made_anew, "partition")
        held = f", which held {counted(start.lost_offsets, 'offset')}" if start.lost_offsets else ""
        text = f"A start of {broker} would make {partitions} anew, from offset 0 on{held}."
        yield Sentence("error", text, "start")
    yield from _loaded(facts, broker)


def _loaded(facts: SourceFacts, broker: str) -> Iterator[Sentence]:
    """Yield what a start takes, if the broker starts."""
    start = facts.start
    if start.lost_bytes:
        lost = f"{counted(start.lost_records, 'record')} ({size(start.lost_bytes)})"
        yield Sentence("error", f"A start of {broker} would lose {lost}.", "start")
    if start.given_again:
        given = f"give {counted(start.given_again, 'offset')} to other records than before"
        yield Sentence("error", f"A start of {broker} would {given}.", "start")
    for risk in start.risks:
        yield Sentence("warning", f"{risk[0].upper()}{risk[1:]}.", "start")
    if start.lost_bytes or start.made_anew or start.given_again:
        return
    if start.changed:
        text = f"A start of {broker} would change or serve errors from {counted(len(start.changed), 'log')}."
        yield Sentence("warning", text, "start")
    elif any(each.hole_bytes for each in facts.partitions):
        text = f"{broker.capitalize()} would start, take no record away, and serve errors at the damage."
        yield Sentence("warning", text, "start")
    elif start.is_harmless:
        yield Sentence("fine", f"A start of {broker} would take no record away.", "start")
