"""A process that reads a log from end to end does not take each buffer from the system anew."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkafs.cli import COMMANDS, LASTING

PROGRAM = """
import resource, sys
from kafkafs.process_memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
for _ in range(20):
    buffers = [b"x" * (10 << 20) for _ in range(5)]
    del buffers
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def faults(*, keep: bool) -> int:
    """Pages that a process took for 20 times 50 MiB."""
    word = "keep" if keep else "give"
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, word], check=True, capture_output=True, text=True
    )
    return int(ran.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_freed_memory_is_used_again() -> None:
    assert faults(keep=True) < faults(keep=False) / 2


def test_a_daemon_gives_memory_back() -> None:
    assert "mount" in LASTING
    assert set(LASTING) <= set(COMMANDS)
