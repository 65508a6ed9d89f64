"""Bytes that cannot be read: a failing disk below everything that reads, for commands and for code in this process.

`FailingDisk` preloads a small library into a command, so that reads of chosen bytes fail in Python, in the
compiled kernel and in worker processes alike. `unreadable_bytes` does the same in this process for what
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
from typing import Any

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
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(staged), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        staged.rename(target)
    return target


def _version(source: Path) -> str:
    return f"{source.stat().st_mtime_ns:x}"


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
        staged = self._rules.with_suffix(".new")
        staged.write_text("".join(_lines(ranges, number)))
        staged.rename(self._rules)
        self._calls.write_bytes(b"")

    @property
    def failed_reads(self) -> int:
        """How many reads have failed since the last `set`."""
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


def _lines(ranges: Ranges, number: int) -> Iterator[str]:
    for path, stretches in ranges.items():
        status = path.stat()
        for start, end in stretches:
            yield f"{status.st_dev} {status.st_ino} {start} {end} {number}\n"


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
