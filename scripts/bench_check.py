"""`kafkafs check` beside DumpLogSegments, which checks less: deep iteration, then the offset index of the segment.

DumpLogSegments can check the time index, too, in hours: that check has a row of its own and is in no ratio.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import bench_data
import bench_jvm
from bench_report import Report, Row, Sample

from tests.kafka import jars

SETS = ("plain-100b", "lz4-16k", "zstd-16k", "tiny-plain")
MAIN = "org.apache.kafka.tools.DumpLogSegments"
PATIENCE = 120.0
"""Seconds after which the peer's check of a time index is stopped: its time is quadratic in 4.3.1."""


def run(report: Report, megabytes: int) -> None:
    """Compare whole processes, on one core and on all."""
    for name in SETS:
        file = bench_data.log_file(name, megabytes)
        size = file.stat().st_size / 1e6
        for jobs in sorted({1, os.cpu_count() or 1}):
            report.compare(
                "check",
                f"{name}, {jobs} core{'s' * (jobs > 1)}",
                size,
                "MB/s",
                lambda file=file, jobs=jobs: _ours(file, jobs),
                lambda file=file: _dump_log_segments(file),
                target="wall 10",
                warm=0,
                note="the peer without its check of the time index",
            )
        report.add(_time_index_row(name, file))


def _time_index_row(name: str, file: Path) -> Row:
    """Return a row without a ratio: the peer's check of the time index, stopped after PATIENCE seconds."""
    index = str(file.with_suffix(".timeindex"))
    taken = _tool(["--verify-index-only", "--files", index], PATIENCE).wall
    note = f"stopped after {PATIENCE:.0f} s" if taken > PATIENCE else ""
    return Row("check", f"{name}, time index alone, the peer", "s", taken, note=note)


def _ours(file: Path, jobs: int) -> Sample:
    """Run our side; exit status 1 is expected, since the data has no leader-epoch-checkpoint."""
    command = [sys.executable, "-m", "kafkafs", "check", str(file.parent), "--jobs", str(jobs)]
    cores = sorted(os.sched_getaffinity(0))[:jobs]
    pinned = ["taskset", "-c", ",".join(map(str, cores)), *command]
    return _process(pinned, (0, 1), None, bench_data.our_environment())


def _dump_log_segments(file: Path) -> Sample:
    """Run one process for the records and one for the offset index."""
    index = str(file.with_suffix(".index"))
    samples = [
        _tool(["--deep-iteration", "--files", str(file)], None),
        _tool(["--verify-index-only", "--files", index], None),
    ]
    return Sample(sum(each.wall for each in samples), sum(each.cpu for each in samples))


def _tool(arguments: list[str], patience: float | None) -> Sample:
    command = jars.java_command(jars.CURRENT, MAIN, options=bench_jvm.OPTIONS)
    return _process([*command, *arguments], (0,), patience)


def _process(
    command: list[str],
    fine: tuple[int, ...],
    patience: float | None,
    environment: dict[str, str] | None = None,
) -> Sample:
    """A process with its output thrown away, stopped when it takes too long."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    cpu = 0.0
    try:
        while process.poll() is None:
            cpu = bench_jvm.process_cpu(process.pid)
            if patience is not None and time.perf_counter() - start > patience:
                process.kill()
                process.wait()
                return Sample(time.perf_counter() - start, cpu)
            time.sleep(0.01)
    except OSError:  # it ended between the two questions
        process.wait()
    wall = time.perf_counter() - start
    if process.returncode not in fine:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Sample(wall, max(cpu, 1e-9))
