"""Make a log dir atomically: in a staging folder, which is renamed when it is complete.

The staging folder is next to the target, locked as a broker locks a log dir, so that no other run
removes it as a leftover. Its first file is a manifest that names the target: by that the next run
recognizes and removes the remains of an interrupted one.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat

from engine.disk.disk import DISK, TEMPORARY_SUFFIX, Disk
from engine.disk.file_lock import FileLock
from engine.errors import CorruptCheckpointError
from engine.files.file_names import LOCK, META_PROPERTIES
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.target.manifest import (
    FORMAT,
    MANIFEST,
    STAGING,
    Json,
    read_manifest,
    render_manifest,
    valid_name,
)

FILE_MODE, FOLDER_MODE = 0o640, 0o750
_LONGEST = 50
"""Most characters of the target's name in that of the staging folder: a name has at most 255 bytes."""


class Staging:
    """A log dir that is being made.

    Args:
        target: final path; see `refuse_target`.
        disk: disk to write with.
        adopted: remains of an interrupted run to go on with, see `unfinished`; None to begin anew.

    Attributes:
        path: current path.
        removed: remains of interrupted runs that were removed.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, target: str, disk: Disk = DISK, *, adopted: str | None = None) -> None:
        self.target = _final_path(target)
        self._disk = disk
        self._parent = os.path.dirname(self.target)
        self.removed = remove_leftovers(self.target, disk, adopted)
        self.path = adopted or ""
        self._lock: FileLock | None = None
        if adopted is not None:
            self._lock = FileLock(os.path.join(adopted, LOCK), disk)
            if self._lock.try_lock():
                return
            self._lock.unlock_and_close()  # another run was faster
        self.path = os.path.join(self._parent, _prefix(self.target) + secrets.token_hex(8))
        try:
            disk.make_folder(self.path)
            self._lock = FileLock(os.path.join(self.path, LOCK), disk)
            self._lock.try_lock()
            self.write_manifest({"format": FORMAT, "state": STAGING, "target": self.target})
        except BaseException:
            self.discard()
            raise

    def write_manifest(self, manifest: Json) -> None:
        """Replace the manifest."""
        path = os.path.join(self.path, MANIFEST)
        self._disk.replace_atomically(path, render_manifest(manifest))

    def publish(self) -> None:
        """Rename the folder to the target; its content is on the device already.

        Raises:
            OSError: the rename failed, and the target does not exist; or it exists and is whole, but its
                name may be lost in a crash, and a disk that fails on did not let it be taken back.
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._disk.remove_folder(self.target)
        self._disk.sync_folder(self.path)
        self._disk.rename_new(self.path, self.target)
        try:
            self._disk.sync_folder(self._parent)
        except OSError:
            self._disk.rename_new(self.target, self.path)
            raise
        if self._lock is not None:
            with contextlib.suppress(OSError):  # the target is made, whatever becomes of the lock
                self._lock.unlock_and_close()

    def discard(self) -> None:
        """Remove the folder as far as possible; the next run removes the rest."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._lock.unlock_and_close()
        with contextlib.suppress(OSError):
            _remove(self.path, self._disk)
            self._disk.sync_folder(self._parent)


def sync_tree(
    folder: str,
    disk: Disk = DISK,
    owner: tuple[int, int] | None = None,
    *,
    folders: bool = True,
) -> None:
    """Set the access of everything below a folder, and sync it to the device, with the names.

    Without `folders`, only of the files directly in it: everything deeper is on the device already.
    """
    for name in disk.list(folder):
        path = os.path.join(folder, name)
        if disk.is_dir(path):
            if folders:
                sync_tree(path, disk, owner)
        else:
            disk.set_access(path, FILE_MODE, owner)
            with disk.open(path) as file:
                file.sync()
    disk.set_access(folder, FOLDER_MODE, owner)
    disk.sync_folder(folder)


def remove_leftovers(target: str, disk: Disk = DISK, kept: str | None = None) -> list[str]:
    """Remove the remains of interrupted runs for the same target but `kept`; return their paths."""
    removed = [path for path in _leftovers(_final_path(target), disk) if path != kept]
    for path in removed:
        _remove(path, disk)
    return removed


def unfinished(target: str, name: str, disk: Disk = DISK) -> str | None:
    """Return the remains of an interrupted run for a target that have a file of some name; None without any."""
    found = _leftovers(_final_path(target), disk)
    return next((path for path in found if name in disk.list(path)), None)


def _leftovers(target: str, disk: Disk) -> list[str]:
    parent = os.path.dirname(target)
    pattern = re.compile(re.escape(_prefix(target)) + "[0-9a-f]{16}")
    paths = [os.path.join(parent, name) for name in disk.list(parent) if pattern.fullmatch(name)]
    return [path for path in paths if _is_leftover(path, target, disk)]


def refuse_target(target: str, sources: list[str]) -> None:
    """Raise RebuildRefusedError if no log dir may be made at the target."""
    final = _final_path(target)
    parent = os.path.dirname(final)
    if not os.path.isdir(parent):
        raise RebuildRefusedError(f"{parent} is no folder", "create it first")
    for source in map(os.path.realpath, sources):
        if os.path.commonpath([source, final]) == source:
            raise RebuildRefusedError(
                f"{target} is inside the source {source}", "choose a target outside of it"
            )
        if os.path.commonpath([source, final]) == final:
            raise RebuildRefusedError(
                f"the source {source} is inside {target}", "choose another target"
            )
    if os.path.lexists(os.path.join(parent, META_PROPERTIES)):
        raise RebuildRefusedError(
            f"{parent} is a broker's log dir, which must not contain another one",
            "choose a target outside of it",
        )
    _refuse_existing(target, final)


def _refuse_existing(target: str, final: str) -> None:
    if not os.path.lexists(final):
        return
    if not stat.S_ISDIR(os.lstat(final).st_mode):
        raise RebuildRefusedError(f"{target} already exists", "choose another target")
    if os.listdir(final):
        lock = os.path.join(final, LOCK)
        if os.path.isfile(lock) and not os.path.islink(lock):
            pid = _holder(lock)
            if pid is not None:
                raise RebuildRefusedError(
                    f"{target} is in use by process {pid}", "choose another target"
                )
        raise RebuildRefusedError(
            f"{target} already exists and is not empty",
            "a target is never overwritten: choose another one, or move this one away",
        )


def _holder(lock: str) -> int | None:
    file = FileLock(lock)
    try:
        return file.holder_pid()
    finally:
        file.unlock_and_close()


def _final_path(target: str) -> str:
    """Return the target's real path: links above it are followed, its own name is not."""
    full = os.path.abspath(target)
    return os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))


def _prefix(target: str) -> str:
    return f".{os.path.basename(target)[:_LONGEST]}.kafkafs-rebuild-"


def _is_leftover(path: str, target: str, disk: Disk) -> bool:
    """Return whether a folder was left by an interrupted run for the target."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        return False
    names = set(disk.list(path))
    if LOCK in names:
        lock = FileLock(os.path.join(path, LOCK), disk)
        try:
            if not lock.try_lock():
                return False
        finally:
            lock.unlock_and_close()
    if MANIFEST not in names:  # nothing is created before the manifest
        return names <= {LOCK, MANIFEST + TEMPORARY_SUFFIX}
    try:
        return bool(read_manifest(path, disk).get("target") == valid_name(target))
    except CorruptCheckpointError:
        return False


def _remove(path: str, disk: Disk) -> None:
    """Remove a staging folder; its manifest last, since it marks the folder as a leftover."""
    for name in disk.list(path):
        if name not in (MANIFEST, LOCK):
            disk.remove_tree(os.path.join(path, name))
    disk.sync_folder(path)
    disk.remove_tree(path)
