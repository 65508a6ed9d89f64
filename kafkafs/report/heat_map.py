"""Topics by time: where there are records, where some are missing, and where there is nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.check.log_statistics import DAY_MS, HOUR_MS, MINUTE_MS, TimeCounts
from engine.units import Timestamp
from engine.verdict.loss import Loss
from kafkafs import amounts
from kafkafs.report.axes import Axis, main_span
from kafkafs.report.facts import SourceFacts
from kafkafs.report.partition_facts import TopicFacts
from kafkafs.report.pictures import LANE, Picture, Shape, step_text

MOST_ROWS = 60
MOST_COLUMNS = 96
SHADES = 4
_WIDTHS = (
    *(MINUTE_MS * each for each in (1, 10)),
    *(HOUR_MS * each for each in (1, 6)),
    *(DAY_MS * each for each in (1, 10, 100, 1000, 10_000)),
)


class HeatCell(NamedTuple):
    """A topic in one column.

    Attributes:
        start: time at which the column begins.
        records: number of records that are here.
        missing: losses that were written in this time, as far as the times of the records around them tell.
    """

    start: Timestamp
    records: int
    missing: tuple[Loss, ...]

    @property
    def kind(self) -> str:
        """ "missing", "whole" or "nothing"."""
        return "missing" if self.missing else "whole" if self.records else "nothing"


class HeatRow(NamedTuple):
    """A topic, and its columns in which there is or was something."""

    topic: str
    state: str
    cells: list[HeatCell]


@dataclass(slots=True)
class HeatMap:
    """Topics by time.

    Attributes:
        axis: the times.
        width: milliseconds of a column.
        rows: topics with damage first, then the largest; sorted by name.
        left_out: number of topics that are not here.
        untimed: losses of which no record around them tells the time.
    """

    axis: Axis
    width: int
    rows: list[HeatRow] = field(default_factory=list)
    left_out: int = 0
    untimed: int = 0

    @property
    def step(self) -> str:
        """A column's time in words."""
        return step_text(self.width)

    def picture(self) -> Picture:
        """Draw it: a lane for each topic."""
        caption = f"Topics by {self.step}: whole, missing, nothing"
        picture = Picture(self.axis, LANE * len(self.rows), caption=caption)
        most = max((cell.records for row in self.rows for cell in row.cells), default=1) or 1
        for place, row in enumerate(self.rows):
            picture.lanes.append((row.topic, row.state))
            for cell in row.cells:
                x, width = self.axis.span(cell.start, cell.start + self.width, 2)
                shade = -(-cell.records * SHADES // most)
                kind = "missing" if cell.missing else f"heat{max(shade, 1)}"
                text = f"{row.topic}, {amounts.minute(cell.start)}: {_told(cell)}"
                picture.shapes.append(Shape(x, place * LANE + 2, width, LANE - 3, kind, text))
        return picture


def heat_map(facts: SourceFacts) -> HeatMap | None:
    """Return the map of a source; None without a time."""
    lost, untimed = _losses_by_topic(facts)
    topics = sorted(
        facts.topics.values(), key=lambda each: (each.name not in lost, -each.size, each.name)
    )
    chosen = sorted(topics[:MOST_ROWS], key=lambda each: each.name)
    whole: Counter[int] = Counter()
    for each in chosen:
        for step, records in each.times.counts.items():
            whole[step * each.times.width] += records
    edges = [time for losses in lost.values() for each in losses for time in _span_of(each)]
    span = main_span(sorted(whole.items()))
    if span is None and not edges:
        return None
    first = min([*edges, *(span[:1] if span else ())])
    last = max([*edges, *(span[1:] if span else ())])
    least = max([MINUTE_MS, *(each.times.width for each in chosen)])
    width = next(
        (each for each in _WIDTHS if each >= least and (last - first) // each < MOST_COLUMNS),
        _WIDTHS[-1],
    )
    axis = Axis(first // width * width, (last // width + 1) * width, is_time=True)
    found = HeatMap(axis, width, left_out=len(topics) - len(chosen), untimed=untimed)
    for each in chosen:
        found.rows.append(_row(each, lost.get(each.name, ()), axis, width))
    for name in sorted(lost.keys() - facts.topics.keys())[: MOST_ROWS - len(found.rows)]:
        found.rows.append(HeatRow(name, "error", _cells(TimeCounts(), lost[name], axis, width)))
    return found


def _row(topic: TopicFacts, losses: Sequence[Loss], axis: Axis, width: int) -> HeatRow:
    state = "error" if losses or topic.found["error"] else "fine"
    return HeatRow(topic.name, state, _cells(topic.times, losses, axis, width))


def _cells(times: TimeCounts, losses: Iterable[Loss], axis: Axis, width: int) -> list[HeatCell]:
    records: Counter[int] = Counter()
    for step, count in times.counts.items():
        records[step * times.width // width] += count
    missing: dict[int, list[Loss]] = {}
    for loss in losses:
        first, last = _span_of(loss)
        for column in range(first // width, last // width + 1):
            missing.setdefault(column, []).append(loss)
    return [
        HeatCell(column * width, records[column], tuple(missing.get(column, ())))
        for column in sorted(records.keys() | missing.keys())
        if axis.first <= column * width < axis.end
    ]


def _losses_by_topic(facts: SourceFacts) -> tuple[Mapping[str, list[Loss]], int]:
    """Return the losses with a time by topic, and the number of those without one."""
    topics = {each.name: each.place.topic for each in facts.partitions}
    found: dict[str, list[Loss]] = {}
    untimed = 0
    for loss in facts.losses:
        if not _span_of(loss):
            untimed += 1
            continue
        topic = topics.get(loss.partition, loss.partition.rpartition("-")[0])
        found.setdefault(topic, []).append(loss)
    return found, untimed


def _span_of(loss: Loss) -> tuple[Timestamp, ...]:
    """Return the times of the records around a loss, of one twice; () if none is known.

    A record that was written late may be older than the one before it.
    """
    times = sorted(each for each in (loss.before, loss.after) if each is not None and each >= 0)
    return () if not times else (times[0], times[-1])


def _told(cell: HeatCell) -> str:
    told = amounts.counted(cell.records, "record")
    if not cell.missing:
        return told
    lost = sum(each.offsets for each in cell.missing)
    names = ", ".join(sorted({each.partition for each in cell.missing})[:3])
    return (
        f"{told} here; missing: {amounts.counted(lost, 'offset') if lost else 'records'} of {names}"
    )
