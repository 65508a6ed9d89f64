"""The soaks of damage and crashes beside the tests of these, as parts."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable

from tests.checkout import ROOT
from tests.crash.soak import soak as crash_states, soak_faults
from tests.damage import check_soak, sector_soak, soak as hit_soak
from tests.soak.parts import Job, Part

BATCH = 200
"""Inputs of one call of a soak, which begins by copying logs."""


def batched(run: Callable[[int, int, int], list[str]], size: int = BATCH) -> Callable[[Job], None]:
    """Runs a soak that takes a seed, a number of inputs and the number of the first, and gives failures."""

    def run_all(job: Job) -> None:
        for numbers in job.batches(size):
            with contextlib.redirect_stdout(io.StringIO()):
                failures = run(job.seed, len(numbers), numbers.start)
            for failure in failures:
                job.find(numbers.start, failure, count=len(numbers))

    return run_all


def hits(seed: int, count: int, first: int) -> list[str]:
    """Hits on files, and what the tree shows after them."""
    return hit_soak.soak(seed, count, first=first)


def checks(seed: int, count: int, first: int) -> list[str]:
    """Hits on files, and what `check` says of them."""
    tally = check_soak.soak(seed, count, first)
    return [*tally.missed, *tally.misplaced, *tally.broken]


def crashes(seed: int, count: int, first: int) -> list[str]:
    """States of the disk after crashes of the writer, loaded again."""
    return crash_states(seed * 1_000_003 + first, count, say=False)


def faults(seed: int, count: int, first: int) -> list[str]:
    """Calls of the writer that fail."""
    return soak_faults(seed * 1_000_003 + first, count, say=False)


def sectors(job: Job) -> None:
    """Sectors that cannot be read, in a process whose reads can fail."""
    for numbers in job.batches(BATCH):
        seed = job.seed * 1_000_003 + numbers.start
        words = ["--seed", str(seed), "--sectors", str(len(numbers))]
        with tempfile.TemporaryFile("w+") as said:
            status = said_by(sector_soak.__name__, words, said)
            if status:
                said.seek(0)
                job.find(numbers.start, said.read()[-4000:], count=len(numbers))


def said_by(module: str, words: list[str], said: io.TextIOBase) -> int:
    """Run a module; its exit status."""
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, cwd=ROOT, stdout=said, stderr=said, check=False).returncode


PARTS = (
    Part("damage/hits", "hits on files, and what the tree shows after them", "hits", batched(hits)),
    Part("damage/check", "hits on files, and what check finds", "hits", batched(checks)),
    Part("damage/sectors", "sectors that cannot be read", "sectors", sectors),
    Part("crash/states", "states after crashes of the writer, loaded", "states", batched(crashes)),
    Part("crash/faults", "calls of the writer that fail", "calls", batched(faults)),
)
