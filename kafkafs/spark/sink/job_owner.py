"""Which process a job's folder belongs to, and whether that process is still there.

No lock is held from the planning of a job to its commit: each runs in a Python process of its own, and only the
driver's JVM outlives them. So a folder says which process that is, as exactly as Linux tells processes apart.
"""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

_START_TIME = 19
"""Of the fields of /proc/<pid>/stat that follow the name."""


class JobOwner(NamedTuple):
    """A process: where it runs, and what it is there.

    Attributes:
        host: its name, for people.
        boot: changes with each start of the machine.
        pids: the namespace that the number counts in.
        pid: its number.
        started: when it started, in ticks since the boot.
    """

    host: str
    boot: str
    pids: str
    pid: int
    started: int

    @property
    def is_gone(self) -> bool:
        """Whether it is certain that the process has ended: nothing is known of other machines."""
        if self.host != socket.gethostname():
            return False
        if self.boot != _boot():
            return True
        if self.pids != _namespace():
            return False
        return _started(self.pid) != self.started


def this_owner() -> JobOwner:
    """The driver: the JVM above this process, or this process itself."""
    pid = _java_above() or os.getpid()
    return JobOwner(socket.gethostname(), _boot(), _namespace(), pid, _started(pid) or 0)


def _java_above() -> int | None:
    pid = os.getppid()
    while pid > 1:
        fields = _stat(pid)
        if fields is None:
            return None
        name, rest = fields
        if name == "java":
            return pid
        pid = int(rest[1])
    return None


def _started(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None else int(fields[1][_START_TIME])


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """The name of a process, and what follows it in its stat file; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    before, _, after = text.rpartition(")")
    return before.partition("(")[2], after.split()


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")
