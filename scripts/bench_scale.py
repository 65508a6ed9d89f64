"""Commands over many partitions: time and memory for one more, and the exponent of the growth."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import bench_data
from bench_report import Report, Row, Sample, median_wall

COMMANDS = (["ls"], ["ls", "-l"], ["offsets"], ["check"])
TARGETS = {"ls -l": 50_000, "offsets": 12_500, "check": 1_400}
"""Partitions a second."""


def run(report: Report, partitions: int) -> None:
    """Each command over a tenth of the partitions and over all of them, beside `find`; `check` over a tenth of both."""
    for command in COMMANDS:
        count = partitions // 10 if command == ["check"] else partitions
        few, many = (bench_data.many_partitions(each, 1) for each in (count // 10, count))
        _run_one(report, command, few, many, count)


def _run_one(report: Report, command: list[str], few: Path, many: Path, partitions: int) -> None:
    name = " ".join(command)
    kafkafs = [sys.executable, "-m", "kafkafs", *command]
    small = [whole([*kafkafs, str(few)])[0] for _ in range(report.rounds)]
    peaks: list[int] = []

    def ours() -> Sample:
        sample, peak = whole([*kafkafs, str(many)])
        peaks.append(peak)
        return sample

    row = report.compare(
        "scale",
        f"{name}, {partitions:,} partitions",
        partitions,
        "partitions/s",
        ours,
        lambda: whole(["find", str(many), "-type", "f", "-size", "+1G"])[0],
        target=f"{TARGETS[name]:,}/s" if name in TARGETS else "",
        note="peer: find, one stat a file",
    )
    larger = median_wall(row.samples["ours"])
    start = whole([sys.executable, "-m", "kafkafs", "offsets", str(few / "topic-0-0")])[0].wall
    growth = math.log10(max(larger - start, 1e-9) / max(median_wall(small) - start, 1e-9))
    note = f"exponent from {partitions // 10:,} to {partitions:,} partitions, the start left out"
    report.add(Row("scale", f"{name}: growth", "", growth, target="1", note=note))
    peak = max(peaks) / 2**20
    report.add(Row("scale", f"{name}: peak memory", "MiB", peak, note=f"{partitions:,} partitions"))


# Linux hands the peak of a process's memory on to the processes that it starts: a small one starts the command.
_MEASURE = """
import os, resource, sys, time
sinks = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
start = time.perf_counter()
os.waitpid(os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=sinks), 0)
wall = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(wall, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def whole(command: list[str]) -> tuple[Sample, int]:
    """Run a process to its end: wall and CPU time, and its largest memory in bytes."""
    measured = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MEASURE, *command],
        env=bench_data.our_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    wall, cpu, peak = measured.stdout.split()
    return Sample(float(wall), float(cpu)), int(peak) * 1024
