"""How long a person waits for a command to start: whole processes, beside Python that does nothing and the JVM's tool."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import bench_data
from bench_dump import MAIN, OPTIONS
from bench_jvm import run_process
from bench_report import Report, Sample

from tests.kafka import jars

NOTE = "peer: python -c pass"


def run(report: Report, megabytes: int) -> None:
    """--help, a record, mount, statfs and umount."""
    folder = bench_data.partition("plain-100b", megabytes)
    floor = [sys.executable, "-c", "pass"]
    for name, command in (
        ("--help", ["--help"]),
        ("cat of one record", ["cat", folder.parent, f"{folder.name}/offset/35"]),
        ("ls of a log dir", ["ls", folder.parent]),
    ):
        ours = [sys.executable, "-m", "kafkafs", *map(str, command)]
        report.compare(
            "start", name, 1, "/s", lambda c=ours: whole(c), lambda: whole(floor), note=NOTE
        )
    java = [*jars.java_command(jars.CURRENT, MAIN, options=OPTIONS), "--version"]
    help_ = [sys.executable, "-m", "kafkafs", "--help"]
    report.compare(
        "start",
        "--help against DumpLogSegments --version",
        1,
        "/s",
        lambda: whole(help_),
        lambda: run_process(java),
        target="wall 2",
    )
    run_mount(report, folder.parent, "a few partitions")
    run_mount(report, bench_data.many_partitions(10_000, 1), "10,000 partitions")


def run_mount(report: Report, source: Path, name: str) -> None:
    """Mount until the root can be listed, df, and umount until the daemon is gone."""
    mounts, asks, ends = [], [], []
    with tempfile.TemporaryDirectory(prefix="kafkafs-bench-") as place:
        for _ in range(report.rounds + 1):
            kafkafs = [sys.executable, "-m", "kafkafs"]
            mounts.append(whole([*kafkafs, "mount", str(source), place]))
            start = time.perf_counter()
            os.statvfs(place)
            asks.append(Sample(time.perf_counter() - start, 1e-9))
            ends.append(whole([*kafkafs, "umount", place]))
    for what, samples, seconds in (
        ("mount", mounts, 0.3),
        ("statfs", asks, 0.1),
        ("umount", ends, 0.3),
    ):
        left = iter(samples[1:])
        report.alone(
            "start",
            f"{what}, {name}",
            1,
            "/s",
            lambda left=left: next(left),
            target=f"{1 / seconds:.1f} /s",
            warm=0,
        )


def whole(command: list[str]) -> Sample:
    """Run a process of ours to its end."""
    return run_process(command, bench_data.our_environment())
