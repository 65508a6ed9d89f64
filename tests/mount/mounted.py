"""Daemons for tests: started over the tree in memory, stopped and cleaned up whatever happened."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkafs.mount.mount_table import mount_at

SERVE = Path(__file__).with_name("serve_fake.py")
ROOT = Path(__file__).parents[2]


def obstacle() -> str:
    """Why nothing can be mounted here; empty when it can."""
    if importlib.util.find_spec("pyfuse3") is None:
        return "pyfuse3 is not installed"
    if not os.path.exists("/dev/fuse"):
        return "/dev/fuse does not exist"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse cannot be opened: {error.strerror}"
    if shutil.which("fusermount3") is None:
        return "fusermount3 is not installed"
    return ""


needs_fuse = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "never")


def wait_until(condition: Callable[[], object], seconds: float = 15.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def make_folder(path: Path) -> None:
    """The folder, which may be there with a dead mount on it."""
    with suppress(FileExistsError):
        os.mkdir(path)


def is_running(pid: int) -> bool:
    """Whether a process is there and not only waiting for its parent to notice its end."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


class Mounted:
    """A daemon in the foreground, as a child process, on a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.source = folder / "source"
        self.path = folder / "mnt"
        self.log = folder / "stderr.txt"
        for made in (self.source, self.path):
            make_folder(made)
        with self.log.open("wb") as stderr:
            self.process = subprocess.Popen(
                self.command(options),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stderr=stderr,
            )
        wait_until(lambda: self.is_ready() or self.process.poll() is not None)
        if not self.is_ready() or self.process.poll() is not None:
            self.stop()
            pytest.fail(f"the daemon does not start: {self.log_text()}")

    def command(self, options: tuple[str, ...]) -> list[str]:
        return [
            sys.executable,
            str(SERVE),
            str(self.source),
            str(self.path),
            "foreground",
            *options,
        ]

    def is_ready(self) -> bool:
        return "mounted on" in self.log_text()

    def is_mounted(self) -> bool:
        return mount_at(str(self.path)) is not None

    def log_text(self) -> str:
        return self.log.read_text()

    def ended(self, seconds: float = 10.0) -> int:
        """The daemon's exit status, waited for."""
        return self.process.wait(seconds)

    def stop(self) -> None:
        """Whatever state it is in, nothing of it is left."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        while self.is_mounted():
            subprocess.run(["umount", "-l", self.path], check=False)
