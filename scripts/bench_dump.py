"""Dumps: whole processes of `kafkafs dump` against Kafka's DumpLogSegments with the same options."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import bench_data
from bench_jvm import OPTIONS, run_process
from bench_report import Report, Sample

from tests.kafka import jars

CONTENTS = ("plain-100b", "plain-1kb", "json-200b", "lz4-16k", "zstd-16k", "tiny-plain")
RECORDS = ("plain-100b", "lz4-16k", "tiny-plain")
TIME_INDEX_MB = (4, 16)
"""Kafka's check of a time index takes time with the square of its size."""
MAIN = "org.apache.kafka.tools.DumpLogSegments"


def ours(file: Path, *options: str) -> Sample:
    """Our process."""
    command = [sys.executable, "-m", "kafkafs", "dump", *options, str(file)]
    return run_process(command, bench_data.our_environment())


def kafkas(file: Path, *options: str) -> Sample:
    """Kafka's process."""
    command = jars.java_command(jars.CURRENT, MAIN, options=OPTIONS)
    return run_process([*command, *options, "--files", str(file)])


def run(report: Report, megabytes: int) -> None:
    """Everything, on logs of up to 200 MB."""
    size = min(megabytes, 200)
    for name in CONTENTS:
        _compare(report, name, bench_data.log_file(name, size), "--print-data-log", "3")
    for name in RECORDS:
        _compare(report, name, bench_data.log_file(name, size), "--deep-iteration", "3")
    with tempfile.TemporaryDirectory(prefix="bench-dump-") as made:
        # Kafka's tool writes to the indexes that it reads.
        copy = Path(made, "plain-0")
        shutil.copytree(bench_data.partition("plain-100b", size), copy)
        for index in copy.glob("*.index"):
            _compare(report, "plain-100b", index, "--verify-index-only", "")
        for smaller in TIME_INDEX_MB:
            copy = Path(made, f"small-{smaller}")
            shutil.copytree(bench_data.partition("plain-100b", smaller), copy)
            for index in copy.glob("*.timeindex"):
                _compare(report, f"{smaller} MB log", index, "--verify-index-only", "")


def _compare(report: Report, name: str, file: Path, option: str, target: str) -> None:
    log = file.with_suffix(".log")
    report.compare(
        "dump-log",
        f"{file.suffix} {option} {name}",
        log.stat().st_size / 1e6,
        "MB/s",
        lambda: ours(file, option),
        lambda: kafkas(file, option),
        target=f"wall {target}" if target else "",
        warm=0,
    )
