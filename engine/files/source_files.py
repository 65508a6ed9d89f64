"""The one module that opens source files: beneath the source, read-only, regular files, never blocking.

A source may be written by a live broker, or be crafted to make us read elsewhere; `beneath` resolves
every name so that none leads out of the source. Nothing is created, locked or written, and atime is
kept where the system allows it (O_NOATIME). Reads are pread(2): a file that shrinks gives short
reads.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from engine.closable import Closable
from engine.errors import LimitExceededError, SourceRefusedError, UnreadableError
from engine.files.beneath import REFUSALS, Beneath, open_folder
from engine.files.folder_entries import (
    EntryKind,
    SourceEntry,
    check_components,
    entries_apart,
    file_names,
    refuse_unless_regular,
)
from engine.files.lock_holder import lock_holder
from engine.files.source_presence import check_there
from engine.files.stores import MARK, STORES
from engine.files.tries import tried, try_again
from engine.files.unreadable import MEDIA_ERRORS, UNREADABLE_FILES, Stretch, Stretches

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_LOOK = os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW
_NOATIME = os.O_NOATIME

_LARGE_READ = 1 << 20
_MAX_AGE = 0.2
EXHAUSTED = (errno.EMFILE, errno.ENFILE)
"""Errors of a process, or of a system, that has no descriptor left."""


class StatedEnd(NamedTuple):
    """What another file states of a segment that is not readable: one past its last offset, and its largest timestamp
    in milliseconds.
    """

    next_offset: int
    max_timestamp: int


class SourceFile(Closable):
    """An open source file: positioned reads, no cursor; safe from several threads.

    Attributes:
        path: the source's path and the name in it, for messages.
        name: last component of the path.
        descriptor: the descriptor, -1 once closed.
        device, inode: the file's identity; while it is open no other file can take them.
        opened_as: the file's status when it was opened.
        unreadable: the stretches that the device could not read; None while no read has failed.

    The descriptor is closed with the last reference, so a file that its source's cache has dropped
    stays readable for its holders. Call `close` only as the sole owner: no other thread may be
    reading.
    """

    __slots__ = (
        *("__weakref__", "descriptor", "device", "inode", "name", "opened_as", "path"),
        "unreadable",
    )
    stated_end: StatedEnd | None = None
    """What is known of a records file without a readable byte."""

    def __init__(self, fd: int, path: str, status: os.stat_result) -> None:
        self.descriptor = fd
        self.path = path
        self.name = path.rpartition("/")[2]
        self.device = status.st_dev
        self.inode = status.st_ino
        self.opened_as = status
        known = UNREADABLE_FILES.known(status)
        self.unreadable: Stretches | None = None if known is None else known.stretches

    def __repr__(self) -> str:
        return f"SourceFile({self.path!r})"

    def __del__(self) -> None:
        self.close()

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        return self.device, self.inode

    @property
    def fd(self) -> int:
        """The descriptor for calls that may read any byte of the file, -1 once closed."""
        return self.descriptor

    def reach(self, start: int, end: int, size: int | None = None) -> int:
        """Return up to where calls may read by `descriptor` from `start` on, at most `end`: `size` bytes of a stored file."""
        return end

    def close(self) -> None:
        """Close now; a second call does nothing."""
        fd, self.descriptor = self.descriptor, -1
        if fd >= 0:
            os.close(fd)

    def stat(self) -> os.stat_result:
        """Return fstat of the open file, that of its opening if the device does not answer. Raises ValueError when closed."""
        fd = self._open_fd()
        try:
            return os.fstat(fd)
        except OSError as error:
            if error.errno not in MEDIA_ERRORS:
                raise
        return self.opened_as

    def size(self) -> int:
        """Return the file's length in bytes, as `stat` has it. Raises ValueError when closed."""
        return SourceFile.stat(self).st_size

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes from absolute `position`, fewer only at the end of the file.

        Never allocates more than the file has. Raises ValueError when closed, UnreadableError for
        bytes that the device cannot read, OSError for other failures or a negative number.
        """
        if self.unreadable is not None:
            self._refuse_unreadable(position, size)
        fd = self._open_fd()
        try:
            wanted = size
            if size > _LARGE_READ:
                wanted = max(min(size, SourceFile.size(self) - position), 0)
            data = os.pread(fd, wanted, position) if wanted else b""
            if len(data) == wanted or not data:
                return data
            parts = [data]
            got = len(data)
            while got < wanted:
                data = os.pread(fd, wanted - got, position + got)
                if not data:
                    break
                parts.append(data)
                got += len(data)
            return b"".join(parts)
        except OSError as error:
            self._explain(error, position, size)
        return SourceFile.read_at(self, position, size)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill `buffer` from absolute `position`; return the number of bytes read, fewer only at the
        end of the file.

        Raises as `read_at` does.
        """
        view = memoryview(buffer).cast("B")
        size = len(view)
        if self.unreadable is not None:
            self._refuse_unreadable(position, size)
        fd = self._open_fd()
        got = 0
        try:
            while got < size:
                count = os.preadv(fd, [view[got:] if got else view], position + got)
                if count == 0:
                    break
                got += count
            return got
        except OSError as error:
            self._explain(error, position, size)
        return SourceFile.read_into(self, view, position)

    def unreadable_in(self, position: int, end: int) -> Stretch | None:
        """Return the first stretch of [position, end) that is known to be unreadable, without a read."""
        known = self.unreadable
        return None if known is None else known.first_in(position, end)

    def _refuse_unreadable(self, position: int, size: int) -> None:
        bad = self.unreadable_in(position, position + size)
        if bad is not None:
            raise UnreadableError(bad.errno, self.path, bad.position, bad.length, bad.cause)

    def _explain(self, error: OSError, position: int, size: int) -> None:
        """Raise the error of a failed read, with the unreadable stretch; return if all can be read now."""
        error.filename = self.path
        if error.errno not in MEDIA_ERRORS:
            raise error
        fd = self._open_fd()
        status = SourceFile.stat(self)
        known = UNREADABLE_FILES.of(status)
        self.unreadable = known.stretches
        if known.find(fd, status.st_size, position, position + size, error.errno) is not None:
            self._refuse_unreadable(position, size)
        elif not known.is_worth_another_try():
            raise error

    def _open_fd(self) -> int:
        fd = self.descriptor
        if fd < 0:
            raise ValueError(f"{self.path} is closed")
        return fd


