"""Folder of one write job beside its target: the files of tasks, and the log dir that becomes the target.

    .<target>.kafkafs-spark-<16 hex digits>/
        owner.json      the process that owns the job
        tasks/          a folder for each attempt of a task
        log-dir/        made by the commit, then renamed to the target

Folders are made one at a time, without their parents: a task that outlives its job cannot bring back the job's
folder.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import secrets
import socket
import stat
from collections.abc import Sequence
from typing import NamedTuple

from engine.clock import SYSTEM_CLOCK
from engine.disk.disk import DISK, TEMPORARY_SUFFIX, Disk
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.target import staging
from kafkafs.spark.errors import OptionError
from kafkafs.spark.sink.task_writer import TASKS

logger = logging.getLogger(__name__)

LOG_DIR = "log-dir"
OWNER = "owner.json"
_GONE = ".gone"
_LONGEST = 50
"""Characters of the target's name in the name of the job's folder: a name has at most 255 bytes."""
_TRIES = 5
_LARGEST_OWNER = 65536
_UNOWNED_MS = 60_000
"""Age in ms above which a folder without an owner is a leftover."""


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


class JobFolder:
    """Folder of a job; it holds only paths, so that it can be sent to other processes.

    Attributes:
        target: absolute path of the log dir to be.
        path: absolute path of the folder.
    """

    def __init__(self, target: str, path: str) -> None:
        self.target = target
        self.path = path

    @classmethod
    def make(cls, target: str, disk: Disk = DISK) -> JobFolder:
        """Make the folder, after a removal of leftovers of jobs for the same target with a dead driver.

        Raises:
            OptionError: the target is not empty, or a log dir must not be made there.
            OSError: the folder cannot be made.
        """
        final = _final_path(target)
        refuse_target(target)
        remove_leftovers(target, disk)
        path = os.path.join(os.path.dirname(final), _prefix(final) + secrets.token_hex(8))
        job = cls(final, path)
        disk.make_new_folder(path)
        try:
            owner = {"target": final, "owner": list(this_owner())}
            disk.replace_atomically(os.path.join(path, OWNER), json.dumps(owner).encode())
            disk.make_new_folder(os.path.join(path, TASKS))
            disk.sync_folder(path)
        except BaseException:
            job.discard(disk)
            raise
        return job

    @property
    def log_dir(self) -> str:
        """Path of the log dir before it is published."""
        return os.path.join(self.path, LOG_DIR)

    def publish(self, disk: Disk = DISK) -> None:
        """Rename the log dir to the target in one step; all its content is on the device already.

        Raises:
            OSError: the rename failed, and there is no target.
        """
        parent = os.path.dirname(self.target)
        try:
            disk.remove_folder(self.target)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            raise FileExistsError(
                errno.EEXIST, "another process made the target during the job", self.target
            ) from None
        disk.rename_new(self.log_dir, self.target)
        try:
            disk.sync_folder(parent)
        except OSError:
            disk.rename_new(self.target, self.log_dir)
            raise

    def discard(self, disk: Disk = DISK) -> None:
        """Remove the folder as far as possible; a later job for the target removes the rest."""
        gone = self.path.removesuffix(_GONE) + _GONE
        with contextlib.suppress(OSError):
            # Rename first: a task that still runs then finds no folder to write to.
            if gone != self.path:
                disk.rename(self.path, gone)
            _remove(gone, disk)


def remove_leftovers(target: str, disk: Disk = DISK) -> list[str]:
    """Remove leftovers of jobs for a target with a dead driver; return their paths."""
    final = _final_path(target)
    parent, removed = os.path.dirname(final), []
    pattern = re.compile(re.escape(_prefix(final)) + "[0-9a-f]{16}" + f"({re.escape(_GONE)})?")
    for name in disk.list(parent):
        path = os.path.join(parent, name)
        if pattern.fullmatch(name) and _is_leftover(path, final, disk):
            logger.info("removing %s, left by an interrupted job", path)
            JobFolder(final, path).discard(disk)
            removed.append(path)
    return removed


def refuse_target(target: str, sources: Sequence[str] = ()) -> None:
    """Raise OptionError when a log dir must not be made at a target; it must not be in a source or around one."""
    try:
        staging.refuse_target(target, list(sources))
    except RebuildRefusedError as error:
        raise OptionError(str(error)) from None


def _is_leftover(path: str, target: str, disk: Disk) -> bool:
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return False
        names = set(disk.list(path))
        if OWNER not in names:  # not written yet, or all other files were removed
            age = SYSTEM_CLOCK.now_ms() - disk.mtime_ms(path)
            return names <= {OWNER + TEMPORARY_SUFFIX} and age > _UNOWNED_MS
        with disk.open(os.path.join(path, OWNER), writable=False) as file:
            found = json.loads(file.read_at(0, _LARGEST_OWNER))
        return bool(found["target"] == target and JobOwner(*found["owner"]).is_gone)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _remove(path: str, disk: Disk) -> None:
    """Remove a job's folder; the owner file goes last, because a later job finds leftovers by it."""
    for name in disk.list(path):
        if name != OWNER:
            _remove_busy(os.path.join(path, name), disk)
    disk.sync_folder(path)
    disk.remove_tree(path)


def _remove_busy(path: str, disk: Disk) -> None:
    """Remove a folder in which a task may still make files."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(OSError):
            disk.remove_tree(path)
            return
    disk.remove_tree(path)


def _final_path(target: str) -> str:
    """Return the absolute path of the target, with links resolved above it, but not its own name."""
    full = os.path.abspath(target)
    return os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))


def _prefix(target: str) -> str:
    return f".{os.path.basename(target)[:_LONGEST]}.kafkafs-spark-"
