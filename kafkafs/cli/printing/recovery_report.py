"""Text output of `kafkafs recover`: a sentence for everybody, a row for each partition, what was decided and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkafs.amounts import counted, size, time
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import print_table
from kafkafs.decode.shown_text import printable
from kafkafs.report.recovery_rows import (
    HEADER,
    recovery_evidence,
    recovery_row,
    recovery_verdict,
)

_MOST_SHOWN = 20


def print_recovery(report: dict[str, Any], target: str | None) -> None:
    """Print the report of a recovery; `target` is None for a plan."""
    say(printable(recovery_verdict(report)))
    if report["at"] is not None:
        say(f"This is the cluster as of {time(report['at'])}.")
    print_table(HEADER, [recovery_row(each) for each in report["partitions"]])
    for part in (recovery_evidence, _transactions, _groups, _expires, _metadata, _left_out):
        lines = list(part(report))
        for line in lines[:_MOST_SHOWN]:
            say(printable(line))
        if len(lines) > _MOST_SHOWN:
            say(f"  … and {len(lines) - _MOST_SHOWN} more lines: see --json")
    say(printable(_closing(report, target)))


def _transactions(report: dict[str, Any]) -> Iterator[str]:
    for each in report["transactions"]:
        where = ", ".join(each["markers"]) or "no partition: only its coordinator had it open"
        yield f"{_named(each)} ended with {each['end']} in {where}: {each['evidence']}"
    for each in report["leftOpen"]:
        where = ", ".join(each["markers"]) or "its coordinator"
        yield f"{_named(each)} stays open in {where}: {each['evidence']}"


def _named(transaction: dict[str, Any]) -> str:
    name = transaction["transactionalId"]
    producer = f"producer {transaction['producerId']}, epoch {transaction['producerEpoch']}"
    return f"transaction of {producer}" if name is None else f"transaction of {name} ({producer})"


def _groups(report: dict[str, Any]) -> Iterator[str]:
    for each in report["movedOffsets"]:
        yield (
            f"group {each['group']}: {each['partition']} moved from {each['from']} to"
            f" {each['to']}, its end"
        )
    for each in report["formerOffsets"]:
        yield (
            f"group {each['group']}: {each['partition']}: its offset {each['offset']} is of a deleted"
            f" topic of that name, and is removed: {each['evidence']}"
        )
    for name in report["emptiedGroups"]:
        yield f"group {name}: its members are dropped, and join again"


def _expires(report: dict[str, Any]) -> Iterator[str]:
    """Yield what goes minutes after the start, or would go if it were not held."""
    found = report["expires"]
    going = []
    if found["partitionCount"]:
        of = counted(found["partitionCount"], "partition")
        going.append(f"{size(found['bytes'])} of {of} by retention")
    if found["groupCount"]:
        going.append(f"old offsets of {counted(found['groupCount'], 'group')}")
    if found["transactionalIdCount"]:
        going.append(f"{counted(found['transactionalIdCount'], 'unused transactional id')}")
    if not going:
        return
    listed = ", ".join(going)
    if report["hold"]:
        yield f"held (START.txt says how to lift it), else lost minutes after the start: {listed}"
    else:
        yield f"lost minutes after the start: {listed}; --hold keeps them until you lift it"
    for each in found["partitions"]:
        yield (
            f"  {each['partition']}: offsets {each['first']} to {each['next']}"
            f" ({size(each['bytes'])} in {counted(each['segments'], 'segment')}) by {each['reason']}"
        )
    for each in found["groups"]:
        yield f"  group {each['group']}: {counted(each['offsets'], 'offset')} by offsets.retention"
    for name in found["transactionalIds"]:
        yield f"  transactional id {name}"


def _metadata(report: dict[str, Any]) -> Iterator[str]:
    metadata = report["metadata"]
    yield f"metadata: {metadata['origin']}"
    yield from (f"not known: {sentence}" for sentence in metadata["unknown"])


def _left_out(report: dict[str, Any]) -> Iterator[str]:
    yield from (f"left out: {each['path']}: {each['reason']}" for each in report["leftOut"])


def _closing(report: dict[str, Any], target: str | None) -> str:
    if report["refusal"]:
        return f"this would be refused: {report['refusal']}"
    if target is None:
        return "nothing was written; without --plan, and with a TARGET, this is made"
    return f"next: read {target}/START.txt, and start the nodes"
