"""The answer to a request that failed: an errno for the caller, a line for the daemon's log, a count."""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import DamagedFileError, UnreadableError
from kafkafs.fuse.daemon_log import LimitedLog
from kafkafs.fuse.errnos import SILENT, errno_of
from kafkafs.fuse.inode_table import InodeRecord, InodeTable
from kafkafs.fuse.listing import OpenDirectory
from kafkafs.fuse.open_files import OpenFile
from kafkafs.fuse.statistics import Statistics
from kafkafs.tree.errors import Cancelled

_OF_FILES = frozenset({"read", "flush", "release", "fsync"})
_OF_FOLDERS = frozenset({"readdir", "releasedir", "fsyncdir"})


class RequestErrors:
    """Answers the errors of handlers, and knows the path of a request from its arguments."""

    def __init__(
        self,
        statistics: Statistics,
        table: InodeTable,
        files: Mapping[int, OpenFile],
        directories: Mapping[int, OpenDirectory],
    ) -> None:
        self._statistics = statistics
        self._table = table
        self._files = files
        self._directories = directories
        self._log = LimitedLog()

    def answer(self, error: BaseException, operation: str, args: Sequence[Any]) -> int:
        """Return the errno for an exception raised by a handler; log it unless it is expected."""
        number = errno_of(error)
        path = self._path_of(operation, args)
        if number is None:
            self._statistics.unexpected_errors += 1
            message = f"{operation} {path}: unexpected {type(error).__name__}: {error}"
            about = f"{operation} {type(error).__name__}"
            self._log.write(logging.ERROR, message, about=about, error=error)
            return errno.EIO
        if isinstance(error, Cancelled):
            self._statistics.interrupted_calls += 1
        if isinstance(error, DamagedFileError | UnreadableError):
            self._statistics.damage_answers += 1
        if operation == "readdir" and number == errno.ENOENT:
            # glibc takes ENOENT for the end of the listing: a silent gap, which rsync --delete would copy.
            number = errno.ESTALE
        if number not in SILENT:
            self._log.write(logging.WARNING, f"{operation} {path}: {error}")
        return number

    def note_entry(self, error: BaseException, folder: InodeRecord, name: str) -> None:
        """Log and count the error of a listed entry that cannot be looked up; the listing goes on."""
        self.answer(error, "lookup", (folder.inode, name.encode(errors="backslashreplace")))

    def _path_of(self, operation: str, args: Sequence[Any]) -> str:
        """Return the path of a request, "?" for an unknown inode or handle."""
        number = args[0] if args and isinstance(args[0], int) else -1
        record: InodeRecord | None
        if operation in _OF_FILES:
            record = self._files[number].record if number in self._files else None
        elif operation in _OF_FOLDERS:
            record = self._directories[number].record if number in self._directories else None
        else:
            record = self._table.get(number)
        path = record.path if record else "?"
        if operation == "lookup":
            path += "/" + args[1].decode("utf-8", "backslashreplace")
        return path or "/"
