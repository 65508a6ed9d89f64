"""`rebuild`: a whole log dir read, checked, written, synced, loaded and read again; beside `cp` and `sync`, which only copy."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import bench_data
from bench_report import Report, Sample, timed

from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import rebuild

SETS = ("plain-100b", "lz4-16k", "zstd-16k", "tiny-plain")


def run(report: Report, megabytes: int) -> None:
    """One partition each; what `cp` does is the least that any copy costs."""
    for name in SETS:
        file = bench_data.log_file(name, megabytes)
        size = file.stat().st_size / 1e6
        with tempfile.TemporaryDirectory(dir=bench_data.cache()) as folder:
            at = Path(folder)
            report.compare(
                "rebuild",
                f"{name}, salvage",
                size,
                "MB/s",
                lambda file=file, at=at: timed(lambda: _salvage(file.parent, at / "ours")),
                lambda file=file, at=at: _copied(file.parent, at / "peer"),
                note="the peer is cp and sync",
            )


def _salvage(source: Path, target: Path) -> None:
    rebuild(str(source), str(target), RebuildOptions())
    shutil.rmtree(target)


def _copied(source: Path, target: Path) -> Sample:
    def copy() -> None:
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)
        subprocess.run(["sync", "-f", str(target)], check=True)
        shutil.rmtree(target)

    return timed(copy)
