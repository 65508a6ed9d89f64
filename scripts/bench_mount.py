"""Through the mount: small files, large files, listings and memory, beside a passthrough in C over the same bytes."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import bench_data
from bench_decode import Reading, write_lines
from bench_jvm import SOURCES, compile_c, process_cpu
from bench_report import Report, Row, Sample, timed

from engine import kernel
from engine.log.log_directory import open_source
from kafkafs.mount.mount_table import mount_at
from kafkafs.mount.mounting import MountOptions
from kafkafs.mount.session import tune_kernel
from kafkafs.tree.node import File
from kafkafs.tree.partition.by_offset import OffsetFolder
from kafkafs.tree.tree import Tree
from tests.kafka.mounted import Mounted

_IN_MEMORY = "/dev/shm"

READ_SIZE = 128 << 10  # what cat, cp and grep ask for
OPENS = 2_000
CACHE_SECONDS = 1.0  # what a mount of a log at rest tells the kernel
READERS = 8
MEMORY_SECONDS = 20.0
MIB = 1 << 20


def run(report: Report, megabytes: int) -> None:
    """Small files and large ones."""
    if shutil.which("gcc") is None:
        raise SystemExit("gcc not found: apt-get install gcc")
    peer = compile_peer()
    folder = bench_data.partition("plain-100b", megabytes)
    with working_folder() as work, Mounted(folder.parent, work / "ours") as ours:
        run_opens(report, ours, folder, peer)
        run_sequential(report, ours, folder, peer, work)


def compile_peer() -> Path | None:
    """Compile the peer; None where libfuse's headers are missing."""
    found = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        print("no C peer: apt-get install libfuse3-dev pkg-config")
        return None
    return compiled("passthrough", [*found.stdout.split(), "-pthread"])


def compiled(name: str, flags: list[str]) -> Path:
    """Return a program of bench_peer, compiled."""
    program = bench_data.cache() / name
    compile_c(SOURCES / f"{name}.c", program, flags)
    return program


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """For mount points."""
    with tempfile.TemporaryDirectory(prefix="kafkafs-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class Passthrough:
    """The C file system over a folder; a context manager. One thread: the faster way on few cores."""

    def __init__(self, program: Path, source: Path, mountpoint: Path) -> None:
        mountpoint.mkdir(parents=True)
        self.path = mountpoint
        command = [program, source, mountpoint, str(CACHE_SECONDS), "1"]
        self._process = subprocess.Popen(command)
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        end = time.monotonic() + 10
        while not os.path.ismount(self.path):
            if self._process.poll() is not None or time.monotonic() > end:
                self._process.kill()
                raise RuntimeError("the C peer did not mount")
            time.sleep(0.02)
        mount = mount_at(str(self.path))
        assert mount is not None
        tune_kernel(mount.device, MountOptions().read_ahead_kb)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["fusermount3", "-u", str(self.path)], check=False)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class OpenLoop:
    """The C client that opens, reads and closes names that are new to the kernel; CPU is the daemon's."""

    def __init__(self, folder: Path, pid: int, offsets: list[list[int]], threads: int) -> None:
        self._command = [compiled("open_loop", ["-pthread"]), f"{folder}/", str(threads)]
        self._pid = pid
        self._rounds = iter(offsets)

    def __call__(self) -> Sample:
        names = "\n".join(map(str, next(self._rounds))).encode()
        cpu, wall = process_cpu(self._pid), time.perf_counter()
        subprocess.run(self._command, input=names, check=True, stdout=subprocess.DEVNULL)
        return Sample(time.perf_counter() - wall, process_cpu(self._pid) - cpu)


def run_opens(report: Report, ours: Mounted, folder: Path, peer: Path | None) -> None:
    """Cold open, read and close of offset/N: far apart with one client thread and with four, then one after another."""
    choice = random.Random(0)
    for name, threads, target in (
        ("far apart", 1, "wall 0.6"),
        ("far apart, 4 threads", 4, "wall 0.6"),
        ("neighbours", 1, "wall 0.8"),
    ):
        with tempfile.TemporaryDirectory(prefix="kafkafs-bench-", dir=_IN_MEMORY) as files:
            source = open_source(str(folder.parent))
            try:
                shown = Tree(source).resolve(f"{folder.name}/offset")
                assert isinstance(shown, OffsetFolder)
                view = shown.partition.view()
                low, high = view.log_start_offset, view.log_end_offset
                count = OPENS * (report.rounds + 1)
                first = choice.randrange(low, high - count)
                offsets = list(range(first, first + count))
                if threads > 1 or name == "far apart":
                    offsets = choice.sample(range(low, high), count)
                if peer is not None:
                    write_records(shown, offsets, Path(files))
            finally:
                source.close()
            rounds = [offsets[start : start + OPENS] for start in range(0, count, OPENS)]
            row = ("mount", f"open+read+close offset/N, {name}", OPENS / 1e3, "k/s")
            mine = OpenLoop(ours.path / folder.name / "offset", ours.pid, rounds, threads)
            if peer is None:
                report.alone(*row, mine)
                continue
            with working_folder() as work, Passthrough(peer, Path(files), work / "peer") as mounted:
                theirs = OpenLoop(mounted.path, mounted.pid, rounds, threads)
                note = "peer: C, the same files in memory; cpu: the daemons'"
                report.compare(*row, mine, theirs, target=target, note=note)


