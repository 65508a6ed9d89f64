"""Measurements side by side: us and a peer, in turns; medians and spread as a table, a page or JSON."""

from __future__ import annotations

import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple


class Sample(NamedTuple):
    """One run: seconds on the clock and seconds of CPU."""

    wall: float
    cpu: float


class Ratio(NamedTuple):
    """The peer's time over ours (above 1: we are faster): of the medians, and the smallest and largest of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, peer: Sequence[float], ours: Sequence[float]) -> Ratio:
        """Return the ratio of two sides; each round of one belongs to the same round of the other."""
        rounds = [theirs / mine for theirs, mine in zip(peer, ours, strict=True)]
        return cls(statistics.median(peer) / statistics.median(ours), min(rounds), max(rounds))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})"


@dataclass(slots=True)
class Row:
    """One line of the report: medians of both sides, and their ratios."""

    group: str
    name: str
    unit: str
    ours: float
    peer: float | None = None
    wall_ratio: Ratio | None = None
    cpu_ratio: Ratio | None = None
    target: str = ""
    note: str = ""
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        group: str,
        name: str,
        work: float,
        unit: str,
        ours: list[Sample],
        peer: list[Sample],
        *,
        target: str = "",
        note: str = "",
    ) -> Row:
        """Return the row of two sides that did the same work in as many rounds; it shows `work` per second."""
        return cls(
            group,
            name,
            unit,
            work / median_wall(ours),
            work / median_wall(peer),
            Ratio.of([each.wall for each in peer], [each.wall for each in ours]),
            Ratio.of([each.cpu for each in peer], [each.cpu for each in ours]),
            target,
            note,
            {"ours": ours, "peer": peer},
        )

    @property
    def text(self) -> tuple[str, ...]:
        """The cells of the table."""
        return (
            self.group,
            self.name,
            f"{_number(self.ours)} {self.unit}",
            "" if self.peer is None else f"{_number(self.peer)} {self.unit}",
            str(self.wall_ratio or ""),
            str(self.cpu_ratio or ""),
            f"{self.target}: missed" if self.misses_ratio else self.target,
            self.note,
        )

    @property
    def misses_ratio(self) -> bool:
        """Whether the target is a ratio ("wall 2" or "cpu 2"), and the ratio of the medians is below."""
        kind, _, least = self.target.partition(" ")
        ratio = {"wall": self.wall_ratio, "cpu": self.cpu_ratio}.get(kind)
        return ratio is not None and ratio.median < float(least)


HEADINGS = ("group", "work", "ours", "peer", "wall x", "CPU x", "wanted", "note")

EXPLANATION = """\
Both sides of a row run in the same process tree, in turns, and each round swaps the order. «ours» and «peer» are medians
of the wall time. «wall x» and «CPU x» are the peer's time over ours (above 1: kafkafs is faster), with the smallest and
the largest ratio of the rounds in brackets. «wanted» is our target: «missed» marks a ratio below it. A row without a peer
has only our figure.
"""


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
        """Run both sides in turns, and swap the order each round; show `work` per second of wall time."""
        for _ in range(warm):
            peer()
            ours()
        theirs: list[Sample] = []
        mine: list[Sample] = []
        sides = [(peer, theirs), (ours, mine)]
        for _ in range(self.rounds):
            for side, samples in sides:
                samples.append(side())
            sides.reverse()
        row = Row.of(group, name, work, unit, mine, theirs, target=target, note=note)
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

    def page(self, command: str) -> str:
        """Return all rows as a page of Markdown, with the machine, the date and the commit."""
        lines = ["# Benchmarks", "", f"`{command}`", "", *_machine(), "", EXPLANATION]
        for group, rows in groupby(self.rows, key=attrgetter("group")):
            cells = [HEADINGS[1:], ["---"] * (len(HEADINGS) - 1), *(row.text[1:] for row in rows)]
            lines += [f"## {group}", "", *(f"| {' | '.join(each)} |" for each in cells), ""]
        return "\n".join(lines)

    def json(self) -> str:
        """All rows with their samples."""
        return json.dumps([asdict(row) for row in self.rows], indent=1)


def timed(action: Callable[[], object]) -> Sample:
    """Runs it once: wall time, and the CPU time of this process and of processes that it waits for."""
    gc.collect()
    cpu, wall = _cpu(), time.perf_counter()
    action()
    return Sample(time.perf_counter() - wall, max(_cpu() - cpu, 1e-9))


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def median_wall(samples: Sequence[Sample]) -> float:
    """The median of the wall times."""
    return statistics.median(sample.wall for sample in samples)


def median_cpu(samples: Sequence[Sample]) -> float:
    """The median of the CPU times."""
    return statistics.median(sample.cpu for sample in samples)


def _machine() -> list[str]:
    """Return a list of the machine, its software and the commit, as Markdown."""
    facts = dict(
        line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line
    )
    model = next((text for name, text in facts.items() if name.strip() == "model name"), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return [
        f"- date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- commit: {commit.stdout.strip() or 'unknown'}",
        f"- processor: {model.strip()}, {os.cpu_count()} cores",
        f"- memory: {memory:.0f} GiB",
        f"- system: Linux {platform.release()}, Python {platform.python_version()}",
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
