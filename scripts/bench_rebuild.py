"""`rebuild`: a log dir read, checked, written, synced, loaded and read again, on one core and on two.

The peer copies, syncs and hashes: `cp`, `sync`, `sha256sum`. It is the least that any verified copy costs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import bench_data
from bench_report import Report, Sample, timed

from engine.processes import by_weight
from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import rebuild

SETS = ("plain-100b", "lz4-16k", "zstd-16k", "tiny-plain")
TARGETS = {1: "wall 0.87", 2: "wall 1.25"}
"""Speeds beside the peer: at most 1.15 of its time on one core, 0.8 on two."""
MANY = 16
"""Cores of the simulated machine."""


def run(report: Report, megabytes: int) -> None:
    """One partition each, and all partitions of the log dir."""
    sources = {f"{name}, one partition": bench_data.partition(name, megabytes) for name in SETS}
    log_dir = bench_data.partition(SETS[0], megabytes).parent
    sources[f"{len(list(log_dir.iterdir()))} partitions"] = log_dir
    for name, source in sources.items():
        size = sum(file.stat().st_size for file in source.rglob("*.log")) / 1e6
        for cores in sorted({1, min(2, os.cpu_count() or 1)}):
            with tempfile.TemporaryDirectory(dir=bench_data.cache()) as folder:
                report.compare(
                    "rebuild",
                    f"{name}, {cores} cores",
                    size,
                    "MB/s",
                    _salvage(source, Path(folder, "ours"), cores),
                    _copied(source, Path(folder, "peer")),
                    target=TARGETS[cores],
                    note="peer: cp, sync, sha256sum",
                )
    _simulate(log_dir)


def _salvage(source: Path, target: Path, cores: int) -> Callable[[], Sample]:
    def salvage() -> None:
        rebuild(str(source), str(target), RebuildOptions(jobs=cores))

    def on_cores() -> Sample:
        every = os.sched_getaffinity(0)
        os.sched_setaffinity(0, set(sorted(every)[:cores]))
        try:
            return timed(salvage)
        finally:
            os.sched_setaffinity(0, every)
            shutil.rmtree(target)

    return on_cores


def _copied(source: Path, target: Path) -> Callable[[], Sample]:
    def copy() -> None:
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)
        subprocess.run(["sync", "-f", str(target)], check=True)
        files = [str(path) for path in target.rglob("*") if path.is_file()]
        subprocess.run(["sha256sum", *files], check=True, stdout=subprocess.DEVNULL)

    def removed() -> Sample:
        try:
            return timed(copy)
        finally:
            shutil.rmtree(target)

    return removed


def _simulate(log_dir: Path) -> None:
    """Print the bytes of the busiest of many processes, beside an even split: partitions are taken heaviest first."""
    sizes = [sum(file.stat().st_size for file in each.glob("*.log")) for each in log_dir.iterdir()]
    busy = [0] * MANY
    for place in by_weight(sizes):
        busy[busy.index(min(busy))] += sizes[place]
    even = max(sum(sizes) / MANY, max(sizes))
    print(f"rebuild: the busiest of {MANY} processes has {max(busy) / even:.2f} of the least")
