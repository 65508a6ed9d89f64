"""The JVM side of the benchmarks: Kafka's own classes in a warm process, and its tools."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from bench_report import Sample

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kafka import jars  # noqa: E402

SOURCES = Path(__file__).resolve().parent / "bench_peer"
# The JVM's own defaults but for the heap's size: what a broker gets on a small machine.
OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")


class Answer(NamedTuple):
    """What a command took, how many things it saw, and a sum over them."""

    sample: Sample
    count: int
    total: int


class Peer:
    """One process, by default a JVM, that runs a file of bench_peer; a context manager."""

    def __init__(self, source: str = "KafkaPeer.java", command: list[str] | None = None) -> None:
        if command is None:
            command = jars.java_command(jars.CURRENT, str(SOURCES / source), options=OPTIONS)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait(30)

    def run(self, *words: object) -> Answer:
        """One command; RuntimeError when the process ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = process_cpu(self._process.pid)
        print(*words, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().split()
        if len(answer) != 3:
            raise RuntimeError(f"the peer failed at {words}: its message is above")
        cpu = process_cpu(self._process.pid) - before
        return Answer(Sample(int(answer[0]) / 1e9, max(cpu, 1e-9)), int(answer[1]), int(answer[2]))

    def warm_up(self, rounds: int, *words: object) -> Answer:
        """Runs a command until the JVM has compiled what it needs: the last answer."""
        for _ in range(rounds - 1):
            self.run(*words)
        return self.run(*words)


def compile_c(source: Path, program: Path, flags: Sequence[str] = ()) -> None:
    """gcc -O2, where the program is missing or older than its source."""
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["gcc", "-O2", "-w", "-o", program, source, *flags], check=True)


def process_cpu(pid: int) -> float:
    """Seconds of CPU that a process took so far, all threads; Linux's own numbering of clocks."""
    return time.clock_gettime((~pid << 3) | 2)


def generate(folder: Path, codec: str, batch: int, value: int, megabytes: int, kind: str) -> None:
    """Writes a partition's folder with Kafka's classes, whole or not at all."""
    made = folder.with_name(f"making-{os.getpid()}-{folder.name}")
    source = str(SOURCES / "GenerateData.java")
    command = jars.java_command(jars.CURRENT, source, options=OPTIONS)
    arguments = [str(made), codec, str(batch), str(value), str(megabytes), kind]
    subprocess.run([*command, *arguments], check=True)
    made.rename(folder)


def dump_log_segments(file: Path) -> Sample:
    """DumpLogSegments --print-data-log over one file, the whole process."""
    main = "org.apache.kafka.tools.DumpLogSegments"
    command = jars.java_command(jars.CURRENT, main, options=OPTIONS)
    return run_process([*command, "--print-data-log", "--files", str(file)])


def run_process(command: list[str], environment: Mapping[str, str] | None = None) -> Sample:
    """Runs a command with its output thrown away: wall and CPU time of the process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Sample(wall, usage.ru_utime + usage.ru_stime)
