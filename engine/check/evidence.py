"""Which files a check has opened, and what each of them was: status and SHA-256.

A file is hashed in one more sequential read, right after the check of its partition. The hash is that of the bytes that the
check read if the file's status (size, mtime, ctime, inode, device) is the same before the first of these reads and after the
last one; otherwise the file counts as changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from threading import Lock
from typing import NamedTuple

from engine.budgets import MiB
from engine.errors import SourceRefusedError
from engine.files.folder_entries import EntryKind
from engine.files.read_failures import reason_of
from engine.files.source_files import SourceFile, SourceRoot
from engine.files.unreadable import Stretch, readable_parts
from engine.log.partition_log import PartitionLog
from engine.workers import Workers

_PIECE = 1 * MiB


class ReadState(StrEnum):
    """What a check can say of a file."""

    READ = "read"
    """It did not change while it was read, and it was hashed whole."""
    CHANGED = "changed"
    """It changed between the first read and the last one."""
    UNREADABLE = "unreadable"
    """Some or all of it could not be read."""
    GONE = "gone"
    """It was opened, and had no name or another file had its name when it was to be hashed."""
    NOT_READ = "notRead"
    """The check has not opened it."""


class FileStatus(NamedTuple):
    """Status of a file: bytes, nanoseconds since 1970, numbers of the file system."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStatus:
        """Return the status that a stat call returned."""
        return cls(
            status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev
        )


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file of the source, as evidence.

    Attributes:
        path: as shown to people.
        state: whether it is evidence of what was checked.
        status: when it was first opened; None if it could not be opened.
        sha256: of its first `hashed` bytes, in hexadecimal; "" if it was not hashed.
        hashed: number of bytes.
        reason: why it is not READ.
        stretches: the bytes that could not be read.
    """

    path: str
    state: ReadState
    status: FileStatus | None
    sha256: str = ""
    hashed: int = 0
    reason: str = ""
    stretches: tuple[Stretch, ...] = ()


class Opened(NamedTuple):
    """A file that was opened: number of its root, folder and name in it, path for people, first status."""

    root: int
    folder: str
    name: str
    path: str
    status: FileStatus
    has_changed: bool = False


class OpenedFiles:
    """The files that are opened in some roots from now on.

    In a forked process it continues with what the parent knew; `news` are sent back and `add` takes them.
    """

    def __init__(self, roots: Sequence[SourceRoot]) -> None:
        self._roots = tuple(roots)
        self._folders: dict[tuple[int, str], dict[str, Opened]] = {}
        self._hashed: set[str] = set()
        self._news: list[Opened] = []
        self._lock = Lock()
        for number, root in enumerate(roots):
            root.when_opened = partial(self._opened, number)

    def _opened(self, root: int, relative: str, file: SourceFile) -> None:
        if file.path in self._hashed:
            return
        folder, _, name = relative.rpartition("/")
        status = FileStatus.of(file.opened_as)
        self.add([Opened(root, folder, name, file.path, status)])

    def add(self, opened: Iterable[Opened]) -> None:
        """Take files that were opened, perhaps in another process."""
        with self._lock:
            for each in opened:
                files = self._folders.setdefault((each.root, each.folder), {})
                known = files.get(each.name)
                if known is None:
                    files[each.name] = each
                elif known.has_changed or (known.status == each.status and not each.has_changed):
                    continue
                else:
                    each = files[each.name] = known._replace(has_changed=True)
                self._news.append(each)

    def news(self) -> list[Opened]:
        """Return what is known since the last call."""
        with self._lock:
            news, self._news = self._news, []
        return news

    def mark_hashed(self, file: FileRead) -> None:
        """Note that another process hashed a file."""
        self._hashed.add(file.path)

    def of_log(self, log: PartitionLog, workers: Workers, *, is_live: bool) -> Iterator[FileRead]:
        """Hash what was opened in a partition's folder; then yield the files that nobody opened."""
        root = next(number for number, each in enumerate(self._roots) if each is log.root)
        active = _mapped_by_a_broker(log) if is_live else ()
        seen: set[str] = set()
        for folder in dict.fromkeys((log.folder, log.root.real(log.folder))):
            with self._lock:
                files = self._folders.pop((root, folder), {})
            seen.update(files)
            for file in self._hash_all(files.values(), workers):
                name = file.path.rpartition("/")[2]
                if name in active and file.state is ReadState.READ:
                    reason = (
                        "a running broker writes it through memory, which its mtime need not show"
                    )
                    file = replace(file, state=ReadState.CHANGED, reason=reason)
                yield file
        if log.only is None:
            yield from _not_read(log.root, log.folder, seen)

    def rest(self, log_dirs: Iterable[SourceRoot | None], workers: Workers) -> Iterator[FileRead]:
        """Hash all other files; then yield those of the log dirs' own files that nobody opened."""
        with self._lock:
            folders, self._folders = self._folders, {}
        opened = [each for files in folders.values() for each in files.values()]
        yield from self._hash_all(opened, workers)
        for log_dir in log_dirs:
            numbers = [number for number, root in enumerate(self._roots) if root is log_dir]
            names = {name for each in numbers for name in folders.get((each, ""), ())}
            if log_dir is not None:
                yield from _not_read(log_dir, "", names)

    def _hash_all(self, opened: Iterable[Opened], workers: Workers) -> Iterator[FileRead]:
        new = sorted(each for each in opened if each.path not in self._hashed)
        self._hashed.update(each.path for each in new)
        for _, file in workers.map(self._hash, new):
            yield file

    def _hash(self, opened: Opened) -> FileRead:
        relative = f"{opened.folder}/{opened.name}" if opened.folder else opened.name
        try:
            # The class's own method: the path is the real one also in a root that shows others.
            with SourceRoot.open_fresh(self._roots[opened.root], relative) as file:
                return _hashed(file, opened)
        except FileNotFoundError:
            reason = "it was deleted or renamed after it was read"
            return FileRead(opened.path, ReadState.GONE, opened.status, reason=reason)
        except (OSError, SourceRefusedError) as error:
            reason = reason_of(error)
            return FileRead(opened.path, ReadState.UNREADABLE, opened.status, reason=reason)


