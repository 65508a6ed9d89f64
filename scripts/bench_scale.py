"""Commands over many partitions: time and memory for one more, and the exponent of the growth."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
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


def whole(command: list[str]) -> tuple[Sample, int]:
    """Run a process to its end: wall and CPU time, and its largest memory in bytes."""
    start = time.perf_counter()
    with open(os.devnull, "wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=sink, env=bench_data.our_environment()
        )
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    wall = time.perf_counter() - start
    return Sample(wall, used.ru_utime + used.ru_stime), used.ru_maxrss * 1024
