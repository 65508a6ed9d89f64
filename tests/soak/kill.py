"""kill -9 of the daemon at random moments: the source stays as it was, and the next daemon gives the same answers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

from kafkafs.mount.mount_table import mount_at
from tests import fixtures_data
from tests.checkout import ROOT
from tests.damage.conftest import fingerprint
from tests.mount.mounted import obstacle
from tests.soak.parts import Job, Part
from tests.soak.posix import Reader, WrongError
from tests.soak.tree_model import TreeModel, walked

PARTITIONS = ("orders-0", "txn-0", "weird-0", "trimmed-0")
MOUNTS = 3
"""Mounts of the source, each with a daemon of its own: while one daemon starts, others are read and killed."""
READERS = 2
CALLS = 300
"""Calls on each new mount before it may be killed."""
EARLY = 0.2
"""Share of the daemons that are killed while they start."""
LONGEST_LIFE = 0.7
READY_WITHIN = 60.0


class DaemonFailedError(Exception):
    """A daemon did not start, or ended on its own."""


class Daemon:
    """A daemon in the foreground of a child process, on a mountpoint where a dead one may be."""

    def __init__(self, source: Path, mountpoint: Path) -> None:
        self.mountpoint = mountpoint
        self._log = mountpoint.with_name("daemon.log")
        words = ["mount", "--foreground", "--replace-dead", str(source), str(mountpoint)]
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kafkafs", *words], cwd=ROOT, stdout=output, stderr=output
            )

    def wait(self) -> None:
        """Wait for its tree. Raises DaemonFailedError."""
        end = time.monotonic() + READY_WITHIN
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise DaemonFailedError(self._log.read_text(errors="replace"))
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        try:
            return "README.txt" in os.listdir(self.mountpoint)
        except OSError:
            return False

    def kill(self) -> None:
        """End it without a word. Raises DaemonFailedError when it has ended before."""
        ended = self.process.poll()
        self.process.kill()
        self.process.wait()
        if ended is not None:
            raise DaemonFailedError(f"ended with {ended}: {self._log.read_text(errors='replace')}")


class Killed:
    """Daemons over one source, one after the other.

    Args:
        source: a copy of partitions of tests/data.
        mountpoint: a path where nothing is.

    Attributes:
        model: what the first of them served.
    """

    model: TreeModel

    def __init__(self, source: Path, mountpoint: Path) -> None:
        self.source = source
        self.mountpoint = mountpoint
        mountpoint.mkdir(parents=True)
        self._before = fingerprint(source)
        self._daemon = Daemon(source, mountpoint)

    def begin(self, model: TreeModel | None = None) -> None:
        """Wait for the first daemon, whose tree is walked over unless its model is known from another mount."""
        self._daemon.wait()
        self.model = model or walked(self.mountpoint, self.source, looked_up=3)

    def _start(self) -> None:
        self._daemon = Daemon(self.source, self.mountpoint)
        self._daemon.wait()

    def once(self, random: Random) -> list[str]:
        """Kill a daemon that is being read, and look at what is left and at its successor: what is wrong."""
        try:
            return self._kill_and_start(random)
        except DaemonFailedError as error:
            self.stop()
            self._start()
            return [str(error)]

    def _kill_and_start(self, random: Random) -> list[str]:
        wrong = self._read_until_killed(random)
        if random.random() < EARLY:
            starting = Daemon(self.source, self.mountpoint)
            time.sleep(random.random() * LONGEST_LIFE)
            starting.kill()
        if fingerprint(self.source) != self._before:
            wrong.append("the source was changed")
        self._start()
        try:
            Reader(self.mountpoint, self.model, random).run(CALLS)
        except (WrongError, OSError) as error:
            wrong.append(f"after a new start: {type(error).__name__}: {error}")
        if random.random() < 0.05:
            again = walked(self.mountpoint, self.source, looked_up=3)
            wrong += self.model.wrong(again)[:5]
        return wrong

    def _read_until_killed(self, random: Random) -> list[str]:
        wrong: list[str] = []
        is_killed = threading.Event()
        readers = [
            threading.Thread(
                target=read_on,
                args=(self.mountpoint, self.model, random.random(), is_killed, wrong),
            )
            for _ in range(READERS)
        ]
        for reader in readers:
            reader.start()
        time.sleep(random.random() ** 2 * LONGEST_LIFE)
        is_killed.set()
        self._daemon.kill()
        for reader in readers:
            reader.join(30)
            if reader.is_alive():
                wrong.append("a reader hangs on a dead mount")
        return wrong

    def stop(self) -> None:
        """Leave nothing behind."""
        self._daemon.process.kill()
        self._daemon.process.wait()
        while mount_at(str(self.mountpoint)) is not None:
            subprocess.run(["fusermount3", "-uz", str(self.mountpoint)], check=False)


def read_on(
    root: Path, model: TreeModel, seed: float, is_killed: threading.Event, wrong: list[str]
) -> None:
    """Read until the daemon is dead; only then a call may fail."""
    random = Random(seed)
    while True:
        try:
            Reader(root, model, random, may_map=False).run(100)
        except WrongError as error:
            # What the system had not cached of a file when the daemon died is missing.
            if not is_killed.is_set():
                wrong.append(f"before the kill: {error}")
            return
        except (OSError, ValueError) as error:
            if not is_killed.is_set():
                wrong.append(f"before the kill: {error!r}")
            return
        if is_killed.is_set():
            return


@contextmanager
def killed(partitions: Sequence[str], mounts: int = 1) -> Iterator[list[Killed]]:
    """Daemons on some mounts of one source, in a work folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="soak-kill-") as work:
        source = fixtures_data.copy_of("current", Path(work, "source"), list(partitions))
        running = [Killed(source, Path(work, str(number), "mnt")) for number in range(mounts)]
        first, *others = running
        try:
            first.begin()
            for each in others:
                each.begin(first.model)
            yield running
        finally:
            for each in running:
                each.stop()


def kill_often(job: Job, partitions: Sequence[str] = PARTITIONS) -> None:
    """One kill after the other on each of the mounts."""

    def wrong_after(running: Killed, number: int) -> list[str]:
        return running.once(Random(f"{job.seed} {number}"))

    with killed(partitions, MOUNTS) as mounts, ThreadPoolExecutor(MOUNTS) as pool:
        for numbers in job.batches(MOUNTS):
            for number, wrong in zip(numbers, pool.map(wrong_after, mounts, numbers), strict=True):
                if wrong:
                    job.find(number, "\n".join(wrong))


PARTS = (
    Part(
        "kill",
        "kill -9 of the daemon at random moments, and a new mount",
        "kills",
        kill_often,
        obstacle,
    ),
)
