"""Text output of `kafkafs erase`: a sentence for everybody, a row for each file with chosen records, what is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkafs import amounts
from kafkafs.amounts import counted
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import print_table
from kafkafs.decode.shown_text import printable

_MOST_SHOWN = 20
_HEADER = ("PARTITION", "FILE", "ASIDE", "RECORDS", "OFFSETS", "SINCE", "UNTIL")


def print_erase(report: dict[str, Any], target: str | None) -> None:
    """Print the report of an erase; `target` is None for a plan."""
    say(printable(verdict(report, target)))
    rows = [
        (
            each["partition"],
            printable(each["path"]),
            each["aside"] or None,
            each["records"],
            f"{each['firstOffset']}..{each['lastOffset'] + 1}",
            amounts.time(each["firstTimestamp"]),
            amounts.time(each["lastTimestamp"]),
        )
        for each in report["places"]
    ]
    print_table(_HEADER, rows[:_MOST_SHOWN])
    if len(rows) > _MOST_SHOWN:
        say(f"  … and {counted(len(rows) - _MOST_SHOWN, 'file')} more: see --json")
    lines = list(_left(report))
    for line in lines[:_MOST_SHOWN]:
        say(printable(line))
    if len(lines) > _MOST_SHOWN:
        say(f"  … and {len(lines) - _MOST_SHOWN} more lines: see --json")
    say(printable(_closing(report, target)))


def verdict(report: dict[str, Any], target: str | None) -> str:
    """Return what was erased, and whether anything is left, in one sentence."""
    sums = report["totals"]
    what = (
        f"{counted(sums['records'], 'record')} of {counted(sums['partitions'], 'partition')},"
        f" {sums['copies']:,} with all copies"
    )
    if target is None:
        ending = "nothing else is known to be left" if report["isClean"] else "NOT ALL is reached"
        return f"To erase: {what}; {ending}."
    if report["done"]:
        return f"Erased: {what}; none of them is left in {target}."
    return f"NOT DONE: erased are {what}; but something is left, or may be."


def _left(report: dict[str, Any]) -> Iterator[str]:
    """Yield what is left or may be, then what only looks like it."""
    yield from (f"not reached: {each['reason']}" for each in report["unreached"])
    for each in report["unknown"]:
        place = f", byte {each['position']} ({each['length']} bytes)" if each["length"] else ""
        yield f"not read: {each['path']}{place}: {each['reason']}"
    undecided = report["totals"]["undecided"]
    if undecided:
        yield f"not decided: --where failed for {counted(undecided, 'record')}, which are kept"
    for each in report["traces"]:
        yield _trace(each)
    if report["isScanCut"]:
        yield "the result was searched for the first keys and values only: there are more"
    for each in report["dropped"]:
        yield (
            f"left out: {each['path']}, byte {each['position']} ({each['length']} bytes):"
            f" {each['reason']}"
        )
    yield from (f"left out: {each['path']}: {each['reason']}" for each in report["leftOut"])


def _trace(each: dict[str, Any]) -> str:
    head = "left" if each["isCopy"] else "alike"
    what = "a text of --scan" if each["of"] == "text" else f"an erased {each['of']}"
    form = "" if each["form"] == "bytes" else f" in {each['form']}"
    if each["place"] == "bytes":
        return (
            f"{head}: {each['path']}, byte {each['firstOffset']}: {what}{form} stands outside of"
            f" records, {each['records']}x"
        )
    since = amounts.time(each["firstTimestamp"])
    return (
        f"{head}: {each['path']}: {what}{form} stands in the {each['place']} of"
        f" {counted(each['records'], 'record')} from offset {each['firstOffset']} on, since {since}"
    )


def _closing(report: dict[str, Any], target: str | None) -> str:
    if target is None:
        return "nothing was written; without --plan, and with a TARGET, this is made"
    if report["unknown"]:
        return "next: --damaged drop leaves damaged bytes out; kafkafs rebuild does it, and fills holes"
    return f"next: with the brokers down, put the log dirs of {target} in place of the old ones"
