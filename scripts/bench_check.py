"""`kafkafs check` beside DumpLogSegments, which looks at less: deep iteration, then both indexes of the segment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import bench_data
import bench_jvm
from bench_report import Report, Sample

from tests.kafka import jars

SETS = ("plain-100b", "lz4-16k", "zstd-16k", "tiny-plain")
MAIN = "org.apache.kafka.tools.DumpLogSegments"
INDEXES = (".index", ".timeindex")
PATIENCE = 120.0
"""Seconds after which the peer's check of an index is stopped: of a time index it is quadratic in 4.3.1."""


def run(report: Report, megabytes: int) -> None:
    """Whole processes, on one core and on all."""
    for name in SETS:
        file = bench_data.log_file(name, megabytes)
        size = file.stat().st_size / 1e6
        peer: list[Sample] = []

        def kafka(file: Path = file, peer: list[Sample] = peer) -> Sample:
            """The peer takes minutes: once is enough, and both rows are held against it."""
            if not peer:
                peer.append(_dump_log_segments(file))
            return peer[0]

        note = "the peer was stopped" if kafka().wall > PATIENCE else ""
        for jobs in sorted({1, os.cpu_count() or 1}):
            report.compare(
                "check",
                f"{name}, {jobs} core{'s' * (jobs > 1)}",
                size,
                "MB/s",
                lambda file=file, jobs=jobs: _ours(file, jobs),
                kafka,
                target="wall 10",
                warm=0,
                note=note,
            )


def _ours(file: Path, jobs: int) -> Sample:
    """Exit status 1 is fine: the data has no leader-epoch-checkpoint, and that is said."""
    command = [sys.executable, "-m", "kafkafs", "check", str(file.parent), "--jobs", str(jobs)]
    cores = sorted(os.sched_getaffinity(0))[:jobs]
    pinned = ["taskset", "-c", ",".join(map(str, cores)), *command]
    return _process(pinned, (0, 1), None, bench_data.our_environment())


def _dump_log_segments(file: Path) -> Sample:
    """One process for the records, one for each index."""
    samples = [_tool(["--deep-iteration", "--files", str(file)], None)]
    for suffix in INDEXES:
        index = str(file.with_suffix(suffix))
        samples.append(_tool(["--verify-index-only", "--files", index], PATIENCE))
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
