"""`kafkafs serve` beside the broker that wrote the log dir: Fetch, the first record, connections that wait.

The client of Fetch is a loop in C that only looks at headers of batches, so the server is what is measured. CPU time is
the server's alone.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import bench_broker
import bench_data
from bench_broker import PARTITIONS, Topic
from bench_jvm import SOURCES, compile_c, process_cpu
from bench_mount import peak_memory
from bench_report import Report, Row, Sample

from tests.kafka import clients, jars
from tests.kafka.broker import Broker

FETCHED = (
    Topic("serve-plain", "none", 1000, 1000),
    Topic("serve-lz4", "lz4", 1000, 1000),
    Topic("serve-zstd", "zstd", 1000, 1000),
    Topic("serve-one-record-batches", "none", 100, 500, batch=1),
)
PARTITION_BYTES = 1 << 20  # as consumers ask by default
SMALL_BYTES = 16 * 1024
MODES = (
    (PARTITION_BYTES, []),
    (PARTITION_BYTES, ["session"]),
    (SMALL_BYTES, []),
    (SMALL_BYTES, ["session"]),
)
"""Bytes of a Fetch, and whether it belongs to a session, as those of Java's consumer do."""
READ = 2_000_000_000  # bytes of a sample, from the page cache
CROWDS = (
    (16, "plain", PARTITION_BYTES),
    (16, "plain", SMALL_BYTES),
    (16, "one-record-batches", SMALL_BYTES),
    (40, "plain", SMALL_BYTES),
    (40, "one-record-batches", SMALL_BYTES),
)
"""Busy consumers at once, more than there are processors; their topic, and the bytes of a Fetch."""
FIRST = "first"
CONNECTIONS = 1000
VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def run(report: Report, megabytes: int) -> None:
    """Fetch, from a broker and from a server over its log dir."""
    loop = bench_data.cache() / "fetch_loop"
    compile_c(SOURCES / "fetch_loop.c", loop)
    with bench_broker.started(megabytes) as broker:
        bench_broker.fill(broker, megabytes, FETCHED)
        with serving(broker.log_dir) as (server, address):
            for topic in FETCHED:
                name = topic.name.removeprefix("serve-")
                for size, mode in MODES:
                    words = [str(size), topic.name, str(PARTITIONS)]
                    once = fetched(loop, server.pid, address, [*words, "1", *mode])[1]
                    volume = READ if size == PARTITION_BYTES else READ // 10
                    words += [str(-(-volume // once)), *mode]
                    total = once * int(words[3])
                    title = " in a ".join([f"Fetch of {name}, {size // 1024} KiB", *mode])
                    report.compare(
                        *("serve", title, total / 1e6, "MB/s"),
                        lambda w=words: fetched(loop, server.pid, address, w)[0],
                        lambda w=words: fetched(loop, broker.pid, broker.bootstrap, w)[0],
                        target="cpu 1",
                        warm=3,
                    )
            for count, name, size in CROWDS:
                words = [str(size), f"serve-{name}", str(PARTITIONS)]
                once = fetched(loop, server.pid, address, [*words, "1"])[1]
                words.append(str(-(-READ // count // once)))
                total = count * once * int(words[3])
                title = f"Fetch of {name}, {size // 1024} KiB, {count} clients"
                report.compare(
                    *("serve", title, total / 1e6, "MB/s"),
                    lambda n=count, w=words: fetched_by_many(n, loop, server.pid, address, w),
                    lambda n=count, w=words: fetched_by_many(
                        n, loop, broker.pid, broker.bootstrap, w
                    ),
                    target="cpu 1",
                )
            for topic in FETCHED[:2]:
                rows = topic.per_megabyte * megabytes
                report.compare(
                    *("serve", f"kafka-consumer-perf-test, {topic.name}", rows / 1e3, "krow/s"),
                    lambda t=topic: consumed(address, server.pid, t, megabytes),
                    lambda t=topic: consumed(broker.bootstrap, broker.pid, t, megabytes),
                    target="wall 1",
                )


def consumed(address: str, pid: int, topic: Topic, megabytes: int) -> Sample:
    """Run Kafka's own consumer benchmark: the time that it fetched, and the server's CPU time."""
    rows = topic.per_megabyte * megabytes
    tool = "org.apache.kafka.tools.ConsumerPerformance"
    words = [
        *("--bootstrap-server", address, "--topic", topic.name, "--num-records", str(rows)),
        *("--timeout", "20000"),
    ]
    before = process_cpu(pid)
    heading, values = jars.run_java(jars.CURRENT, tool, *words).splitlines()[-2:]
    found = dict(zip(heading.split(", "), values.split(", "), strict=True))
    if int(found["data.consumed.in.nMsg"]) < rows:
        raise RuntimeError(f"{found} of {rows} records")
    return Sample(int(found["fetch.time.ms"]) / 1e3, process_cpu(pid) - before)


def fetched(loop: Path, pid: int, address: str, words: list[str]) -> tuple[Sample, int]:
    """Run the loop: wall time and the server's CPU time; bytes."""
    host, port = address.split(":")
    before = process_cpu(pid)
    done = subprocess.run([loop, host, port, *words], check=True, capture_output=True, text=True)
    nanoseconds, _, size = map(int, done.stdout.split())
    return Sample(nanoseconds / 1e9, max(process_cpu(pid) - before, 1e-9)), size


def fetched_by_many(count: int, loop: Path, pid: int, address: str, words: list[str]) -> Sample:
    """Run the loop in many clients at once: time until the last has ended, and the server's CPU time."""
    host, port = address.split(":")
    start, before = time.perf_counter(), process_cpu(pid)
    clients = [
        subprocess.Popen([loop, host, port, *words], stdout=subprocess.DEVNULL)
        for _ in range(count)
    ]
    if any(client.wait() for client in clients):
        raise RuntimeError("a client failed")
    return Sample(time.perf_counter() - start, max(process_cpu(pid) - before, 1e-9))


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


def run_start(report: Report, partitions: int) -> None:
    """The first record after the start of the process, beside the broker that wrote the log dir and was stopped."""
    loop = bench_data.cache() / "fetch_loop"
    compile_c(SOURCES / "fetch_loop.c", loop)
    small = {"log.index.size.max.bytes": 4096, "num.recovery.threads.per.data.dir": os.cpu_count()}
    broker = Broker(bench_data.cache() / f"serve-{partitions}-partitions", settings=small)
    words = [str(PARTITION_BYTES), FIRST, "1", "1"]
    if not (broker.home / "filled").exists():
        _create(broker, partitions)

    def theirs() -> Sample:
        start = time.perf_counter()
        with broker:
            while True:
                with suppress(subprocess.CalledProcessError):
                    if fetched(loop, broker.pid, broker.bootstrap, words)[1]:
                        return Sample(time.perf_counter() - start, process_cpu(broker.pid))
                time.sleep(0.02)

    def ours() -> Sample:
        start = time.perf_counter()
        with serving(broker.log_dir) as (server, address):
            if not fetched(loop, server.pid, address, words)[1]:
                raise RuntimeError("no record")
            return Sample(time.perf_counter() - start, process_cpu(server.pid))

    name = f"first record after the start, {partitions:,} partitions"
    report.compare("serve", name, 1, "/s", ours, theirs, target="wall 20", warm=0)
    with serving(broker.log_dir) as (server, address):
        peak = _memory(server, address) / 1e6
        row = Row("serve", f"memory with {CONNECTIONS:,} idle connections", "MB", peak)
        report.add(replace(row, target="100 MB"))


def _create(broker: Broker, partitions: int) -> None:
    """Write a log dir of that many partitions, one of them with a record, through the broker."""
    print(f"creating {partitions:,} partitions ...", flush=True)
    with broker:
        for number in range(partitions // 100):
            clients.create_topic(broker.bootstrap, f"topic-{number}", 100)
        clients.create_topic(broker.bootstrap, FIRST)
        sender = clients.producer(broker.bootstrap)
        sender.produce(FIRST, b"value")
        sender.flush()
    (broker.home / "filled").touch()


def _memory(server: subprocess.Popen[str], address: str) -> int:
    """Bytes of memory of a server whose clients have asked for its versions, and wait."""
    host, port = address.split(":")
    with ExitStack() as held:
        waiting = [
            held.enter_context(socket.create_connection((host, int(port))))
            for _ in range(CONNECTIONS)
        ]
        for each in waiting:
            each.sendall(VERSIONS_REQUEST)
        for each in waiting:
            each.recv(65536)
        return peak_memory(server.pid)
