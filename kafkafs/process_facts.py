"""What this process costs: memory, descriptors, threads; and who runs it where."""

from __future__ import annotations

import os
import pwd
import resource
import socket
import threading
from contextlib import suppress
from typing import Any


def process_facts() -> dict[str, Any]:
    """Return what the process costs now, for JSON."""
    return {
        "memoryBytes": resident_bytes(),
        "largestMemoryBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "openDescriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def host_and_user() -> dict[str, str]:
    """Return the names of this machine and of the user, for JSON; a user without a name has a number."""
    user = str(os.getuid())
    with suppress(KeyError):
        user = pwd.getpwuid(os.getuid()).pw_name
    return {"host": socket.gethostname(), "user": user}


def resident_bytes() -> int:
    """Return this process's resident memory in bytes."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError, ValueError):
        return 0
