"""Disasters of whole clusters: what a recovery keeps, judged by what clients were told before.

    scripts/disaster model [--cases N] [--seed S] [--jobs N]
    scripts/disaster real [--cases N] [--seed S] [--version VERSION]

model runs clusters in memory, without Java; it is the part `disasters` of scripts/soak, which keeps counters and findings.
real starts nodes of Kafka under load, kills them, cuts their files, and prints what a mere start loses beside what a
recovery loses. The exit status is 1 if a recovery is wrong.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from tests.checkout import ROOT

SLICE = 500
"""Cases of a process of the model."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed arguments."""
    parser = argparse.ArgumentParser(
        prog="scripts/disaster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    model, real = kinds.add_parser("model"), kinds.add_parser("real")
    for each, cases in ((model, 1000), (real, 5)):
        each.add_argument("--cases", type=int, default=cases, help=f"number of cases [{cases}]")
        each.add_argument("--seed", type=int, default=1, help="of the first case [1]")
    model.add_argument("--jobs", type=int, default=1, help="processes, each with a seed more [1]")
    real.add_argument("--version", help="Kafka's; both that are judged, by turns, if not given")
    return parser.parse_args(given)


def run_model(cases: int, seed: int, jobs: int) -> int:
    """Run cases of the model in processes; the worst exit status. Counters are kept behind each slice."""
    status, left = 0, -(-cases // jobs)
    while left > 0:
        command = [sys.executable, "-m", "tests.soak.main", "disasters"]
        command += ["--inputs", str(min(left, SLICE)), "--seed"]
        running = [subprocess.Popen([*command, str(seed + at)], cwd=ROOT) for at in range(jobs)]
        status = max(status, *(process.wait() for process in running))
        left -= SLICE
    return status


def main(given: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    asked = arguments(given)
    if asked.kind == "model":
        return run_model(asked.cases, asked.seed, asked.jobs)
    from tests.disasters.real import run_real

    return run_real(asked.cases, asked.seed, asked.version)


if __name__ == "__main__":
    sys.exit(main())
