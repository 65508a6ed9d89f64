"""Text output of `kafkafs rebuild`: a line for each partition, its losses, and a closing line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from engine.log.segment.damage import Elsewhere
from engine.verdict.words import may_be_in
from kafkafs.amounts import counted
from kafkafs.cli.printing.terminal.output import say
from kafkafs.decode.shown_text import printable
from kafkafs.loss_words import FORGETS, time_span

if TYPE_CHECKING:
    from engine.rebuild.target.rebuilt import Rebuilt

_MOST_SHOWN = 5


def print_partitions(result: Rebuilt) -> None:
    """Print a line for each partition, its losses, and the left-out paths."""
    from engine.rebuild.selection import NOT_ASKED_FOR

    for report in result.partitions:
        start, end = report["logStartOffset"], report["logEndOffset"]
        line = f"{report['partition']}: offsets {start} to {end}"
        if "records" in report:
            line += (
                f", {report['records']} records in {report['batches']} batches,"
                f" {report['bytes']} bytes"
            )
        else:
            line += f", before {report['logEndOffsetBefore']}"
        say(printable(line))
        for sentence in _losses(report):
            say(printable(f"  {sentence}"))
    left_out = [each for each in result.left_out if each.reason != NOT_ASKED_FOR]
    left_out.sort(key=lambda each: not each.is_loss)
    for each in left_out[:_MOST_SHOWN]:
        say(printable(f"left out: {each.path}: {each.reason}"))
    if len(left_out) > _MOST_SHOWN:
        say(f"left out: {len(left_out) - _MOST_SHOWN} more, see --json")
    for each in result.made_anew:
        say(printable(f"made anew: {each.path}: {each.reason}"))


def closing_lines(result: Rebuilt, source: str, *, is_merged: bool) -> Iterator[str]:
    """Yield the closing lines: kept and missing records, the target, and what to do next.

    Args:
        result: the result.
        source: the source as the user named it.
        is_merged: whether there were further sources.
    """
    sums = "; ".join([_kept(result.partitions), *_missing(result)])
    if result.forgets_topics:
        yield FORGETS
    if result.target is None:
        yield f"nothing is written (--dry-run); there would be {sums}"
        return
    yield f"{printable(result.target)}: {sums}; synced and verified"
    if result.no_start is not None:
        yield printable(f"a broker does not start on it: {result.no_start}")
        return
    if result.strays:
        yield printable(_stray_words(result.strays))
    steps = []
    if result.manifest["lossTotals"]["partitions"] and not is_merged:
        steps.append("--merge OTHER takes what another replica still has of the missing offsets")
    if _replaces_source(result):
        steps.append(f"give it the place of {source} in log.dirs, and start the broker")
    if steps:
        yield printable(f"next: {'; then '.join(steps)}")


def _stray_words(strays: Sequence[str]) -> str:
    """Return what a start on the result does to the logs that its metadata does not assign to the node."""
    named = ", ".join(strays[:_MOST_SHOWN])
    more = f" and {len(strays) - _MOST_SHOWN} more" if len(strays) > _MOST_SHOWN else ""
    return (
        f"a start sets {counted(len(strays), 'log')} aside (-stray), which the metadata log in the result does not"
        f" assign to this node: {named}{more}"
    )


def _replaces_source(result: Rebuilt) -> bool:
    """Return whether the result has all of the source's log dir: then a broker can have it instead."""
    from engine.files.file_names import META_PROPERTIES

    options = result.manifest["options"]
    is_part = any(options[name] for name in ("topics", "partitions", "from", "to", "renames"))
    if is_part or any(each.is_loss for each in result.left_out):
        return False
    return any(each["path"] == META_PROPERTIES for each in result.manifest["files"])


def _kept(reports: list[dict[str, Any]]) -> str:
    partitions = counted(len(reports), "partition")
    if any("records" not in report for report in reports):
        return f"{partitions}, loaded as a broker does it"
    return f"{counted(sum(report['records'] for report in reports), 'record')} in {partitions}"


