"""Measurements side by side: us and a peer, in turns, medians, as a table or JSON."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple


class Sample(NamedTuple):
    """One run: seconds on the clock and seconds of CPU."""

    wall: float
    cpu: float


@dataclass(slots=True)
class Row:
    """One line of the report: medians of both sides, and the ratios (above 1: we are faster)."""

    group: str
    name: str
    unit: str
    ours: float
    peer: float | None = None
    wall_ratio: float | None = None
    cpu_ratio: float | None = None
    target: str = ""
    note: str = ""
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    @property
    def text(self) -> tuple[str, ...]:
        """The cells of the table."""
        return (
            self.group,
            self.name,
            f"{_number(self.ours)} {self.unit}",
            "" if self.peer is None else f"{_number(self.peer)} {self.unit}",
            "" if self.wall_ratio is None else f"{self.wall_ratio:.2f}",
            "" if self.cpu_ratio is None else f"{self.cpu_ratio:.2f}",
            self.target,
            self.note,
        )


HEADINGS = ("group", "what", "ours", "peer", "wall x", "cpu x", "wanted", "note")


class Report:
    """Rows as they come; each is printed at once, the whole at the end."""

    def __init__(self, *, rounds: int) -> None:
        self.rounds = rounds
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Takes one row."""
        self.rows.append(row)
        print("  ".join(cell for cell in row.text if cell), flush=True)

    def compare(
        self,
        group: str,
        name: str,
        work: float,
        unit: str,
        ours: Callable[[], Sample],
        peer: Callable[[], Sample],
        *,
        target: str = "",
        note: str = "",
        warm: int = 1,
    ) -> Row:
        """Runs both sides in turns; `work` per second of wall time is what is shown."""
        for _ in range(warm):
            peer()
            ours()
        theirs, mine = [], []
        for _ in range(self.rounds):
            theirs.append(peer())
            mine.append(ours())
        row = Row(
            group,
            name,
            unit,
            work / median_wall(mine),
            work / median_wall(theirs),
            median_wall(theirs) / median_wall(mine),
            median_cpu(theirs) / median_cpu(mine),
            target,
            note,
            {"ours": mine, "peer": theirs},
        )
        self.add(row)
        return row

    def alone(
        self,
        group: str,
        name: str,
        work: float,
        unit: str,
        ours: Callable[[], Sample],
        *,
        target: str = "",
        note: str = "",
        warm: int = 1,
    ) -> Row:
        """Runs one side that has no peer."""
        for _ in range(warm):
            ours()
        mine = [ours() for _ in range(self.rounds)]
        speed = work / median_wall(mine)
        row = Row(group, name, unit, speed, target=target, note=note, samples={"ours": mine})
        self.add(row)
        return row

    def table(self) -> str:
        """All rows, in columns."""
        lines = [HEADINGS, *(row.text for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if at in (0, 1, 6, 7) else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def json(self) -> str:
        """All rows with their samples."""
        return json.dumps([asdict(row) for row in self.rows], indent=1)


def timed(action: Callable[[], object]) -> Sample:
    """Runs it once in this process: wall time and the CPU time of all its threads."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    action()
    return Sample(time.perf_counter() - wall, max(time.process_time() - cpu, 1e-9))


def median_wall(samples: Sequence[Sample]) -> float:
    """The median of the wall times."""
    return statistics.median(sample.wall for sample in samples)


def median_cpu(samples: Sequence[Sample]) -> float:
    """The median of the CPU times."""
    return statistics.median(sample.cpu for sample in samples)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