def _hashed(file: SourceFile, opened: Opened) -> FileRead:
    """Hash a file, and compare its status with that of the first time it was opened."""
    first = opened.status
    if (file.inode, file.device) != (first.inode, first.device):
        reason = "another file has its name now"
        return FileRead(opened.path, ReadState.GONE, first, reason=reason)
    digest, stretches = hashlib.sha256(), dict[Stretch, None]()
    position, size = 0, file.size()
    while position < size:
        start = position
        for part in readable_parts(file, position, min(_PIECE, size - position)):
            if isinstance(part, Stretch):
                stretches[part] = None
                position = max(position, part.end)
            else:
                digest.update(part)
                position += len(part)
        if position == start:
            break  # the file became shorter
    if stretches:
        bad = tuple(stretches)
        reason = f"{sum(each.length for each in bad)} bytes cannot be read"
        return FileRead(opened.path, ReadState.UNREADABLE, first, reason=reason, stretches=bad)
    state, reason = ReadState.READ, ""
    if opened.has_changed or FileStatus.of(file.stat()) != first or position != first.size:
        state, reason = ReadState.CHANGED, "its status changed while it was read"
    return FileRead(opened.path, state, first, digest.hexdigest(), position, reason)


def _mapped_by_a_broker(log: PartitionLog) -> tuple[str, ...]:
    """Return the names of the files that a running broker has mapped into its memory: the active segment's indexes."""
    view = log.view_or_none()
    segment = None if view is None else view.active_segment
    stem = "" if segment is None else segment.name.removesuffix(".log")
    return (f"{stem}.index", f"{stem}.timeindex") if stem else ()


def _not_read(root: SourceRoot, folder: str, seen: set[str]) -> Iterator[FileRead]:
    try:
        names = sorted(
            entry.name
            for entry in root.list(folder)
            if entry.kind is EntryKind.FILE and entry.name not in seen
        )
        for name, status in root.stat_files(folder, names):
            path = root.display(f"{folder}/{name}" if folder else name)
            reason = "the check has no use for it"
            yield FileRead(path, ReadState.NOT_READ, FileStatus.of(status), reason=reason)
    except (OSError, SourceRefusedError):
        return  # a finding of the check
