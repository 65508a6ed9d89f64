"""Making a log dir all or nothing: beside its final name, and given that name when it is whole.

The folder lies in the same folder as the target, locked as a broker locks a log dir, so that no other run
takes it for a leftover. Before anything else it gets a manifest that names the target: by that the next
run knows what an interrupted one left, and removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat

from engine.errors import CorruptCheckpointError
from engine.files.file_names import LOCK, META_PROPERTIES
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.manifest import (
    FORMAT,
    MANIFEST,
    STAGING,
    Json,
    read_manifest,
    render_manifest,
    valid_name,
)
from engine.writing.checkpoint.file_lock import FileLock
from engine.writing.disk import DISK, TEMPORARY_SUFFIX, Disk

FILE_MODE, FOLDER_MODE = 0o640, 0o750
_LONGEST = 50
"""Characters of the target's name in that of the folder that it is made in: a name has 255 bytes."""


class Staging:
    """A log dir that is being made.

    Args:
        target: where it is to be; see `refuse_target`.
        disk: does the writing.

    Attributes:
        path: where it is now.
        removed: what interrupted runs had left, and this one removed.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, target: str, disk: Disk = DISK) -> None:
        self.target = _final_path(target)
        self._disk = disk
        self._parent = os.path.dirname(self.target)
        self.removed = remove_leftovers(self.target, disk)
        self.path = os.path.join(self._parent, _prefix(self.target) + secrets.token_hex(8))
        self._lock: FileLock | None = None
        try:
            disk.make_folder(self.path)
            self._lock = FileLock(os.path.join(self.path, LOCK), disk)
            self._lock.try_lock()
            self.write_manifest({"format": FORMAT, "state": STAGING, "target": self.target})
        except BaseException:
            self.discard()
            raise

    def write_manifest(self, manifest: Json) -> None:
        """Put another manifest in the place of the one before."""
        path = os.path.join(self.path, MANIFEST)
        self._disk.replace_atomically(path, render_manifest(manifest))

    def publish(self) -> None:
        """Give the folder its final name; everything in it is on the device already.

        Raises:
            OSError: that did not work, and nothing has the final name.
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
            self._lock.unlock_and_close()

    def discard(self) -> None:
        """Remove what was made, as far as that is possible; the next run removes the rest."""
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
    """Set the access of all that is below a folder, and return when it is on the device, names included.

    Without `folders`, only of the files right in it: what lies deeper is on the device already.
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


def remove_leftovers(target: str, disk: Disk = DISK) -> list[str]:
    """Remove what interrupted runs for the same target left; the paths."""
    target = _final_path(target)
    parent, removed = os.path.dirname(target), []
    pattern = re.compile(re.escape(_prefix(target)) + "[0-9a-f]{16}")
    for name in disk.list(parent):
        path = os.path.join(parent, name)
        if pattern.fullmatch(name) and _is_leftover(path, target, disk):
            _remove(path, disk)
            removed.append(path)
    return removed


def refuse_target(target: str, sources: list[str]) -> None:
    """Raises RebuildRefusedError when a log dir must not be made there."""
    final = _final_path(target)
    parent = os.path.dirname(final)
    if not os.path.isdir(parent):
        raise RebuildRefusedError(f"{parent} is no folder", "make it first")
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
            f"{parent} is a broker's log dir, and may not hold another one",
            "choose a target outside of it",
        )
    _refuse_existing(target, final)


def _refuse_existing(target: str, final: str) -> None:
    if not os.path.lexists(final):
        return
    if not stat.S_ISDIR(os.lstat(final).st_mode):
        raise RebuildRefusedError(f"{target} is there already", "choose another target")
    if os.listdir(final):
        lock = os.path.join(final, LOCK)
        if os.path.isfile(lock) and not os.path.islink(lock):
            pid = _holder(lock)
            if pid is not None:
                raise RebuildRefusedError(
                    f"{target} is in use by process {pid}", "choose another target"
                )
        raise RebuildRefusedError(
            f"{target} is there already and not empty",
            "it is never overwritten: choose another target, or move it away",
        )


def _holder(lock: str) -> int | None:
    file = FileLock(lock)
    try:
        return file.holder_pid()
    finally:
        file.unlock_and_close()


def _final_path(target: str) -> str:
    """Return the target's own path: links above it are followed, its own name is not."""
    full = os.path.abspath(target)
    return os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))


def _prefix(target: str) -> str:
    return f".{os.path.basename(target)[:_LONGEST]}.kafkafs-rebuild-"


def _is_leftover(path: str, target: str, disk: Disk) -> bool:
    """Return whether a folder of that name is what an interrupted run left."""
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
    if MANIFEST not in names:  # nothing is made before it
        return names <= {LOCK, MANIFEST + TEMPORARY_SUFFIX}
    try:
        return bool(read_manifest(path, disk).get("target") == valid_name(target))
    except CorruptCheckpointError:
        return False


def _remove(path: str, disk: Disk) -> None:
    """Remove a staged log dir; its manifest last, since by that a next run knows it."""
    for name in disk.list(path):
        if name not in (MANIFEST, LOCK):
            disk.remove_tree(os.path.join(path, name))
    disk.sync_folder(path)
    disk.remove_tree(path)
