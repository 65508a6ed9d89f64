"""Bytes that cannot be read: a failing disk below everything that reads, for commands and for code in this process.

`FailingDisk` preloads a small library into a command, so that reads of chosen bytes fail in Python, in the
compiled kernel and in worker processes alike; with `fail` also stat, opens and the entries of folders, always or a
few times, and calls that hang. `unreadable_bytes` does the same in this process for what
Python reads; the kernel is then the one in Python. A read that touches bad bytes gives the bytes before them,
and the error at the first of them, as the page cache of Linux has it.
"""

from __future__ import annotations

import errno
import functools
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from engine import kernel
from engine.files.unreadable import UNREADABLE_FILES

SECTOR = 4096
Ranges = Mapping[Path, Iterable[tuple[int, int]]]
"""By file: first byte, and the byte behind the last one, of each stretch that cannot be read."""


@functools.cache
def _library() -> Path:
    """The library, compiled once for each of its versions."""
    source = Path(__file__).with_suffix(".c")
    target = Path(tempfile.gettempdir()) / f"kafkafs-unreadable-{os.getuid()}-{_version(source)}.so"
    if not target.exists():
        staged = target.with_suffix(f".{os.getpid()}")
        compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
        command = [
            compiler,
            "-O1",
            "-shared",
            "-fPIC",
            "-o",
            str(staged),
            str(source),
            "-ldl",
            "-lm",
        ]
        subprocess.run(command, check=True, capture_output=True)
        staged.rename(target)
    return target


def _version(source: Path) -> str:
    return f"{source.stat().st_mtime_ns:x}"


class Fault(NamedTuple):
    """Calls on one file or folder that fail or hang.

    Attributes:
        path: the file or folder.
        calls: "r" reads, "s" stat, "o" opens, "l" look-ups of the inode by a path, "d" the entries of a folder.
        number: errno of the calls; 0 if they succeed once they have hung.
        times: how often a process meets the fault; -1 for always.
        seconds: how long each call hangs.
        start, end: the bytes, for reads.
    """

    path: Path
    calls: str
    number: int = errno.EIO
    times: int = -1
    seconds: float = 0.0
    start: int = 0
    end: int = 1 << 62


class FailingDisk:
    """Which bytes fail, for processes that run with its environment.

    Args:
        folder: where its files are kept.
        ranges: what cannot be read at first.
    """

    def __init__(self, folder: Path, ranges: Ranges | None = None) -> None:
        self._rules = folder / "unreadable-bytes"
        self._calls = folder / "unreadable-calls"
        self.set(ranges or {})

    def set(self, ranges: Ranges, number: int = errno.EIO) -> None:
        """From now on these bytes cannot be read, and no others."""
        self.fail(
            Fault(path, "r", number, start=start, end=end)
            for path, stretches in ranges.items()
            for start, end in stretches
        )

    def fail(self, faults: Iterable[Fault]) -> None:
        """From now on these calls fail, and no others."""
        staged = self._rules.with_suffix(".new")
        staged.write_text("".join(map(_line, faults)))
        staged.rename(self._rules)
        self._calls.write_bytes(b"")

    @property
    def failed_reads(self) -> int:
        """How many calls have failed since the last `set` or `fail`."""
        return self._calls.stat().st_size

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that reads from it."""
        return {
            **os.environ,
            "LD_PRELOAD": str(_library()),
            "UNREADABLE_BYTES": str(self._rules),
            "UNREADABLE_CALLS": str(self._calls),
        }


def _line(fault: Fault) -> str:
    status = fault.path.stat()
    facts = status.st_dev, status.st_ino, *fault[1:2], fault.start, fault.end, *fault[2:5]
    return " ".join(map(str, facts)) + "\n"


def sector(position: int, size: int = SECTOR) -> tuple[int, int]:
    """The sector that holds a byte."""
    start = position - position % size
    return start, start + size


class Faults:
    """What cannot be read in this process.

    Attributes:
        bad: stretches by device and inode.
        failed: the positions of the reads that have failed.
        most: how many reads may fail.
    """

    def __init__(self, ranges: Ranges) -> None:
        self.bad: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self.failed: list[int] = []
        self.most = 1 << 30
        self.set(ranges)

    def set(self, ranges: Ranges) -> None:
        """From now on these bytes cannot be read, and no others."""
        self.bad.clear()
        for path, stretches in ranges.items():
            status = path.stat()
            self.bad[status.st_dev, status.st_ino] = list(stretches)


@contextmanager
def unreadable_bytes(ranges: Ranges, number: int = errno.EIO) -> Iterator[Faults]:
    """These bytes cannot be read in this process."""
    faults = Faults(ranges)
    pread, preadv, which = os.pread, os.preadv, kernel.name

    def readable(fd: int, size: int, position: int) -> int:
        status = os.fstat(fd)
        fine = size
        bad = faults.bad.get((status.st_dev, status.st_ino), [])
        for start, end in bad if len(faults.failed) < faults.most else ():
            if start < position + fine and position < end:
                fine = max(start - position, 0)
        if size and not fine and position < status.st_size:
            faults.failed.append(position)
            raise OSError(number, os.strerror(number))
        return fine

    def failing_pread(fd: int, size: int, position: int) -> bytes:
        return pread(fd, readable(fd, size, position), position)

    def failing_preadv(fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        (buffer,) = buffers
        fine = readable(fd, len(buffer), position)
        return preadv(fd, [memoryview(buffer)[:fine]], position, flags)

    UNREADABLE_FILES.forget()
    kernel.use("python")
    os.pread, os.preadv = failing_pread, failing_preadv
    try:
        yield faults
    finally:
        os.pread, os.preadv = pread, preadv
        kernel.use(which)
        UNREADABLE_FILES.forget()
