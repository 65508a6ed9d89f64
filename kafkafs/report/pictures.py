"""The pictures of a page as shapes on axes; the template draws them as SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import NamedTuple

import numpy as np

from engine.check.log_statistics import DAY_MS, HOUR_MS, MINUTE_MS, TimeCounts
from engine.check.rules.rules import RULES
from engine.log.segment.damage import DamageKind
from kafkafs import amounts
from kafkafs.report.axes import WIDTH, Axis, main_span, round_step
from kafkafs.report.partition_facts import DamagedFile, PartitionFacts

LANE = 20
"""Height of a partition's lane."""
MOST_LANES = 40
MOST_STRIPS = 60
MOST_STRIP_HOLES = 400
SPARKS = 40
_STATES = ("error", "warning", "note", "fine", "empty")
_MAP_AREA = 230_000
_RATE_HEIGHT = 160
MOST_BARS = 500
_BAR_WIDTHS = (
    *(n * MINUTE_MS for n in (1, 10, 20, 30)),
    *(n * HOUR_MS for n in (1, 2, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 5, 10, 100)),
)


class ScaleLine(NamedTuple):
    """A horizontal line: its place from the top, and its text."""

    y: float
    text: str


class Shape(NamedTuple):
    """A rectangle with a text that appears when pointed at."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    text: str


@dataclass(slots=True)
class Picture:
    """A picture with one axis along its bottom.

    Attributes:
        axis: what x means.
        height: of the coordinates.
        shapes: what is drawn.
        lanes: names of the lanes, from the top, and their states.
        rules: horizontal lines.
        paths: lines, by their kind and their SVG path.
        caption: what the picture shows, in words.
        left_out: what it does not show; "" if nothing.
    """

    axis: Axis
    height: int
    shapes: list[Shape] = field(default_factory=list)
    lanes: list[tuple[str, str]] = field(default_factory=list)
    rules: list[ScaleLine] = field(default_factory=list)
    paths: list[tuple[str, str]] = field(default_factory=list)
    caption: str = ""
    left_out: str = ""


def step_text(width: int) -> str:
    """Return a step of time in words.

    >>> step_text(60_000), step_text(86_400_000), step_text(7_200_000)
    ('minute', 'day', '2 hours')
    """
    for unit, size in (("day", DAY_MS), ("hour", HOUR_MS), ("minute", MINUTE_MS)):
        if width >= size:
            return unit if width == size else f"{width // size} {unit}s"
    raise ValueError("a step is at least a minute")


class Rate(NamedTuple):
    """Records by time: the picture, and a step of it in words."""

    picture: Picture
    step: str


def rate(times: TimeCounts) -> Rate | None:
    """Draw records by time; None without a timestamp."""
    found = sorted(times.counts.items())
    span = main_span(found)
    if span is None:
        return None
    width = _bar_width(times.width, (span[1] - span[0] + 1) * times.width)
    first, last = (step * times.width // width for step in span)
    axis = Axis(first * width, (last + 1) * width, is_time=True)
    shown: Counter[int] = Counter()
    outside = []
    for step, records in found:
        if span[0] <= step <= span[1]:
            shown[step * times.width // width] += records
        else:
            outside.append((step * times.width, records))
    most = max(shown.values())
    picture = Picture(axis, _RATE_HEIGHT, caption=f"Records by {step_text(width)}")
    for step, records in shown.items():
        x, across = axis.span(step * width, (step + 1) * width, 0.6)
        bar = max(records * _RATE_HEIGHT / most, 1)
        told = f"{amounts.minute(step * width)}: {amounts.counted(records, 'record')}"
        y = round(_RATE_HEIGHT - bar, 1)
        picture.shapes.append(Shape(x, y, across, round(bar, 1), "bar", told))
    scale = round_step(most / 5)
    picture.rules = [
        ScaleLine(round(_RATE_HEIGHT * (1 - number / most), 1), amounts.short(number))
        for number in range(scale, most + 1, scale)
    ]
    if outside:
        left = amounts.counted(sum(each for _, each in outside), "record")
        picture.left_out = (
            f"{left} far from the others in time, from {amounts.minute(outside[0][0])} to"
            f" {amounts.minute(outside[-1][0])}, are not drawn."
        )
    return Rate(picture, step_text(width))


def _bar_width(least: int, span: int) -> int:
    """Return the time of a bar: a multiple of the counts' step, so that the bars are few enough to see."""
    for width in _BAR_WIDTHS:
        if width % least == 0 and span / width <= MOST_BARS:
            return width
    width = max(_BAR_WIDTHS[-1], least)
    while span / width > MOST_BARS:
        width *= 10
    return width


