"""Dumps: whole processes of `kafkafs dump` against Kafka's DumpLogSegments with the same options, on one core and two.

The text goes to /dev/null on both sides. JSON lines and record lines (`kafkafs cat`) have no peer: their rows compare
one core with two.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import bench_data
from bench_jvm import OPTIONS, run_process
from bench_report import Report, Sample

from kafkafs.dump.dump_form import log_parts, part_items
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.inputs import MissingInput, expand
from kafkafs.dump.json_lines import JsonForm
from kafkafs.dump.text_form import TextForm
from tests.kafka import jars

CONTENTS = ("plain-100b", "plain-1kb", "json-200b", "lz4-16k", "zstd-16k", "tiny-plain")
RECORDS = ("plain-100b", "lz4-16k", "tiny-plain")
TIME_INDEX_MB = (4, 16)
"""Kafka's check of a time index takes time with the square of its size."""
MAIN = "org.apache.kafka.tools.DumpLogSegments"
SCALED = ("plain-100b", "zstd-16k")
"""Sets that are measured on one core and on two."""
MANY = 16
"""Cores of the simulated machine."""


def ours(*words: str, cores: int | None = None) -> Sample:
    """Our process, on the first of the cores if a number of them is given."""
    command = [sys.executable, "-m", "kafkafs", *words]
    if cores is not None:
        chosen = sorted(os.sched_getaffinity(0))[:cores]
        command = ["taskset", "-c", ",".join(map(str, chosen)), *command]
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
    for name in SCALED:
        _scale(report, name, bench_data.log_file(name, size))


def _scale(report: Report, name: str, file: Path) -> None:
    """Compare two cores with one, and print what sixteen would give."""
    lines = f"{file.parent.name}/records/{file.stem}.jsonl"
    works = {
        "dump --print-data-log": (("dump", "--print-data-log", str(file)), ""),
        "dump --json": (("dump", "--json", str(file)), "wall 1.6"),
        "cat of record lines": (("cat", str(file.parent), lines), ""),
    }
    for work, (words, target) in works.items():
        report.compare(
            "dump-log",
            f"{work} {name}, 2 cores beside 1",
            file.stat().st_size / 1e6,
            "MB/s",
            lambda words=words: ours(*words, cores=2),
            lambda words=words: ours(*words, cores=1),
            target=target,
            warm=0,
            note="start-up included",
        )
    text, json = TextForm(DumpOptions(print_data_log=True)), JsonForm(DumpOptions())
    for work, form in (("--print-data-log", text), ("--json", json)):
        _simulate(f"{work} {name}", form, file)


def _simulate(name: str, form: TextForm | JsonForm, file: Path) -> None:
    """Print the time on many cores from the CPU times of the parts, which are found one after the other.

    The time to write the text, and to move JSON lines between processes, is left out.
    """
    (found,) = expand([str(file)])
    assert not isinstance(found, MissingInput)
    free = [0.0] * MANY
    now = work = 0.0
    before = time.thread_time()
    for part in log_parts(form, found):
        now += (at := time.thread_time()) - before
        for _ in part_items(form, part):
            pass
        before = time.thread_time()
        work += before - at
        core = free.index(min(free))
        free[core] = max(free[core], now) + before - at
    print(
        f"dump-log: {name} on {MANY} cores: {(now + work) / max(free):.1f} times as fast as on one;"
        f" the parts are found in {now / max(free):.0%} of that time"
    )


def _compare(report: Report, name: str, file: Path, option: str, target: str) -> None:
    log = file.with_suffix(".log")
    report.compare(
        "dump-log",
        f"{file.suffix} {option} {name}",
        log.stat().st_size / 1e6,
        "MB/s",
        lambda: ours("dump", option, str(file)),
        lambda: kafkas(file, option),
        target=f"wall {target}" if target else "",
        warm=0,
    )
