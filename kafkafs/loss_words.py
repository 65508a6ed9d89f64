"""Words for losses, the same in all commands."""

from __future__ import annotations

from collections.abc import Sequence

from engine.log.segment.damage import Elsewhere, ElsewhereKind
from engine.units import Timestamp
from engine.verdict.loss import Loss, LossKind
from engine.verdict.totals import LossTotals
from engine.verdict.words import may_be_in
from kafkafs.amounts import counted, minute

WHAT = {
    LossKind.START: "the first segments",
    LossKind.GAP: "batches or segments in between",
    LossKind.BYTES: "damaged bytes",
    LossKind.END: "the last batches or segments",
    LossKind.PARTITION: "the folder",
}
_HEADER = ("lost in", "offsets", "number", "written", "what", "may still be in")
FORGETS = (
    "no metadata log here: a controller that starts here forgets every topic, and a broker in it sets all logs aside"
    " (-stray); a node with other controllers fetches it again; if metadata.log.dir is elsewhere, name it, too"
)
NEXT_STEP = "kafkafs plan tells what a start would take besides, kafkafs rebuild --merge takes from other copies"


def sentence_of_loss(loss: Loss) -> str:
    """Return the sentence about a loss: what is lost, and where it may still be."""
    return "; ".join(filter(None, (f"{loss.partition}: {loss.reason}", may_be_in(loss.elsewhere))))


def loss_table(losses: Sequence[Loss]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Return the header and the rows of losses; without the last column if nothing is known for it."""
    rows = [_row(each) for each in losses]
    if any(row[-1] for row in rows):
        return _HEADER, rows
    return _HEADER[:-1], [row[:-1] for row in rows]


def _row(loss: Loss) -> tuple[str, ...]:
    number = f"{loss.offsets:,}" if loss.next_offset is not None else "?"
    number = number if loss.is_certain else f"<= {number}"
    span = time_span(loss.before, loss.after)
    places = ", ".join(map(_place, loss.elsewhere))
    return loss.partition, offsets_of(loss), number, span, WHAT[loss.kind], places


def _place(place: Elsewhere) -> str:
    return f"broker {place.name}" if place.kind is ElsewhereKind.REPLICA else place.name


def closing(totals: LossTotals, when: str = "") -> str:
    """Return the sentence about all losses; "" without any.

    Args:
        totals: their sums.
        when: when they were lost, in words.
    """
    if not totals.partitions:
        return ""
    amount = counted(totals.offsets, "offset") if totals.offsets else "an unknown number of offsets"
    up_to = "" if totals.is_certain else "up to "
    span = time_span(totals.before, totals.after)
    is_somewhere = totals.swapped or totals.misplaced or totals.moving or totals.unread
    here = "lost here" if is_somewhere else "lost for good here"
    if totals.unread and totals.unread == totals.offsets:
        here = "not readable here"
    lost = f"{here}: {up_to}{amount} in {counted(totals.partitions, 'partition')}"
    parts = [", ".join(filter(None, (lost, span, when)))]
    if totals.swapped:
        parts.append(
            f"up to {totals.swapped:,} of them in .swap files, which kafkafs rebuild takes"
        )
    if totals.misplaced:
        parts.append(
            f"up to {totals.misplaced:,} of them in batches that state wrong offsets, which kafkafs rebuild puts right"
            " where it can"
        )
    if 0 < totals.unread < totals.offsets:
        parts.append(f"up to {totals.unread:,} of them in bytes that could not be read")
    if totals.moving:
        parts.append(f"{totals.moving:,} of them in future logs alone: the current logs have them")
    return "; ".join(parts)


def time_span(before: Timestamp | None, after: Timestamp | None) -> str:
    """Return the times around a loss; "" if none is known."""
    if before is None and after is None:
        return ""
    if before is None:
        return f"before {utc_minute(after)}"
    if after is None:
        return f"from about {utc_minute(before)} on"
    return f"about {utc_minute(before)} to {utc_minute(after)}"


def utc_minute(timestamp: Timestamp | None) -> str:
    """Return a time to the minute, as it is written in commands: 2023-11-14T22:13Z."""
    return minute(timestamp).replace(" ", "T") + "Z"


def offsets_of(loss: Loss) -> str:
    """Return the offsets of a loss as a range, "" if unknown."""
    if loss.first_offset is None:
        return ""
    return f"{loss.first_offset}..{'' if loss.next_offset is None else loss.next_offset}"