def spark(times: TimeCounts, axis: Axis) -> str:
    """Return the path of a small area chart, 100 by 20."""
    sums = times.sums(axis.first, axis.end, SPARKS)
    most = max(sums)
    if not most:
        return ""
    each = 100 / SPARKS
    heights = [20 - round(19 * number / most, 1) for number in sums]
    return "M0 20" + "".join(f"V{height:g}h{each:g}" for height in heights) + "V20z"


def lanes_of(partitions: Sequence[PartitionFacts]) -> list[PartitionFacts]:
    """Return the partitions that get a lane: damaged ones first, then the largest; sorted by name."""
    rank = {state: place for place, state in enumerate(_STATES)}
    chosen = sorted(
        (each for each in partitions if each.blocks),
        key=lambda each: (min(rank[each.state], 2), -each.size, each.name),
    )[:MOST_LANES]
    return sorted(chosen, key=lambda each: each.place)


def by_time(partitions: Sequence[PartitionFacts], span: Axis | None) -> Picture | None:
    """Draw the segments of some partitions from their first to their last record."""
    if span is None:
        return None
    drawn = [each for each in partitions if each.first_timestamp >= 0]
    if not drawn:
        return None
    picture = Picture(span, LANE * len(drawn), caption="Segments by time of their records")
    for row, each in enumerate(drawn):
        picture.lanes.append((each.name, each.state))
        for number, block in enumerate(each.blocks):
            if block.first_timestamp < 0:
                continue
            is_outside = block.last_timestamp < span.first or block.first_timestamp >= span.end
            if is_outside:
                continue
            x, width = span.span(block.first_timestamp, block.last_timestamp)
            kind = "hole" if block.has_hole else f"block{number % 2}"
            text = (
                f"{each.name}, {amounts.counted(block.segments, 'segment')} from offset"
                f" {block.first_offset}: {amounts.time(block.first_timestamp)} to"
                f" {amounts.time(block.last_timestamp)}, {amounts.counted(block.records, 'record')},"
                f" {amounts.size(block.size)}"
            )
            picture.shapes.append(Shape(x, row * LANE + 4, width, LANE - 8, kind, text))
    return picture


def by_offset(partitions: Sequence[PartitionFacts]) -> Picture | None:
    """Draw the segments of some partitions by their offsets, with the log start and the holes."""
    drawn = [each for each in partitions if each.blocks]
    if not drawn:
        return None
    first = min(each.blocks[0].first_offset for each in drawn)
    end = max(max(each.log_end, each.blocks[-1].next_offset) for each in drawn)
    axis = Axis(first, max(end, first + 1))
    picture = Picture(axis, LANE * len(drawn), caption="Segments by offset")
    for row, each in enumerate(drawn):
        picture.lanes.append((each.name, each.state))
        top = row * LANE
        for number, block in enumerate(each.blocks):
            x, width = axis.span(block.first_offset, block.next_offset)
            text = (
                f"{each.name}, {amounts.counted(block.segments, 'segment')}: offsets {block.first_offset}"
                f"..{block.next_offset}, {amounts.counted(block.records, 'record')}, {amounts.size(block.size)}"
            )
            kind = f"block{number % 2}"
            picture.shapes.append(Shape(x, top + 4, width, LANE - 8, kind, text))
        if each.blocks[0].first_offset < each.log_start:
            x, width = axis.span(each.blocks[0].first_offset, each.log_start)
            text = f"{each.name}: below the log start {each.log_start}, deleted for consumers"
            picture.shapes.append(Shape(x, top + 4, width, LANE - 8, "below", text))
        for hole in [hole for file in each.damaged for hole in file.holes][:MOST_STRIP_HOLES]:
            hole_end = each.log_end if hole.next_offset is None else hole.next_offset
            x, width = axis.span(hole.first_offset, max(hole_end, hole.first_offset), 2)
            text = f"{each.name}: hole, offsets {hole.first_offset}..{hole_end}"
            picture.shapes.append(Shape(x, top + 2, width, LANE - 4, "hole", text))
    return picture


