"""Text output of `kafkafs rebuild`: a line for each partition, its losses, and a closing line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from kafkafs.amounts import counted
from kafkafs.decode.shown_text import printable

if TYPE_CHECKING:
    from engine.rebuild.rebuilt import Rebuilt

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
        click.echo(printable(line))
        for sentence in _losses(report):
            click.echo(printable(f"  {sentence}"))
    left_out = [each for each in result.left_out if each.reason != NOT_ASKED_FOR]
    left_out.sort(key=lambda each: not each.is_loss)
    for each in left_out[:_MOST_SHOWN]:
        click.echo(printable(f"left out: {each.path}: {each.reason}"))
    if len(left_out) > _MOST_SHOWN:
        click.echo(f"left out: {len(left_out) - _MOST_SHOWN} more, see --json")


def closing_line(result: Rebuilt) -> str:
    """Return the closing line: kept and missing records, and the target."""
    sums = "; ".join([_kept(result.partitions), *_missing(result)])
    if result.target is None:
        return f"nothing is written (--dry-run); there would be {sums}"
    return f"{printable(result.target)}: {sums}; synced and verified"


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
    short = [report for report in damaged if _missing_offsets(report)]
    if short:
        offsets = counted(sum(map(_missing_offsets, short)), "offset")
        yield f"missing: {offsets} in {counted(len(short), 'partition')}"
    unsure = len(damaged) - len(short)
    if unsure:
        yield f"damage in {counted(unsure, 'partition')} may have cost records"
    if left_out:
        names = ", ".join(map(printable, left_out[:_MOST_SHOWN]))
        more = f" and {len(left_out) - _MOST_SHOWN} more" if len(left_out) > _MOST_SHOWN else ""
        yield f"left out: {names}{more}"


def _missing_offsets(report: dict[str, Any]) -> int:
    """Return the number of missing offsets of a partition; in broker mode, of offsets that the broker cut off."""
    if "records" in report:
        return int(report["missingOffsets"])
    return max(int(report["logEndOffsetBefore"]) - int(report["logEndOffset"]), 0)


def _losses(report: dict[str, Any]) -> Iterator[str]:
    missing = report.get("missing", [])
    for gap in missing[:_MOST_SHOWN]:
        yield f"missing: offsets {gap['first_offset']} to {gap['next_offset'] - 1}"
    if report.get("missingCount", 0) > _MOST_SHOWN:
        yield f"missing: {report['missingCount'] - _MOST_SHOWN} more ranges, see --json"
    dropped = [each for each in report.get("dropped", []) if each["isLoss"]]
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
