"""Process that owns a job's folder, and whether it is still running.

No lock can be held from the planning of a job to its commit: both run in short Python processes, and only the
driver's JVM outlives them. A folder therefore identifies that process as exactly as Linux allows.
"""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

_START_TIME = 19
"""Index among the fields of /proc/<pid>/stat after the name."""


class JobOwner(NamedTuple):
    """Identity of a process.

    Attributes:
        host: host name.
        boot: boot id, which changes with each start of the machine.
        pids: namespace of process ids.
        pid: process id.
        started: start time, in ticks since the boot.
    """

    host: str
    boot: str
    pids: str
    pid: int
    started: int

    @property
    def is_gone(self) -> bool:
        """Whether the process has certainly ended; unknown for other machines."""
        if self.host != socket.gethostname():
            return False
        if self.boot != _boot():
            return True
        if self.pids != _namespace():
            return False
        return _started(self.pid) != self.started


def this_owner() -> JobOwner:
    """Return the driver: the JVM above this process, or this process itself."""
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
    """Return the name of a process and the fields after it in its stat file; None when the process has ended."""
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