def write_records(folder: OffsetFolder, offsets: list[int], target: Path) -> None:
    """Write each record's line to a file of its own."""
    for offset in offsets:
        node = folder.lookup(str(offset))
        assert isinstance(node, File)
        (target / str(offset)).write_bytes(b"".join(node.chunks()))


def run_sequential(
    report: Report, ours: Mounted, folder: Path, peer: Path | None, work: Path
) -> None:
    """segments/ and records/ from the start to the end, against C over the same bytes."""
    base = folder / bench_data.FIRST_LOG
    lines = work / "lines"
    lines.mkdir()
    decoded = lines / "decoded.jsonl"
    reading = Reading(base, check_crc=True, chunk=512 << 10)
    options = kernel.LineOptions(folder.name.rpartition("-")[0], 0)
    write_lines(reading, options, str(decoded))
    shown = ours.path / folder.name
    records = shown / "records" / f"{base.stem}.jsonl"
    first = read_through(records, ours.pid)
    size = decoded.stat().st_size
    report.add(
        Row("mount", "records/ first time", "MB/s", size / 1e6 / first.wall, note="measured too")
    )
    for name, own, same, target in (
        ("segments/", shown / "segments" / base.name, base, "wall 0.9"),
        ("records/", records, decoded, "wall 0.7"),
    ):
        work_done = same.stat().st_size / 1e6
        mine = lambda own=own: read_through(own, ours.pid)  # noqa: E731
        if peer is None:
            report.alone("mount", name, work_done, "MB/s", mine)
            continue
        with Passthrough(peer, same.parent, work / f"peer-{same.suffix}") as mounted:
            report.compare(
                "mount",
                name,
                work_done,
                "MB/s",
                mine,
                lambda path=mounted.path / same.name, pid=mounted.pid: read_through(path, pid),
                target=target,
                note="peer: C over the same bytes; cpu: the daemons'",
            )
    run_against_decoder(report, records, ours.pid, reading, options, size)
    decoded.unlink()


def run_against_decoder(
    report: Report,
    records: Path,
    pid: int,
    reading: Reading,
    options: kernel.LineOptions,
    size: int,
) -> None:
    """records/ through the mount beside the kernel that writes the same lines in this process."""
    report.compare(
        "mount",
        "records/ against the decoder",
        size / 1e6,
        "MB/s",
        lambda: read_through(records, pid),
        lambda: timed(lambda: write_lines(reading, options, "/dev/null")),
        target="about 1",
        note="peer: kernel.lines, one thread",
    )


def read_through(path: Path, pid: int) -> Sample:
    """Reads a file once, dropped from the page cache before: wall time here, CPU of the daemon."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        buffer = bytearray(READ_SIZE)
        cpu, wall = process_cpu(pid), time.perf_counter()
        while os.readv(descriptor, [buffer]):
            pass
        wall = time.perf_counter() - wall
        return Sample(wall, max(process_cpu(pid) - cpu, 1e-9))
    finally:
        os.close(descriptor)


def run_listing(report: Report, names: int) -> None:
    """The first page and the whole of a folder of many names: segments/ of a log of many segments."""
    folder = bench_data.many_names(names)
    with working_folder() as work, Mounted(folder.parent, work / "ours") as ours:
        path = ours.path / folder.name / "segments"
        first, whole, count = list_names(path)
        report.add(_listing_row("first page, cold", 1e3 * first, "ms", "100 ms", count))
        report.add(_listing_row("all names, cold", count / whole / 1e6, "M names/s", "", count))
        again = [list_names(path) for _ in range(report.rounds)]
        page = sorted(sample[0] for sample in again)[len(again) // 2]
        every = sorted(sample[1] for sample in again)[len(again) // 2]
        report.add(_listing_row("first page, warm", 1e3 * page, "ms", "100 ms", count))
        report.add(_listing_row("all names, warm", count / every / 1e6, "M names/s", "", count))


def list_names(path: Path) -> tuple[float, float, int]:
    """Seconds to the first page, seconds to the end, how many names."""
    start = time.perf_counter()
    with os.scandir(path) as entries:
        next(entries)
        first = time.perf_counter() - start
        count = 1 + sum(1 for _ in entries)
    return first, time.perf_counter() - start, count


def _listing_row(name: str, value: float, unit: str, target: str, count: int) -> Row:
    return Row("listing", name, unit, value, target=target, note=f"{count:,} names")


def run_memory(report: Report, partitions: int) -> None:
    """The daemon's memory under eight readers of many partitions."""
    source = bench_data.many_partitions(partitions)
    with working_folder() as work, Mounted(source, work / "ours") as ours:
        end = time.monotonic() + MEMORY_SECONDS
        counts = [0] * READERS
        threads = [
            threading.Thread(target=_read_around, args=(ours.path, counts, number, end))
            for number in range(READERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        peak = peak_memory(ours.pid) / MIB
        note = f"{partitions:,} partitions, {READERS} readers, {sum(counts):,} files read"
        report.add(Row("memory", "peak of the daemon", "MiB", peak, target="256 MiB", note=note))


def _read_around(root: Path, counts: list[int], number: int, end: float) -> None:
    names = sorted(os.listdir(root))
    topics = [name for name in names if name.startswith("topic-")][number::READERS]
    while time.monotonic() < end:
        for name in topics:
            if time.monotonic() > end:
                return
            folder = root / name
            for file in (folder / "records").iterdir():
                file.read_bytes()
                counts[number] += 1
            for offset in ("earliest", "latest"):
                (folder / "offset" / offset).read_bytes()
                counts[number] += 1


def peak_memory(pid: int) -> int:
    """VmHWM of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0
