"""Offsets of partitions over time, with leader epochs and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.units import Offset, Timestamp
from engine.verdict.loss import Loss
from kafkafs import amounts
from kafkafs.report.axes import WIDTH, Axis, main_span
from kafkafs.report.facts import SourceFacts
from kafkafs.report.partition_facts import Block, PartitionFacts
from kafkafs.report.pictures import Picture, ScaleLine, Shape

HEIGHT = 110
MOST_EPOCHS = 100


class Curve(NamedTuple):
    """The picture of a partition, the leader epochs that are in it, and those that no record's time places."""

    name: str
    picture: Picture
    epochs: int
    unplaced: int


def curves(facts: SourceFacts) -> list[Curve]:
    """Draw the partitions of which the leader epochs were read."""
    by_name = {each.name: each for each in facts.partitions}
    found = (_curve(by_name[name], facts) for name in facts.epochs if name in by_name)
    return [each for each in found if each is not None]


def _curve(partition: PartitionFacts, facts: SourceFacts) -> Curve | None:
    blocks = [each for each in partition.blocks if each.first_timestamp >= 0]
    span = main_span(sorted((each.first_timestamp, each.records) for each in blocks))
    if span is None:
        return None
    drawn = [each for each in blocks if span[0] <= each.first_timestamp <= span[1]]
    losses = [each for each in facts.losses if each.partition == partition.name]
    axis = Axis(span[0], max(max(each.last_timestamp for each in drawn), span[0] + 1), is_time=True)
    low = min(each.first_offset for each in drawn)
    high = max(partition.log_end, *(each.next_offset for each in drawn), low + 1)
    scale = _Scale(low, high)
    picture = Picture(axis, HEIGHT, caption=f"Offsets of {partition.name} over time")
    picture.rules = [ScaleLine(scale.at(each), f"{each:,}") for each in (high, (low + high) // 2)]
    points = [
        point
        for each in drawn
        for point in (
            (axis.at(each.first_timestamp), scale.at(each.first_offset)),
            (axis.at(each.last_timestamp), scale.at(each.next_offset)),
        )
    ]
    picture.paths.append(("curve", "M" + "L".join(f"{x:g} {y:g}" for x, y in points)))
    picture.shapes += [each for loss in losses if (each := _missing(loss, drawn, axis, scale))]
    epochs = facts.epochs[partition.name][-MOST_EPOCHS:]
    placed = 0
    for epoch, start in epochs:
        time = time_of(drawn, start)
        if time is not None:
            placed += 1
            x = min(axis.at(time), WIDTH - 2)
            text = f"leader epoch {epoch} from offset {start} on, about {amounts.time(time)}"
            picture.shapes.append(Shape(x, 0, 2, HEIGHT, "epoch", text))
    return Curve(partition.name, picture, placed, len(facts.epochs[partition.name]) - placed)


class _Scale(NamedTuple):
    """Offsets from the bottom of a picture to its top."""

    low: Offset
    high: Offset

    def at(self, offset: Offset) -> float:
        share = (offset - self.low) / (self.high - self.low)
        return round(HEIGHT * (1 - min(max(share, 0), 1)), 1)


def _missing(loss: Loss, blocks: Sequence[Block], axis: Axis, scale: _Scale) -> Shape | None:
    """Return the rectangle of the offsets and the time of a loss; None if these are unknown."""
    if loss.first_offset is None:
        return None
    following = loss.first_offset + 1 if loss.next_offset is None else loss.next_offset
    before = loss.before if loss.before is not None else time_of(blocks, loss.first_offset)
    after = loss.after if loss.after is not None else time_of(blocks, following)
    known = [each for each in (before, after) if each is not None]
    if not known:
        return None
    x, width = axis.span(min(known), max(known), 4)
    top, bottom = scale.at(following), scale.at(loss.first_offset)
    height = max(bottom - top, 5)
    text = f"missing: offsets {loss.first_offset}..{following}"
    return Shape(x, min(top, HEIGHT - height), width, round(height, 1), "hole", text)


def time_of(blocks: Sequence[Block], offset: Offset) -> Timestamp | None:
    """Return about when an offset was written, between the first and the last time of its segments."""
    for each in blocks:
        if each.first_offset <= offset < each.next_offset:
            share = (offset - each.first_offset) / (each.next_offset - each.first_offset)
            return each.first_timestamp + round(
                (each.last_timestamp - each.first_timestamp) * share
            )
    return None
