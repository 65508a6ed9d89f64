"""Exports to Parquet: whole processes of `kafkafs export` beside those with `--spark`, start-up included.

Both write the same records with the same codec, on all cores. JSON lines, CSV, Avro and Arrow have no peer.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import bench_data
from bench_jvm import run_process
from bench_report import Report, Sample

CONTENTS = ("plain-100b", "json-200b", "zstd-16k")
OTHERS = ("csv", "jsonl", "avro", "arrow")


def run(report: Report, megabytes: int) -> None:
    """Each content to Parquet, and one content to the other formats."""
    size = min(megabytes, 200)
    with tempfile.TemporaryDirectory(prefix="bench-export-") as made:
        target = Path(made) / "out"
        for name in CONTENTS:
            folder = bench_data.partition(name, size)
            report.compare(
                *("export", f"{name} to Parquet", _megabytes(folder), "MB/s"),
                _exported(folder, target, "export"),
                _exported(folder, target, "export", "--spark", "local[*]", "--quiet"),
                target="wall 3",
                note="CPU of the peer: without the JVM",
            )
        folder = bench_data.partition(CONTENTS[0], size)
        for form in OTHERS:
            report.alone(
                *("export", f"{CONTENTS[0]} to {form}", _megabytes(folder), "MB/s"),
                _exported(folder, target, "export", "--format", form),
            )


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.glob("*.log")) / 1e6


def _exported(folder: Path, target: Path, *words: str) -> Callable[[], Sample]:
    """Return a run of a command to an empty target."""
    command = [sys.executable, "-m", "kafkafs", *words]

    def measure() -> Sample:
        shutil.rmtree(target, ignore_errors=True)
        return run_process([*command, str(folder), str(target)], bench_data.our_environment())

    return measure
