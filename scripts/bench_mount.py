"""Through the mount: small files, large files, listings and memory, beside libfuse's own passthrough in C."""

from __future__ import annotations

import contextlib
import os
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
from tests.kafka.mounted import Mounted

EXAMPLE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
READ_SIZE = 128 << 10  # what cat, cp and grep ask for
OPENS = 3_000
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
        run_opens(report, ours, folder.name, peer, work)
        run_sequential(report, ours, folder, peer, work)


def compile_peer() -> Path | None:
    """libfuse's example file system as Debian ships it (libfuse3-dev), compiled; None where it is not there."""
    if not EXAMPLE.exists():
        print("no C peer: apt-get install libfuse3-dev")
        return None
    program = bench_data.cache() / "passthrough_ll"
    if not program.exists():
        flags = subprocess.check_output(["pkg-config", "--cflags", "--libs", "fuse3"], text=True)
        compile_c(EXAMPLE, program, flags.split())
    return program


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """For mount points."""
    with tempfile.TemporaryDirectory(prefix="kafkafs-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class Passthrough:
    """libfuse's C file system over a folder; a context manager. One thread: the faster way on few cores."""

    def __init__(self, program: Path, source: Path, mountpoint: Path) -> None:
        mountpoint.mkdir(parents=True)
        self.path = mountpoint
        options = f"source={source},cache=always,timeout=300"
        self._process = subprocess.Popen([program, "-f", "-s", "-o", options, mountpoint])
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        end = time.monotonic() + 10
        while not os.path.ismount(self.path):
            if self._process.poll() is not None or time.monotonic() > end:
                self._process.kill()
                raise RuntimeError("the C peer did not mount")
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["fusermount3", "-u", str(self.path)], check=False)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class OpenLoop:
    """The C client that opens, reads and closes one new name after another; CPU is the daemon's."""

    def __init__(self, prefix: Path, pid: int, step: int = 1) -> None:
        self._step = step
        self._program = bench_data.cache() / "open_loop"
        compile_c(SOURCES / "open_loop.c", self._program)
        self._prefix = prefix
        self._pid = pid
        self._next = 0

    def skip(self, names: int) -> None:
        """Goes on so many names later."""
        self._next += names

    def __call__(self) -> Sample:
        cpu, wall = process_cpu(self._pid), time.perf_counter()
        command = [self._program, f"{self._prefix}/", str(self._next), str(OPENS), str(self._step)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self._next += OPENS if self._step == 1 else 1
        return Sample(time.perf_counter() - wall, process_cpu(self._pid) - cpu)


def run_opens(report: Report, ours: Mounted, name: str, peer: Path | None, work: Path) -> None:
    """Cold open, read and close of offset/N from one process: far apart, then one after another."""
    last = int(os.path.basename(os.readlink(ours.path / name / "offset/latest")))
    report.alone(
        "mount",
        "open+read+close offset/N, far apart",
        OPENS / 1e3,
        "k/s",
        OpenLoop(ours.path / name / "offset", ours.pid, step=last // (OPENS + 1)),
        note="each in another batch",
    )
    mine = OpenLoop(ours.path / name / "offset", ours.pid)
    mine.skip(last // 2)
    target = "10 k/s"
    if peer is None:
        report.alone("mount", "open+read+close offset/N", OPENS / 1e3, "k/s", mine, target=target)
        return
    files = work / "small"
    files.mkdir()
    for number in range(OPENS * (report.rounds + 1)):
        (files / str(number)).write_bytes(b"x" * 240)
    with Passthrough(peer, files, work / "peer-small") as mounted:
        theirs = OpenLoop(mounted.path, mounted.pid)
        report.compare(
            "mount",
            "open+read+close offset/N",
            OPENS / 1e3,
            "k/s",
            mine,
            theirs,
            target=target,
            note="peer: C, 240-byte files; cpu: the daemons'",
        )


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
    pairs = [("segments/", shown / "segments" / base.name, base), ("records/", records, decoded)]
    for name, own, same in pairs:
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
                target="wall 0.7",
                note="cpu: the daemons'",
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
