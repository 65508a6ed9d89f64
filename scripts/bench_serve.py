"""`kafkafs serve` beside the broker that wrote the log dir: Fetch, the first record, connections that wait.

The client of Fetch is a loop in C that only looks at headers of batches, so the server is what is measured. CPU time is
the server's alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import bench_broker
import bench_data
from bench_broker import PARTITIONS, Topic
from bench_jvm import SOURCES, compile_c, process_cpu
from bench_report import Report, Sample

FETCHED = (
    Topic("serve-plain", "none", 1000, 1000),
    Topic("serve-lz4", "lz4", 1000, 1000),
    Topic("serve-zstd", "zstd", 1000, 1000),
    Topic("serve-one-record-batches", "none", 100, 500, batch=1),
)
PARTITION_BYTES = 1 << 20  # as consumers ask by default


def run(report: Report, megabytes: int) -> None:
    """Fetch, from a broker and from a server over its log dir."""
    loop = bench_data.cache() / "fetch_loop"
    compile_c(SOURCES / "fetch_loop.c", loop)
    with bench_broker.started(megabytes) as broker:
        bench_broker.fill(broker, megabytes, FETCHED)
        with serving(broker.log_dir) as (server, address):
            for topic in FETCHED:
                words = [str(PARTITION_BYTES), topic.name, str(PARTITIONS)]
                size = fetched(loop, broker.pid, broker.bootstrap, words)[1]
                report.compare(
                    *("serve", f"Fetch of {topic.name.removeprefix('serve-')}", size / 1e6, "MB/s"),
                    lambda w=words: fetched(loop, server.pid, address, w)[0],
                    lambda w=words: fetched(loop, broker.pid, broker.bootstrap, w)[0],
                    target="cpu 1",
                )


def fetched(loop: Path, pid: int, address: str, words: list[str]) -> tuple[Sample, int]:
    """Run the loop: wall time and the server's CPU time; bytes."""
    host, port = address.split(":")
    before = process_cpu(pid)
    done = subprocess.run([loop, host, port, *words], check=True, capture_output=True, text=True)
    nanoseconds, _, size = map(int, done.stdout.split())
    return Sample(nanoseconds / 1e9, max(process_cpu(pid) - before, 1e-9)), size


@contextmanager
def serving(source: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server over a source, and its address."""
    command = [sys.executable, "-m", "kafkafs", "serve", str(source), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--print-config", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=bench_data.our_environment(),
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip().removeprefix("bootstrap.servers=")
        finally:
            process.terminate()
