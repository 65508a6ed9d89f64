"""kill -9 of the daemon at random moments: the source stays as it was, and the next daemon gives the same answers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from kafkafs.mount.mount_table import mount_at
from tests import fixtures_data
from tests.damage.conftest import fingerprint
from tests.mount.mounted import obstacle
from tests.soak.parts import ROOT, Job, Part
from tests.soak.posix import Reader, WrongError
from tests.soak.tree_model import TreeModel, walked

PARTITIONS = ("orders-0", "txn-0", "weird-0", "trimmed-0")
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
        work: an empty folder.
        partitions: of tests/data.
    """

    def __init__(self, work: Path, partitions: Sequence[str]) -> None:
        self.source = fixtures_data.copy_of("current", work / "source", list(partitions))
        self.mountpoint = work / "mnt"
        self.mountpoint.mkdir()
        self._before = fingerprint(self.source)
        self._daemon = self.started()
        self._model = walked(self.mountpoint, self.source, looked_up=3)

    def started(self) -> Daemon:
        """A daemon whose tree is there."""
        daemon = Daemon(self.source, self.mountpoint)
        daemon.wait()
        return daemon

    def restart(self) -> None:
        """Another daemon after one that failed."""
        self._daemon.process.kill()
        self._daemon.process.wait()
        self._daemon = self.started()

    def once(self, random: Random) -> list[str]:
        """Kill a daemon that is being read, and look at what is left and at its successor."""
        wrong = self._read_until_killed(random)
        if random.random() < EARLY:
            starting = Daemon(self.source, self.mountpoint)
            time.sleep(random.random() * LONGEST_LIFE)
            starting.kill()
        if fingerprint(self.source) != self._before:
            wrong.append("the source was changed")
        self._daemon = self.started()
        try:
            Reader(self.mountpoint, self._model, random).run(CALLS)
        except (WrongError, OSError) as error:
            wrong.append(f"after a new start: {type(error).__name__}: {error}")
        if random.random() < 0.05:
            again = walked(self.mountpoint, self.source, looked_up=3)
            wrong += self._model.wrong(again)[:5]
        return wrong

    def _read_until_killed(self, random: Random) -> list[str]:
        wrong: list[str] = []
        is_killed = threading.Event()
        readers = [
            threading.Thread(
                target=read_on,
                args=(self.mountpoint, self._model, random.random(), is_killed, wrong),
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
            Reader(root, model, random).run(100)
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
def killed(partitions: Sequence[str]) -> Iterator[Killed]:
    """Daemons in a work folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="soak-kill-") as work:
        running = Killed(Path(work), partitions)
        try:
            yield running
        finally:
            running.stop()


def kill_often(job: Job, partitions: Sequence[str] = PARTITIONS) -> None:
    """One kill after the other."""
    with killed(partitions) as running:
        for number in job.numbers():
            try:
                wrong = running.once(Random(f"{job.seed} {number}"))
            except DaemonFailedError as error:
                job.find(number, str(error))
                running.restart()
                continue
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
