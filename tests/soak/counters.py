"""The counters of all runs, in one file of JSON lines: what was tried, for how long, and what was found.

Their sums are kept in a table of the repository, so that runs on another machine go on behind them.
"""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.checkout import ROOT, commit, now
from tests.soak.parts import Job

SAVED = ROOT / "tests" / "soak_counters.tsv"


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


class Sum(NamedTuple):
    """All runs of a part with one seed.

    Attributes:
        part, seed: what was run.
        end: number of the first input that was not tried.
        inputs, unit, seconds, findings: how many of what, for how long.
        commit, date: of the last run.
        notes: what its runs counted besides, by name.
    """

    part: str
    seed: int
    end: int
    inputs: int
    unit: str
    seconds: float
    findings: int
    commit: str
    date: str
    notes: dict[str, int]


def sums(counters: list[Counter], path: Path) -> list[Sum]:
    """The saved sums with the runs that are not yet in them."""
    saved = {(each.part, each.seed): each for each in read_sums(path)}
    added = dict(saved)
    for run in sorted(counters, key=lambda each: each.date):
        key = run.part, run.seed
        if key in saved and run.first < saved[key].end:
            continue
        before = added.get(key)
        added[key] = Sum(
            *key,
            max(run.first + run.inputs, before.end if before else 0),
            run.inputs + (before.inputs if before else 0),
            run.unit,
            round(run.seconds + (before.seconds if before else 0), 1),
            run.findings + (before.findings if before else 0),
            run.commit,
            run.date,
            added_notes([before.notes if before else {}, run.notes]),
        )
    return [added[key] for key in sorted(added)]


def added_notes(each: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sum of each note."""
    total: dict[str, int] = {}
    for notes in each:
        for name, count in notes.items():
            total[name] = total.get(name, 0) + count
    return total


def said(notes: dict[str, int]) -> str:
    """Notes in a line."""
    return ", ".join(f"{count:,} {name}" for name, count in notes.items())


def save(counters: list[Counter], path: Path) -> None:
    """Add the runs to the sums."""
    table = sums(counters, path)
    with path.open("w", newline="") as out:
        writer = csv.writer(out, delimiter="\t", lineterminator="\n")
        writer.writerow(Sum._fields)
        writer.writerows(each._replace(notes=json.dumps(each.notes)) for each in table)


def read_sums(path: Path) -> list[Sum]:
    """The saved sums; none without a file."""
    if not path.exists():
        return []
    kinds = Sum.__annotations__
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    readers: dict[str, Callable[[str], Any]] = {
        "seed": int, "end": int, "inputs": int, "seconds": float, "findings": int,
        "notes": json.loads,
    }  # fmt: skip
    return [Sum(*(readers.get(name, str)(row.get(name, "{}")) for name in kinds)) for row in rows]


def first_untried(table: list[Sum], part: str, seed: int) -> int:
    """The number of the first input of a part that no run with this seed has reached."""
    return next((each.end for each in table if (each.part, each.seed) == (part, seed)), 0)


def report(table: list[Sum]) -> str:
    """A Markdown table with a line for each part."""
    lines = [
        "| part | inputs | besides | hours | findings | seeds | last run | of |",
        "|---|--:|---|--:|--:|--:|---|---|",
    ]
    for part in sorted({each.part for each in table}):
        runs = [each for each in table if each.part == part]
        last = max(runs, key=lambda each: each.date)
        inputs, seconds = sum(each.inputs for each in runs), sum(each.seconds for each in runs)
        found = sum(each.findings for each in runs)
        lines.append(
            f"| {part} | {inputs:,} {last.unit} | {said(added_notes(each.notes for each in runs))} "
            f"| {seconds / 3600:.2f} | {found} | {len(runs)} "
            f"| {last.date} | {last.commit} |"
        )
    return "\n".join(lines)