def _missing(result: Rebuilt) -> Iterator[str]:
    damaged = [report for report in result.partitions if report["lostSomething"]]
    left_out = [os.path.basename(each.path) for each in result.left_out if each.is_loss]
    if not damaged and not left_out and not result.lost_something:
        is_broker = any("records" not in report for report in result.partitions)
        yield (
            "no log ends earlier than before"
            if is_broker
            else "nothing is missing that was asked for"
        )
    totals = result.manifest["lossTotals"]
    if totals["offsets"]:
        offsets = counted(totals["offsets"], "offset")
        offsets = offsets if totals["certain"] else f"up to {offsets}"
        times = time_span(totals["timestampBefore"], totals["timestampAfter"])
        missing = f"missing: {offsets} in {counted(totals['partitions'], 'partition')}"
        yield f"{missing}, {times}" if times else missing
    unsure = sum(not report["lossTotals"]["offsets"] for report in damaged)
    if unsure:
        yield f"damage in {counted(unsure, 'partition')} may have cost records"
    if left_out:
        names = ", ".join(map(printable, left_out[:_MOST_SHOWN]))
        more = f" and {len(left_out) - _MOST_SHOWN} more" if len(left_out) > _MOST_SHOWN else ""
        yield f"left out: {names}{more}"


def _missing_row(gap: dict[str, Any], dropped: list[dict[str, Any]]) -> str:
    """Return the row of a hole: its offsets, its times, and why, unless a row of dropped bytes says that."""
    first, last = gap["firstOffset"], gap["nextOffset"] - 1
    row = f"offsets {first} to {last}" if last > first else f"offset {first}"
    if not gap["certain"]:
        row = f"up to {counted(gap['offsets'], 'record')}, {row}"
    times = time_span(gap["timestampBefore"], gap["timestampAfter"])
    row += f", {times}" if times else ""
    is_told = any(
        each["firstOffset"] is not None
        and each["firstOffset"] <= last
        and first <= (each["firstOffset"] if each["lastOffset"] is None else each["lastOffset"])
        for each in dropped
    )
    row = row if is_told else f"{row}: {gap['reason']}"
    return "; ".join(filter(None, (row, may_be_in(map(Elsewhere.of, gap.get("elsewhere", ()))))))


def _losses(report: dict[str, Any]) -> Iterator[str]:
    missing = report.get("losses", [])
    dropped = [each for each in report.get("dropped", []) if each["isLoss"]]
    for gap in missing[:_MOST_SHOWN]:
        yield f"missing: {_missing_row(gap, dropped)}"
    if report.get("lossCount", 0) > _MOST_SHOWN:
        yield f"missing: {report['lossCount'] - _MOST_SHOWN} more ranges, see --json"
    for each in dropped[:_MOST_SHOWN]:
        yield (
            f"dropped: {each['file']} at byte {each['position']}, {each['size']} bytes:"
            f" {each['kind']}, {each['reason']}"
        )
    if len(dropped) > _MOST_SHOWN:
        yield f"dropped: {len(dropped) - _MOST_SHOWN} more places, see --json"
    diverged = [each for each in report.get("dropped", []) if each["kind"] == "diverged"]
    for each in diverged[:_MOST_SHOWN]:
        yield (
            f"not taken: offsets {each['firstOffset']} to {each['lastOffset']} of {each['file']}:"
            f" {each['reason']}"
        )
    if len(diverged) > _MOST_SHOWN:
        yield f"not taken: {len(diverged) - _MOST_SHOWN} more ranges, see --json"
    for name in report.get("removed", [])[:_MOST_SHOWN]:
        yield f"removed: {name}"
    for each in report.get("changed", [])[:_MOST_SHOWN]:
        yield f"cut: {each['file']} from {each['size']} to {each['sizeAfter']} bytes"
    yield from report["notes"]