class SourceRoot(Closable):
    """One source folder and everything beneath it, read-only; safe from several threads.

    `path` comes from the operator and may be or contain a symbolic link. All other names are
    relative to it, with "/" between components and "" for the folder itself.

    Args:
        path: the folder.
        open_files: number of files that stay open for reuse, besides those in use.
        cross_device: enter other file systems mounted beneath the source.

    Attributes:
        path, local: the path without slashes at its end, as shown to people, and the absolute one.
        when_exhausted: called when this process has no descriptor left, to close files of the
            source that are kept open for reuse.
        when_opened: called with the name and the file when a file was opened.

    Raises OSError when the folder cannot be opened.
    """

    when_exhausted: Callable[[], None] | None = None
    when_opened: Callable[[str, SourceFile], None] | None = None

    def __init__(self, path: str, *, open_files: int = 512, cross_device: bool = False) -> None:
        path = STORES.local(path)
        self.path = STORES.shown(path.rstrip("/") or "/" * bool(path))
        self.fd = -1
        self.local = path if path.startswith("/") else os.path.join(os.getcwd(), path)
        self._checked = monotonic()
        self._open_files = max(open_files, 1)
        self._files: OrderedDict[str, SourceFile] = OrderedDict()
        self._lock = threading.Lock()
        self.fd = open_folder(path)
        self._beneath = tried(lambda: Beneath(self.fd, cross_device=cross_device), path)

    def __repr__(self) -> str:
        return f"SourceRoot({self.path!r})"

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder and drop the cache; files that are held elsewhere stay open. May be called twice."""
        fd, self.fd = getattr(self, "fd", -1), -1
        if fd >= 0:
            self._drop_cache()
            os.close(fd)

    def real(self, relative: str) -> str:
        """Map a shown path to the real one; identity except for tiered storage.

        A subclass that shows other paths maps them before it calls `stat` and `open_fresh` of this class.
        """
        return relative

    def remark(self, relative: str) -> str:
        """Return a remark on an entry that is set aside or missing; "" for none."""
        return ""

    def display(self, relative: str) -> str:
        """Return the path of an entry as shown to people."""
        relative = self.real(relative)
        return f"{self.path.rstrip('/')}/{relative}" if relative else self.path

    def list(self, folder: str = "") -> list[SourceEntry]:
        """Return the entries of a folder, in no order. Raises as `list_apart` does."""
        files, others = self.list_apart(folder)
        return [*others, *(SourceEntry(name, EntryKind.FILE) for name in files)]

    def list_apart(self, folder: str = "") -> tuple[Sequence[str], Sequence[SourceEntry]]:
        """Return the names of a folder's regular files, perhaps a million, and its other entries.

        Raises FileNotFoundError, NotADirectoryError, other OSError, SourceRefusedError.
        """
        fd = self._open_fd(folder, _LIST | _NOATIME)
        try:
            return entries_apart(fd)
        except OSError as error:
            if error.errno in EXHAUSTED:
                self.free_descriptors()
                return entries_apart(fd)
            return try_again(error, lambda: entries_apart(fd), self.display(folder))
        finally:
            os.close(fd)

    def iterate_files(self, folder: str = "") -> Iterator[str]:
        """Yield the names of a folder's regular files one by one, in the file system's order.

        Raises as `list_apart` does, at the first name or a later one.
        """
        fd = self._open_fd(folder, _LIST | _NOATIME)
        try:
            yield from file_names(fd)
        except OSError as error:  # some names were yielded already
            error.filename = self.display(folder)
            raise
        finally:
            os.close(fd)

    def stat(self, relative: str = "") -> os.stat_result:
        """Return lstat of an entry. Raises FileNotFoundError, other OSError, SourceRefusedError (a link in the path)."""
        try:
            return self._stat(relative)
        except OSError as error:
            return try_again(error, lambda: self._stat(relative), self.display(relative))

    def _stat(self, relative: str) -> os.stat_result:
        if not relative:
            return os.fstat(self._root_fd())
        if "/" not in relative:
            check_components(relative, self.display)
            return os.stat(relative, dir_fd=self._root_fd(), follow_symlinks=False)
        fd = self._open_fd(relative, _LOOK)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def stat_files(self, folder: str, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield lstat of files of a folder, without those that are not there. Raises as `list_apart` does."""
        fd = self._open_fd(folder, _LOOK | os.O_DIRECTORY)
        try:
            for name in names:
                check_components(name, self.display)
                with suppress(FileNotFoundError):
                    yield name, self._stat_in(fd, folder, name)
        finally:
            os.close(fd)

    def _stat_in(self, fd: int, folder: str, name: str) -> os.stat_result:
        try:
            return os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            path = self.display(f"{folder}/{name}" if folder else name)
            return try_again(error, lambda: os.stat(name, dir_fd=fd, follow_symlinks=False), path)

    def statvfs(self) -> os.statvfs_result:
        """Return the numbers of the file system that holds the folder. Raises OSError."""
        return os.statvfs(self._root_fd())

    def open(self, relative: str, *, fresh: bool = False) -> SourceFile:
        """Return a regular file, from the cache if possible; it may have been renamed or unlinked since.

        With `fresh`, a cached file is used only if the name still refers to it (one or two system calls).
        Raises FileNotFoundError, other OSError, SourceRefusedError.
        """
        with self._lock:
            if (file := self._files.get(relative)) is not None:
                self._files.move_to_end(relative)
        if file is not None:
            if not fresh:
                return file
            status = self.stat(relative)
            if (status.st_dev, status.st_ino) == (file.device, file.inode):
                return file
        file = self.open_fresh(relative)
        evicted = None
        with self._lock:
            self._files[relative] = file
            self._files.move_to_end(relative)
            if len(self._files) > self._open_files:
                evicted = self._files.popitem(last=False)
        del evicted
        return file

    def open_fresh(self, relative: str, *, is_listed: bool = False) -> SourceFile:
        """Return a regular file, newly opened and not cached. Raises as `open` does.

        `is_listed` states that a list of the folder gave the name as that of a regular file.
        """
        path = self.display(relative)
        # Checked before opening, since opening a device can have effects; and again after, in case
        # it was swapped.
        if not is_listed:
            refuse_unless_regular(self.stat(relative), path)
        fd = self._open_fd(relative, _READ | _NOATIME)
        try:
            status = tried(lambda: os.fstat(fd), path)
            refuse_unless_regular(status, path)
        except BaseException:
            os.close(fd)
            raise
        file = SourceFile(fd, path, status)
        if status.st_mode & MARK == MARK:
            file = STORES.opened(self, file)
        if self.when_opened is not None:
            self.when_opened(relative, file)
        return file

    def read(self, relative: str, *, limit: int, is_listed: bool = False) -> bytes:
        """Return a small file whole; `is_listed` as for `open_fresh`.

        Raises LimitExceededError for more than `limit` bytes, other errors as `open` does.
        """
        with self.open_fresh(relative, is_listed=is_listed) as file:
            # Files of /proc state the size 0.
            data = file.read_at(0, min(file.opened_as.st_size or limit + 1, limit + 1))
            if len(data) > limit:
                raise LimitExceededError(
                    "the file is larger than it may be",
                    limit="checkpoint_bytes",
                    path=file.path,
                    expected=f"at most {limit} bytes",
                    found=f"{file.size()} bytes",
                )
            return data

    def forget(self, folder: str) -> None:
        """Drop the cached files of a folder, all for ""."""
        if not folder:
            self._drop_cache()
            return
        prefixes = f"{folder}/", f"{self.real(folder)}/"
        with self._lock:
            names = [name for name in self._files if name == folder or name.startswith(prefixes)]
            dropped = [self._files.pop(name) for name in names]
        del dropped

    def broker_pid(self) -> int | None:
        """Return the process that holds the POSIX lock on .lock, None without one; takes no lock.

        0 for a holder without a process id here (another pid namespace, another host). A lock held
        by this very process is not seen.
        """
        try:
            file = self.open_fresh(".lock")
        except OSError:
            return None
        with file:
            return lock_holder(file.fd)

    def check_there(self) -> None:
        """Check that the operator's path still leads to this folder. Raises SourceGoneError."""
        check_there(self.fd, self.local)
        self._checked = monotonic()

    def _root_fd(self) -> int:
        if self.fd < 0:
            raise ValueError(f"{self.path} is closed")
        if monotonic() - self._checked > _MAX_AGE:
            self.check_there()
        return self.fd

    def free_descriptors(self) -> None:
        """Close what is kept open for reuse."""
        self._drop_cache()
        if self.when_exhausted is not None:
            self.when_exhausted()

    def _drop_cache(self) -> None:
        with self._lock:
            dropped, self._files = self._files, OrderedDict()
        del dropped  # the descriptors close here, outside the lock

    def _open_fd(self, relative: str, flags: int) -> int:
        """Return a descriptor beneath the root; when none is left, free some and try once more.

        Errors that a device may not give again are tried again, too.
        """
        check_components(relative, self.display)
        try:
            return self._open_or_refuse(relative, flags)
        except OSError as error:
            if error.errno not in EXHAUSTED:
                path = self.display(relative)
                return try_again(error, lambda: self._open_or_refuse(relative, flags), path)
        self.free_descriptors()
        return self._open_or_refuse(relative, flags)

    def _open_or_refuse(self, relative: str, flags: int) -> int:
        try:
            self._root_fd()
            try:
                return self._beneath.open(relative, flags)
            except PermissionError as error:
                # O_NOATIME is for the file's owner and root only.
                if error.errno != errno.EPERM or not flags & _NOATIME:
                    raise
                return self._beneath.open(relative, flags & ~_NOATIME)
        except SourceRefusedError:
            raise
        except OSError as error:
            reason = REFUSALS.get(error.errno or 0)
            if reason is None:
                error.filename = self.display(relative)
                raise
            raise SourceRefusedError(reason, self.display(relative)) from error
