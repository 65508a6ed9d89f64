"""The `kafkafs` command mounting a directory, in the foreground of a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parent.parent.parent
READY_SECONDS = 30.0
END_SECONDS = 30.0


class MountFailedError(Exception):
    """The daemon ended before its tree was there; the text is what it said."""


class Mounted:
    """A context manager: `path` holds the tree of `source` while it lasts."""

    def __init__(self, source: Path, mountpoint: Path, options: Sequence[str] = ()) -> None:
        self.path = mountpoint
        self._source = source
        self._options = options
        self._log = mountpoint.with_name(mountpoint.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The daemon's process."""
        assert self._process is not None
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the daemon runs and answers."""
        if self._process is None or self._process.poll() is not None:
            return False
        os.listdir(self.path)
        return True

    def said(self) -> str:
        """What the daemon wrote to its terminal."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "kafkafs", "mount", "--foreground", *self._options]
        with open(self._log, "wb") as output:
            self._process = subprocess.Popen(
                [*command, str(self._source), str(self.path)],
                cwd=ROOT,
                stdout=output,
                stderr=output,
            )
        end = time.monotonic() + READY_SECONDS
        while not os.path.ismount(self.path):
            if self._process.poll() is not None:
                raise MountFailedError(self.said())
            if time.monotonic() > end:
                self._process.kill()
                raise MountFailedError(f"no tree after {READY_SECONDS} s\n{self.said()}")
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        umount = [sys.executable, "-m", "kafkafs", "umount", str(self.path)]
        done = subprocess.run(umount, cwd=ROOT, capture_output=True, check=False)
        if done.returncode:
            subprocess.run(["fusermount3", "-uz", str(self.path)], capture_output=True, check=False)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
