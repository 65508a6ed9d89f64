"""What a recovery makes of a cluster's disks, in words and rows: for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafkafs.amounts import counted

HEADER = (
    "PARTITION",
    "COPIES (NODE: EPOCH/END/HIGH WATERMARK)",
    "LOG",
    "COMMITTED TO",
    "DOUBTFUL",
    "NOT ACKED",
    "LOST",
    "ASIDE",
)


def recovery_verdict(report: dict[str, Any]) -> str:
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


def recovery_row(partition: dict[str, Any]) -> Sequence[object]:
    """Return the row of a partition, under HEADER."""
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


def recovery_evidence(report: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for what is not committed, set aside or remarkable in each partition."""
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
