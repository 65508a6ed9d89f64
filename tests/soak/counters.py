"""The counters of all runs, in one file of JSON lines: what was tried, for how long, and what was found."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.soak.parts import Job, commit, now


@dataclass(frozen=True)
class Counter:
    """One run of a part.

    Attributes:
        part, seed, first: what was run, and the number of its first input.
        inputs, unit: how many of what.
        seconds: how long.
        findings: how many.
        commit, date, machine: of what, when, and on what.
        notes: what the part counted besides, by name.
    """

    part: str
    seed: int
    first: int
    inputs: int
    unit: str
    seconds: float
    findings: int
    commit: str
    date: str
    machine: str
    notes: dict[str, int] = field(default_factory=dict)


def of(job: Job) -> Counter:
    """The counter of a job that is over."""
    return Counter(
        job.part.name,
        job.seed,
        job.first,
        job.tried,
        job.part.unit,
        round(job.spent, 1),
        len(job.found),
        commit(),
        now(),
        f"{platform.machine()}, Python {platform.python_version()}",
        job.notes,
    )


def append(path: Path, counter: Counter) -> None:
    """Add a line to the file; several processes may."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(asdict(counter)) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Counter]:
    """All counters; none without a file."""
    if not path.exists():
        return []
    return [Counter(**json.loads(line)) for line in path.read_text().splitlines()]


def first_untried(counters: list[Counter], part: str, seed: int) -> int:
    """The number of the first input of a part that no run with this seed has reached."""
    ends = [each.first + each.inputs for each in counters if (each.part, each.seed) == (part, seed)]
    return max(ends, default=0)


def report(counters: list[Counter]) -> str:
    """A Markdown table with a line for each part: the sums of its runs."""
    lines = [
        "| part | inputs | hours | findings | seeds | last run | of |",
        "|---|--:|--:|--:|--:|---|---|",
    ]
    for part in sorted({each.part for each in counters}):
        runs = [each for each in counters if each.part == part]
        last = max(runs, key=lambda each: each.date)
        inputs, seconds = sum(each.inputs for each in runs), sum(each.seconds for each in runs)
        found = sum(each.findings for each in runs)
        seeds = len({each.seed for each in runs})
        lines.append(
            f"| {part} | {inputs:,} {last.unit} | {seconds / 3600:.2f} | {found} | {seeds} "
            f"| {last.date} | {last.commit} |"
        )
    return "\n".join(lines)
