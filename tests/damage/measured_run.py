"""A command under a bound on its address space, with its time, its largest memory and its longest silence measured."""

from __future__ import annotations

import contextlib
import os
import pty
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engine.budgets import MiB

ADDRESS_SPACE = 6 * 1024 * MiB
"""Stacks and arenas of threads, most of which are never touched, count here too."""
MOST_MEMORY = 512 * MiB
MOST_SILENCE = 10.0
_EVERY = 0.05


class Measured(NamedTuple):
    """What a command took.

    Attributes:
        seconds: from start to end.
        peak: bytes of memory of the command and its child processes together, at the worst moment seen.
        silence: the longest time in seconds without output on its terminal.
        status: its exit status, negative for a signal; None when it was ended because it took too long.
        shown: the end of what it wrote on its terminal.
        written: bytes that it wrote to standard output.
    """

    seconds: float
    peak: int
    silence: float
    status: int | None
    shown: str
    written: int

    @property
    def broken_bounds(self) -> list[str]:
        """The bounds that the command did not keep."""
        broken = []
        if self.peak > MOST_MEMORY:
            broken.append("memory")
        if self.silence > MOST_SILENCE:
            broken.append("silence")
        if self.status is None:
            broken.append("time")
        if self.status is not None and self.status not in (0, 1, 2, 3):
            broken.append("status")
        if "Traceback" in self.shown:
            broken.append("traceback")
        return broken


def measured_run(command: Sequence[str], *, seconds: float = 120.0) -> Measured:
    """Run a command whose standard error is a terminal; standard output is read and dropped.

    Args:
        command: the program and its arguments.
        seconds: after which the command is ended.
    """
    terminal, slave = pty.openpty()
    reading, writing = os.pipe()
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_limit,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(slave)
    os.close(writing)
    memory = PeakMemory(process.pid)
    shown, silence, last, written = b"", 0.0, started, 0
    is_late = False
    open_ends = {terminal, reading}
    while open_ends:
        ready, _, _ = select.select(list(open_ends), [], [], 0.2)
        now = time.monotonic()
        for end in ready:
            try:
                data = os.read(end, 1 << 20)
            except OSError:
                data = b""  # the terminal's other end is closed
            if not data:
                open_ends.discard(end)
            elif end == terminal:
                shown = (shown + data)[-20_000:]
                silence, last = max(silence, now - last), now
            else:
                written += len(data)
        if process.poll() is not None and not ready:
            break
        if now - started > seconds and not is_late:
            is_late = True
            os.killpg(process.pid, signal.SIGKILL)
    status = process.wait()
    ended = time.monotonic()
    peak = memory.stop()
    os.close(terminal)
    os.close(reading)
    return Measured(
        ended - started,
        peak,
        max(silence, ended - last),
        None if is_late else status,
        shown.decode("utf-8", "replace"),
        written,
    )


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class PeakMemory:
    """Watches the memory of a process and all below it until `stop`.

    The kernel's own high-water mark counts for the process itself, so that no moment is missed.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.peak = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopped.wait(_EVERY):
            self.look()

    def look(self) -> None:
        """Measure once."""
        sizes = [memory_of(pid) for pid in family_of(self._pid)]
        now = sum(size for size, _ in sizes)
        highest = max((high for _, high in sizes), default=0)
        self.peak = max(self.peak, now, highest)

    def stop(self) -> int:
        """The most bytes that were in use."""
        self._stopped.set()
        self._thread.join()
        return self.peak


def memory_of(pid: int) -> tuple[int, int]:
    """Bytes of memory of a process now, and at its worst; zeros when it is gone.

    Of files that are mapped (programs, libraries) nothing counts: processes share them.
    """
    fields = dict.fromkeys(("RssAnon", "VmHWM", "RssFile"), 0)
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in fields:
                fields[name] = int(rest.split()[0]) * 1024
    return fields["RssAnon"], max(fields["VmHWM"] - fields["RssFile"], 0)


def family_of(pid: int) -> list[int]:
    """A process and all processes below it."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{name}/stat").read_text()
                parent = int(status.rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(name))
    found = [pid]
    for member in found:
        found += parents.get(member, [])
    return found
