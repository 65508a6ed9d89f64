"""Text output of `kafkafs recover`: a sentence for everybody, a row for each partition, what was decided and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafkafs.amounts import counted, size, time
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import print_table
from kafkafs.decode.shown_text import printable

_MOST_SHOWN = 20
_HEADER = (
    "PARTITION",
    "COPIES (NODE: EPOCH/END/HIGH WATERMARK)",
    "LOG",
    "COMMITTED TO",
    "DOUBTFUL",
    "NOT ACKED",
    "LOST",
    "ASIDE",
)


def print_recovery(report: dict[str, Any], target: str | None) -> None:
    """Print the report of a recovery; `target` is None for a plan."""
    say(printable(verdict(report)))
    if report["at"] is not None:
        say(f"This is the cluster as of {time(report['at'])}.")
    print_table(_HEADER, [_row(each) for each in report["partitions"]])
    for part in (_evidence, _transactions, _groups, _expires, _metadata, _left_out):
        lines = list(part(report))
        for line in lines[:_MOST_SHOWN]:
            say(printable(line))
        if len(lines) > _MOST_SHOWN:
            say(f"  … and {len(lines) - _MOST_SHOWN} more lines: see --json")
    say(printable(_closing(report, target)))


def verdict(report: dict[str, Any]) -> str:
    """Return what was lost, in one sentence."""
    sums = report["totals"]
    kept = f"{counted(sums['records'], 'record')} in {counted(sums['partitions'], 'partition')}"
    lost = []
    if sums["lost"]:
        lost.append(f"{counted(sums['lost'], 'offset')} on no disk")
    if sums["withoutCopy"]:
        lost.append(f"{counted(sums['withoutCopy'], 'partition')} without any copy")
    if lost:
        return f"LOST: {' and '.join(lost)}; {kept} are recovered."
    text = f"Nothing is known to be lost: {kept} are recovered"
    if sums["doubtful"]:
        text += (
            f"; no disk proves of {counted(sums['doubtful'], 'offset')} that they were committed"
        )
    if sums["aside"]:
        text += f"; {counted(sums['aside'], 'record')} of losing leaders are set aside"
    return text + "."


def _row(partition: dict[str, Any]) -> Sequence[object]:
    sums = dict.fromkeys(("doubtful", "not acknowledged at acks=all", "lost"), 0)
    committed: int | None = None
    for each in partition["classes"]:
        if each["class"] == "committed":
            committed = each["next"]
        else:
            sums[each["class"]] += each["next"] - each["first"]
    aside = sum(each["records"] for each in partition["aside"])
    return (
        partition["partition"],
        ", ".join(map(_copy, partition["copies"])) or partition["noLog"],
        f"{partition['logStartOffset']}..{partition['logEndOffset']}",
        committed,
        *(count or None for count in sums.values()),
        aside or None,
    )


def _copy(copy: dict[str, Any]) -> str:
    node = "?" if copy["node"] is None else copy["node"]
    mark = "*" if copy["isLeading"] else ""
    watermark = "-" if copy["highWatermark"] is None else copy["highWatermark"]
    return f"{node}{mark}: {copy['epoch']}/{copy['end']}/{watermark}"


def _evidence(report: dict[str, Any]) -> Iterator[str]:
    for partition in report["partitions"]:
        for each in partition["classes"]:
            if each["class"] != "committed":
                yield (
                    f"{partition['partition']}: {each['first']} to {each['next']}"
                    f" {each['class']}: {each['evidence']}"
                )
        for tail in partition["aside"]:
            yield (
                f"{partition['partition']}: {tail['firstOffset']} to {tail['nextOffset']} of epoch"
                f" {tail['epoch']} in {tail['path']} set aside; acknowledged: {tail['acknowledged']}"
            )
        if partition["noLog"]:
            yield f"{partition['partition']}: {partition['noLog']}"
        yield from (f"{partition['partition']}: {note}" for note in partition["notes"])


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