class Strip(NamedTuple):
    """A damaged file, drawn to scale.

    Attributes:
        partition, file: names.
        picture: the file's bytes.
        rows: its holes: bytes, length, offsets, kinds.
        more: number of holes that are not drawn.
    """

    partition: str
    file: str
    picture: Picture
    rows: list[tuple[str, str, str, str]]
    more: int


def strip(partition: PartitionFacts, damaged: DamagedFile) -> Strip:
    """Draw a damaged file with its holes to scale."""
    segment = damaged.segment
    end = max(segment.size, max(hole.position + hole.length for hole in damaged.holes), 1)
    axis = Axis(0, end)
    picture = Picture(axis, 26, caption=f"Bytes of {segment.file}")
    picture.shapes.append(Shape(0, 0, WIDTH, 26, "good", f"{amounts.size(end)}"))
    rows = []
    for hole in damaged.holes[:MOST_STRIP_HOLES]:
        x, width = axis.span(hole.position, hole.position + hole.length, 2)
        offsets = f"{hole.first_offset}..{'' if hole.next_offset is None else hole.next_offset}"
        kinds = ", ".join(RULES[DamageKind(each).rule].title for each in hole.kinds)
        bytes_text = f"{hole.position}..{hole.position + hole.length}"
        text = f"bytes {bytes_text}, offsets {offsets}: {kinds}"
        picture.shapes.append(Shape(x, 0, width, 26, "hole", text))
        rows.append((bytes_text, amounts.size(hole.length), offsets, kinds))
    more = len(damaged.holes) - len(rows)
    return Strip(partition.name, segment.file, picture, rows[:20], more + max(len(rows) - 20, 0))


def strips(partitions: Iterable[PartitionFacts]) -> list[Strip]:
    """Draw the damaged files, those that lost most first."""
    found = [(each, file) for each in partitions for file in each.damaged]
    found.sort(key=lambda pair: -sum(hole.length for hole in pair[1].holes))
    return [strip(each, file) for each, file in found[:MOST_STRIPS]]


class PartitionMap(NamedTuple):
    """Every partition as a small square.

    Attributes:
        cell: width and height of a square.
        columns: number of squares in a row.
        height: of the picture.
        paths: the squares of each state, as one path.
    """

    cell: int
    columns: int
    height: int
    paths: list[tuple[str, str]]


def partition_map(partitions: Sequence[PartitionFacts]) -> PartitionMap:
    """Draw all partitions in the order of the table."""
    cell = min(max(isqrt(_MAP_AREA // max(len(partitions), 1)), 5), 22)
    columns = WIDTH // cell
    paths: dict[str, list[str]] = {}
    inner = cell - (2 if cell > 8 else 1)
    for place, each in enumerate(partitions):
        y, x = divmod(place, columns)
        square = f"M{x * cell} {y * cell}h{inner}v{inner}h-{inner}z"
        paths.setdefault(each.state, []).append(square)
    rows = -(-len(partitions) // columns)
    drawn = [(state, "".join(paths[state])) for state in _STATES if state in paths]
    return PartitionMap(cell, columns, rows * cell, drawn)


class Bar(NamedTuple):
    """A bar of a histogram: its label, its number, and its length in percent."""

    label: str
    number: int
    percent: float


def histogram(counts: np.ndarray, unit: str) -> list[Bar]:
    """Return bars for counts by power of two, from the first to the last that is not 0."""
    used = np.flatnonzero(counts)
    if not len(used):
        return []
    most = int(counts.max())
    bars = []
    for power in range(int(used[0]), int(used[-1]) + 1):
        number = int(counts[power])
        bars.append(Bar(_power_text(power, unit), number, round(100 * number / most, 2)))
    return bars


def _power_text(power: int, unit: str) -> str:
    low = 0 if power == 0 else 1 << (power - 1)
    if unit == "bytes":
        return f"{_binary(low)} – {_binary(1 << power)}"
    high = (1 << power) - 1
    return f"{low}" if high <= low else f"{amounts.count(low)} – {amounts.count(high)}"


def _binary(number: int) -> str:
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if number >= 1 << power:
            return f"{number >> power} {unit}"
    return f"{number} B"
