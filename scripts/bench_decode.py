"""Bulk work on one core: decoding, checksums, record lines, search; and on two."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bench_data
import numpy as np
from bench_jvm import SOURCES, Peer, compile_c, dump_log_segments, run_process
from bench_report import Report, Row, Sample, timed

from engine import kernel
from engine.columns.batch_table import BATCH_ROW

DECODE_TARGETS = {
    "plain-100b": 3.0, "plain-1kb": 2.2, "lz4-16k": 2.0, "lz4-128k": 2.0, "snappy-16k": 2.0, "snappy-128k": 2.0,
    "zstd-16k": 2.3, "zstd-128k": 1.85, "gzip-16k": 2.2, "gzip-128k": 2.2, "tiny-plain": 10.0, "tiny-zstd": 10.0,
    "tiny-lz4": 9.2,
}  # fmt: skip
MAPPED_SETS = ("plain-100b", "lz4-16k", "tiny-plain")
INFLATE_SETS = {
    "zstd-16k": "libzstd.so.1", "zstd-128k": "libzstd.so.1", "gzip-16k": "libdeflate.so.0", "gzip-128k": "libdeflate.so.0",
}  # fmt: skip
"""Data sets, and the library that the kernel inflates them with."""
CRC_SETS = ("plain-100b", "lz4-16k", "tiny-plain")
LINE_SETS = (
    "plain-100b",
    "json-200b",
    "lz4-16k",
    "snappy-16k",
    "zstd-16k",
    "gzip-16k",
    "tiny-plain",
)
DUMP_SETS = ("plain-100b", "lz4-16k", "zstd-16k")
THREADS_BYTES = 1 << 30
THREAD_SETS = ("plain-100b", "lz4-16k", "zstd-16k", "tiny-plain")
LINE_CHUNK = 512 << 10  # what a stream of record lines decodes at a time


class Reading:
    """Reads a segment chunk by chunk into one buffer, as the bulk loop does.

    Smaller chunks stay in the processor's cache, larger ones amortise a call: 1 MiB is the engine's own.
    """

    def __init__(self, file: Path, *, check_crc: bool, chunk: int = 1 << 20) -> None:
        self.file = file
        self.check_crc = check_crc
        self._buffer = bytearray(chunk)
        self._table = np.zeros(32_768, BATCH_ROW.dtype)

    def runs(self, start: int = 0, end: int | None = None) -> Iterator[tuple[Any, Any, int]]:
        """Buffer, table's filled rows and the buffer's position in the file."""
        descriptor = os.open(self.file, os.O_RDONLY)
        try:
            end = os.fstat(descriptor).st_size if end is None else end
            while start < end:
                view = memoryview(self._buffer)[: min(len(self._buffer), end - start)]
                size = os.preadv(descriptor, [view], start)
                rows, used, _ = kernel.walk(view[:size], self._table, 0, start, self.check_crc)
                if not rows:
                    raise ValueError(f"no batch at byte {start} of {self.file}")
                yield view[:size], self._table[:rows], start
                start += used
        finally:
            os.close(descriptor)


def decode_all(reading: Reading, start: int = 0, end: int | None = None) -> int:
    """Decode every record to columns; return the number of records."""
    total = 0
    for buffer, table, position in reading.runs(start, end):
        row = 0
        while row < len(table):
            columns = kernel.decode(buffer, table, row, len(table), start_position=position)
            if columns.problems:
                raise ValueError(columns.problems[0].detail)
            total += len(columns)
            row = columns.next_row
    return total


def touched(reading: Reading) -> tuple[int, int]:
    """Records and the sum that the JVM forms too: offset, timestamp, size and first byte of key and value."""
    count = total = 0
    for buffer, table, position in reading.runs():
        columns = kernel.decode(buffer, table, 0, len(table), start_position=position)
        if columns.next_row != len(table):
            raise ValueError("a chunk did not decode at once")
        arena = np.frombuffer(columns.arena, np.int8)
        count += len(columns)
        total += int(columns.offset.sum() + columns.timestamp.sum())
        total += int(columns.key_size.sum() + columns.value_size.sum())
        total += int(arena[columns.key_start].sum() + arena[columns.value_start].sum())
    return count, total


def check_all(reading: Reading) -> int:
    """Checks every batch: how many."""
    count = 0
    for _, table, _ in reading.runs():
        count += len(table)
        if not table["crc_ok"].all():
            raise ValueError("a checksum is wrong")
    return count


def write_lines(reading: Reading, options: kernel.LineOptions, out: str) -> int:
    """Every record as a line into `out`: bytes."""
    written = 0
    with open(out, "wb", buffering=0) as output:
        for buffer, table, position in reading.runs():
            result = kernel.lines(
                buffer, table, 0, len(table), start_position=position, options=options
            )
            if result.problem or result.text is None:
                raise ValueError(f"no lines: {result.problem}")
            written += output.write(result.text)
    return written


def search_all(reading: Reading, needle: bytes) -> int:
    """Batches that may hold the needle."""
    return sum(
        int(kernel.contains(buffer, table, 0, len(table), needle, start_position=position).sum())
        for buffer, table, position in reading.runs()
    )


def run_decode(report: Report, peer: Peer, megabytes: int) -> None:
    """Compare decoding to columns with iteration by FileRecords; both sides touch each record."""
    for name, target in DECODE_TARGETS.items():
        _compare_decoding(report, peer, megabytes, name, "iterate", f"cpu {target}")
    for name in MAPPED_SETS:
        _compare_decoding(report, peer, megabytes, name, "iterate-mmap", "")


def _compare_decoding(
    report: Report, peer: Peer, megabytes: int, name: str, command: str, target: str
) -> None:
    file = bench_data.log_file(name, megabytes)
    reading = Reading(file, check_crc=False)
    answer = peer.warm_up(4, command, file)
    if touched(reading) != (answer.count, answer.total):
        raise ValueError(f"{name}: the JVM saw other records than we did")
    report.compare(
        "decode",
        f"{name}, the peer by a map" if command == "iterate-mmap" else name,
        answer.count / 1e6,
        "M rec/s",
        lambda: timed(lambda: touched(reading)),
        lambda: peer.run(command, file).sample,
        target=target,
    )


def run_inflate(report: Report, megabytes: int) -> None:
    """Decoding to columns against a C loop that only decompresses, with the same library."""
    program = bench_data.cache() / "inflate_loop"
    compile_c(SOURCES / "inflate_loop.c", program, ["-ldl"])
    for name, library in INFLATE_SETS.items():
        file = bench_data.log_file(name, megabytes)
        reading = Reading(file, check_crc=False)
        codec = name.split("-")[0]
        with Peer(command=[str(program), codec, library, str(file)]) as peer:
            report.compare(
                "inflate",
                f"{name}, against a C loop",
                peer.run().total / 1e6,
                "MB/s inflated",
                lambda reading=reading: timed(lambda: decode_all(reading)),
                lambda peer=peer: peer.run().sample,
                target="cpu 0.95",
            )


def run_crc(report: Report, peer: Peer, megabytes: int) -> None:
    """The checksum of every batch."""
    for name in CRC_SETS:
        file = bench_data.log_file(name, megabytes)
        reading = Reading(file, check_crc=True)
        batches = peer.warm_up(4, "crc", file).count
        if check_all(reading) != batches:
            raise ValueError(f"{name}: the JVM saw {batches} batches")
        report.compare(
            "crc",
            name,
            file.stat().st_size / 1e9,
            "GB/s",
            lambda reading=reading: timed(lambda: check_all(reading)),
            lambda file=file: peer.run("crc", file).sample,
            target="cpu 2.5",
        )


def run_lines(report: Report, peer: Peer, megabytes: int) -> None:
    """Record lines against a JVM that writes the same bytes."""
    for name in LINE_SETS:
        file = bench_data.log_file(name, megabytes)
        reading = Reading(file, check_crc=False, chunk=LINE_CHUNK)
        options = kernel.LineOptions(name, 0)
        records = peer.warm_up(4, "lines", file, "/dev/null", name, 0).count
        _same_lines(peer, reading, options, file, name)
        report.compare(
            "lines",
            name,
            records / 1e6,
            "M rec/s",
            lambda reading=reading, options=options: timed(
                lambda: write_lines(reading, options, "/dev/null")
            ),
            lambda file=file, name=name: peer.run("lines", file, "/dev/null", name, 0).sample,
            target="cpu 2.4",
        )


def _same_lines(
    peer: Peer, reading: Reading, options: kernel.LineOptions, file: Path, name: str
) -> None:
    ours, theirs = (bench_data.cache() / f"lines-{side}-{os.getpid()}" for side in "ab")
    try:
        write_lines(reading, options, str(ours))
        peer.run("lines", file, theirs, name, 0)
        if run_same(ours, theirs):
            raise ValueError(f"{name}: the JVM writes other lines than we do")
    finally:
        ours.unlink(missing_ok=True)
        theirs.unlink(missing_ok=True)


def run_same(one: Path, other: Path) -> bool:
    """Whether two files differ."""
    with open(one, "rb") as first, open(other, "rb") as second:
        while True:
            left, right = first.read(1 << 20), second.read(1 << 20)
            if left != right:
                return True
            if not left:
                return False


def run_dump(report: Report, megabytes: int) -> None:
    """Whole processes: `kafkafs cat` of record lines against DumpLogSegments --print-data-log."""
    environment = bench_data.our_environment()
    for name in DUMP_SETS:
        file = bench_data.log_file(name, megabytes)
        path = f"{name}-0/records/{file.stem}.jsonl"
        command = [sys.executable, "-m", "kafkafs", "cat", str(file.parent.parent), path]
        run_process(command, environment)
        report.compare(
            "dump",
            name,
            file.stat().st_size / 1e6,
            "MB/s",
            lambda command=command: run_process(command, environment),
            lambda file=file: dump_log_segments(file),
            target="cpu 10",
            warm=0,
        )


def run_search(report: Report, megabytes: int) -> None:
    """Search in values for a needle that is not there."""
    for name in ("plain-100b", "plain-1kb"):
        file = bench_data.log_file(name, megabytes)
        reading = Reading(file, check_crc=False)
        report.alone(
            "search",
            name,
            file.stat().st_size / 1e9,
            "GB/s",
            lambda reading=reading: timed(lambda: search_all(reading, b"needle-1")),
            target="3 GB/s",
        )


def run_threads(report: Report, megabytes: int) -> None:
    """Two threads, each on one half of the file, against one; beside it what hashing gains from two."""
    note = f"two hashing threads: {hashing_gain():.2f}"
    for name in THREAD_SETS:
        file = bench_data.log_file(name, megabytes)
        size = file.stat().st_size
        middle = _middle(file, size)
        halves = [
            (Reading(file, check_crc=True), 0, middle),
            (Reading(file, check_crc=True), middle, size),
        ]
        whole = [(Reading(file, check_crc=True), 0, size)]
        times = max(1, THREADS_BYTES // size)  # a start of threads must not count
        one, two = [], []
        for _ in range(report.rounds + 1):
            one.append(timed(lambda whole=whole, times=times: _in_threads(whole, times)))
            two.append(timed(lambda halves=halves, times=times: _in_threads(halves, times)))
        report.add(_threads_row(name, size * times, one[1:], two[1:], note))


def hashing_gain() -> float:
    """What this machine gives two threads that share nothing and need no interpreter."""
    data = bytes(64 << 20)
    one = timed(lambda: [hashlib.sha256(data) for _ in range(2)])
    threads = [threading.Thread(target=hashlib.sha256, args=(data,)) for _ in range(2)]
    two = timed(lambda: _together(threads))
    return one.wall / two.wall


def _threads_row(name: str, size: int, one: list[Sample], two: list[Sample], note: str) -> Row:
    return Row.of(
        *("threads", f"{name}, 2 against 1", size / 1e9, "GB/s"),
        two,
        one,
        target="wall 1.7",
        note=note,
    )


def _middle(file: Path, size: int) -> int:
    """A batch border near the middle."""
    for _, table, _ in Reading(file, check_crc=False).runs():
        position = int(table["position"][-1])
        if position >= size // 2:
            return position
    return size


def _in_threads(parts: list[tuple[Reading, int, int]], times: int) -> None:
    def decode_again_and_again(reading: Reading, start: int, end: int) -> None:
        for _ in range(times):
            decode_all(reading, start, end)

    _together([threading.Thread(target=decode_again_and_again, args=part) for part in parts])


def _together(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
