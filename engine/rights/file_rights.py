"""Which files of a log dir a broker's user may not use.

What a broker does with each was found by starting 4.4.0 without the rights; see LogLoader.loadSegmentFiles,
LogManager.loadLogs and createAndValidateLogDirs in Kafka. Whatever is missing here takes the log dir offline: when the
broker starts, or when it first opens the index of a segment that it does not recover and does not append to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from engine.files.file_names import (
    BOOTSTRAP_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    SEGMENT_KINDS,
    FileKind,
    FileName,
    FileState,
    parse_file_name,
)
from engine.files.source_files import SourceRoot
from engine.rights.broker_user import (
    ACCESS_LIST,
    NO_RIGHT,
    BrokerUser,
    Right,
    owner_of,
    owner_text,
)
from engine.units import Offset

_ALL = Right.READ | Right.WRITE | Right.EXECUTE
_CHANGED = Right.READ | Right.WRITE
_OF_LOG_DIR = {
    META_PROPERTIES: Right.READ,
    RECOVERY_POINT_CHECKPOINT: Right.READ,
    LOG_START_OFFSET_CHECKPOINT: Right.READ,
    REPLICATION_OFFSET_CHECKPOINT: Right.READ,
    CLEANER_OFFSET_CHECKPOINT: Right.READ,
    BOOTSTRAP_CHECKPOINT: Right.READ,
    FileKind.LOCK.value: _CHANGED,
}
"""What a broker needs of the files of a log dir; it replaces the checkpoints by new files."""


class Denied(NamedTuple):
    """A file or folder that the user of a broker may not use.

    Attributes:
        path: as shown.
        user: name of the user.
        missing: the rights that it lacks.
        owner: owner, group and mode of the file.
        is_late: whether a broker meets this only after its start.
    """

    path: str
    user: str
    missing: Right
    owner: str
    is_late: bool = False

    @property
    def sentence(self) -> str:
        """What the user may not do, with whose the file is."""
        return f"{self.user} may not {self.missing.words} it ({self.owner})"


class WriteProblem(NamedTuple):
    """Why a broker could not write to a log dir at all, in words.

    `is_copy` if it is protected, as a copy that nobody may change.
    """

    sentence: str
    is_copy: bool


def write_problem(root: SourceRoot) -> WriteProblem | None:
    """Return why a broker could not write to a log dir; None if it could. Raises OSError."""
    numbers = root.statvfs()
    if numbers.f_flag & os.ST_RDONLY:
        return WriteProblem("mounted read-only: a broker starts only where it may write", True)
    if _is_protected(root):
        return WriteProblem("write-protected: a broker starts only where it may write", True)
    if numbers.f_blocks and not numbers.f_bavail:
        return WriteProblem("the file system is full: a broker that starts has to write", False)
    if numbers.f_files and not numbers.f_favail:
        return WriteProblem("the file system has no inode left: a broker makes new files", False)
    return None


def _is_protected(root: SourceRoot) -> bool:
    """Return whether a log dir denies its own owner to write: somebody protected it, and the files in it as well."""
    return not root.stat().st_mode & stat.S_IWUSR


def user_of_log_dir(root: SourceRoot) -> BrokerUser:
    """Return the user of the broker that runs on a log dir, else the owner of the log dir. Raises OSError."""
    pid = root.broker_pid()
    if pid:
        with suppress(OSError):
            return owner_of(os.stat(f"/proc/{pid}"))
    return owner_of(root.stat())


class FileRights:
    """Compares the rights of a user with what a broker does to the files of a log dir.

    Args:
        root: the log dir.
        user: the user. By default the one of the broker that runs, else the owner of the log dir, who does not
            need to write where the log dir is protected from that.

    Raises:
        OSError: the log dir cannot be looked at.
    """

    def __init__(self, root: SourceRoot, user: BrokerUser | None = None) -> None:
        self._root = root
        self.user = user_of_log_dir(root) if user is None else user
        self._wanted = ~Right.WRITE if user is None and _is_protected(root) else _ALL

    def log_dir(self) -> Iterator[Denied]:
        """Yield folders above the log dir that the user may not pass, then the log dir and its own files. Raises OSError."""
        if self.user.may_do_all:
            return
        above = os.path.dirname(os.path.realpath(self._root.path))
        while above != "/":
            with suppress(OSError):
                yield from self._of(above, os.stat(above), Right.EXECUTE)
            above = os.path.dirname(above)
        yield from self._folder("", _of_log_dir)

    def log(self, folder: str, recovers_from: Offset | None = 0) -> Iterator[Denied]:
        """Yield the folder of a log, relative to the log dir, and the files in it. Raises OSError.

        Args:
            folder: the folder.
            recovers_from: the recovery point after a crash; None after a clean stop.
        """
        if self.user.may_do_all:
            return
        first: Offset | None = None
        for denied in self._folder(folder, _of_log):
            base = _base_of_index(denied.path) if denied.missing is Right.WRITE else None
            if base is not None:
                if first is None:
                    first = self._first_opened(folder, recovers_from)
                denied = denied._replace(is_late=base < first)
            yield denied

    def _first_opened(self, folder: str, recovers_from: Offset | None) -> Offset:
        """Return the base offset of the first segment whose indexes a broker opens when it loads the log."""
        names, _ = self._root.list_apart(folder)
        bases = [int(name[:20]) for name in names if _is_live(parse_file_name(name), FileKind.LOG)]
        if recovers_from is None:
            return max(bases, default=0)
        return max((base for base in bases if base <= recovers_from), default=0)

    def _folder(self, folder: str, needed: Callable[[str], Right]) -> Iterator[Denied]:
        yield from self._of(self._root.display(folder), self._root.stat(folder), _ALL)
        names, _ = self._root.list_apart(folder)
        for name, status in self._root.stat_files(folder, names):
            if stat.S_ISREG(status.st_mode):
                path = self._root.display(f"{folder}/{name}" if folder else name)
                yield from self._of(path, status, needed(name))

    def _of(self, path: str, status: os.stat_result, wanted: Right) -> Iterator[Denied]:
        wanted &= self._wanted
        missing = self.user.missing(status, wanted, partial(_access_list, path))
        if missing:
            yield Denied(path, self.user.name, missing, owner_text(status))


def _is_live(parsed: FileName | None, *kinds: FileKind) -> bool:
    return parsed is not None and parsed.kind in kinds and parsed.state is FileState.LIVE


def _base_of_index(path: str) -> Offset | None:
    """Return the base offset of a segment whose offset or time index a file is; None for other files."""
    parsed = parse_file_name(os.path.basename(path))
    is_index = _is_live(parsed, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
    return parsed.base_offset if is_index and parsed is not None else None


def _of_log(name: str) -> Right:
    """Return what a broker needs of a file in a log's folder: it opens those of segments to write, and looks at all."""
    return _CHANGED if _is_live(parse_file_name(name), *SEGMENT_KINDS) else Right.READ


def _of_log_dir(name: str) -> Right:
    return _OF_LOG_DIR.get(name, NO_RIGHT)


def _access_list(path: str) -> bytes:
    try:
        return os.getxattr(path, ACCESS_LIST, follow_symlinks=False)
    except OSError:
        return b""
