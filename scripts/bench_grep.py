"""`kafkafs grep` beside Kafka's DumpLogSegments with grep behind it, and beside grep on record lines made before.

grep on lines is the floor: it reads text, without checksums, codecs or records. Whole processes; both print a count.
If kcat is installed, also beside a consumer: kcat reads the topic from a broker that is running, and pipes the values to
grep. The broker's CPU time is not in that row.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import bench_broker
import bench_data
from bench_jvm import OPTIONS, run_process
from bench_report import Report, Sample

from tests.kafka import jars

SETS = ("plain-100b", "lz4-16k", "zstd-16k")
LARGEST = 200
"""Megabytes of a log: Kafka's tool and the file of lines take several times as much."""
MAIN = "org.apache.kafka.tools.DumpLogSegments"


class Search(NamedTuple):
    """A search, and what the ratio to the dump of Kafka's tool should be."""

    name: str
    options: tuple[str, ...]
    pattern: str
    target: str


SEARCHES = (
    Search("rare literal", ("-F",), "zzzzq", "wall 8"),
    Search("frequent literal", ("-F",), "xy", "wall 8"),
    Search("-i, frequent", ("-i", "-F"), "XY", "wall 8"),
    Search("regex without a literal", (), "x[a-f]y|q[0-9]", "wall 8"),
)


def run(report: Report, megabytes: int) -> None:
    """Each search of each set, beside both peers."""
    for name in SETS:
        file = bench_data.log_file(name, min(megabytes, LARGEST))
        with tempfile.TemporaryDirectory(prefix="bench-grep-") as made:
            lines = Path(made, "lines")
            with open(lines, "wb") as out:
                path = f"{file.parent.name}/records/{file.stem}.jsonl"
                subprocess.run(
                    [sys.executable, "-m", "kafkafs", "cat", str(file), path],
                    stdout=out,
                    env=bench_data.our_environment(),
                    check=True,
                )
            for search in SEARCHES:
                _compare(report, file, lines, search)


def run_beside_kcat(report: Report, megabytes: int) -> None:
    """Each search of two topics of a broker, beside kcat and grep."""
    if shutil.which("kcat") is None:
        print("no row for kcat | grep: kcat is not installed (apt install kcat)")
        return
    with bench_broker.started(megabytes) as broker:
        bench_broker.fill(broker, megabytes)
        for topic in bench_broker.TOPICS[:2]:
            kcat = f"kcat -C -q -e -b {broker.bootstrap} -o beginning -t {topic.name}"
            for search in SEARCHES:
                report.compare(
                    "grep",
                    f"{topic.name}, {search.name}; kcat | grep",
                    topic.per_megabyte * megabytes / 1000,
                    "krec/s",
                    lambda: _shell(_ours(search, str(broker.log_dir), "--topic", topic.name)),  # noqa: B023
                    lambda: _shell(f"{kcat} | {_grep(search)} | cat"),  # noqa: B023
                    target=search.target,
                    note="cpu: without the broker's",
                    warm=0,
                )


def _ours(search: Search, *source: str) -> str:
    command = (sys.executable, "-m", "kafkafs", "grep", "-c", *search.options)
    return shlex.join([*command, "--field", "value", search.pattern, *source])


def _grep(search: Search) -> str:
    # Through a pipe: GNU grep stops at the first match when its output is thrown away.
    kind = () if "-F" in search.options else ("-E",)
    return shlex.join(["grep", "-c", *kind, *search.options, search.pattern])


def _compare(report: Report, file: Path, lines: Path, search: Search) -> None:
    ours, count = _ours(search, str(file)), _grep(search)
    tool = jars.java_command(jars.CURRENT, MAIN, options=OPTIONS)
    dump = shlex.join([*tool, "--print-data-log", "--files", str(file)])
    megabytes = lines.stat().st_size / 1e6
    for what, peer, target in (
        ("DumpLogSegments | grep", f"{dump} | {count} | cat", search.target),
        (f"grep on {megabytes:.0f} MB of lines", f"{count} {shlex.quote(str(lines))} | cat", ""),
    ):
        report.compare(
            "grep",
            f"{file.parent.name[:-2]}, {search.name}; {what}",
            file.stat().st_size / 1e6,
            "MB/s",
            lambda: _shell(ours),
            lambda peer=peer: _shell(peer),  # type: ignore[misc]
            target=target,
            warm=0,
        )


def _shell(line: str) -> Sample:
    """A command line of the shell; grep ends with 1 where it finds nothing."""
    return run_process(["sh", "-c", f"{line} || test $? = 1"], bench_data.our_environment())
