"""A mount of a hostile source: names listed, files read, unmounted; with the daemon's memory measured."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.damage.measured_run import Measured, PeakMemory

GONE_WITHIN = 2.0
"""Seconds after an unmount in which the daemon must be gone."""
_READ = """
import os, sys, threading, time
end = time.monotonic() + float(sys.argv[2])
files = [os.path.join(at, name) for at, _, names in os.walk(sys.argv[1]) for name in names if "/records" in at or "/committed" in at]
def read(files):
    for path in files:
        try:
            with open(path, "rb") as file:
                while time.monotonic() < end and file.read(1 << 20):
                    pass
        except OSError:
            pass
        if time.monotonic() > end:
            return
threads = [threading.Thread(target=read, args=(files[n::4],)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


def mounted_run(
    program: Sequence[str], source: Path, scratch: Path, seconds: float
) -> Iterator[tuple[str, Measured]]:
    """What is done with the mount, and what each took; `peak` is the daemon's."""
    point = scratch / "mount"
    point.mkdir()
    started = time.monotonic()
    daemon = subprocess.Popen(
        [*program, "mount", "--foreground", str(source), str(point)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    memory = PeakMemory(daemon.pid)
    try:
        while not os.path.ismount(point) and daemon.poll() is None:
            time.sleep(0.02)
        names = ["find", str(point), "-ls"]
        reading = [program[0], "-c", _READ, str(point), str(min(seconds, 20.0))]
        for name, command in (("mount: find -ls", names), ("mount: read all", reading)):
            yield name, _within(command, seconds, memory, started)
            started = time.monotonic()
        reader = subprocess.Popen([*reading[:-1], "60"], stdout=subprocess.DEVNULL)
        time.sleep(1.0)
        reader.kill()
        reader.wait()
        started = time.monotonic()
        subprocess.run(["fusermount3", "-u", "-z", str(point)], check=False, capture_output=True)
        status: int | None
        try:
            status = daemon.wait(GONE_WITHIN)
        except subprocess.TimeoutExpired:
            status = None
        took = time.monotonic() - started
        yield "mount: unmount", Measured(took, memory.peak, 0.0, status, "", 0)
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(point)], check=False, capture_output=True)
        daemon.kill()
        daemon.wait()
        memory.stop()
        if daemon.stderr is not None:
            daemon.stderr.close()


def _within(command: Sequence[str], seconds: float, memory: PeakMemory, started: float) -> Measured:
    status: int | None
    try:
        status = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds,
            check=False,
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        status = None
    return Measured(time.monotonic() - started, memory.peak, 0.0, status, "", 0)
