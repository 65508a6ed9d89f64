"""Compressed files, tar archives and standard input as sources: unpacked into a temporary folder, removed at the end.

`payments.log.gz` opens as `payments.log` does, and `kafka.tgz` as the log dirs or the partition in it. The folder is
in $TMPDIR; other processes see that it is in use by its lock, and remove it if its process was killed.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import IO, Any, NamedTuple, cast

from engine.budgets import MiB
from engine.errors import SourceError, SourceRefusedError
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.log_dirs_below import log_dirs_below
from engine.log.source_identity import identify, readable
from kafkafs.unpacked_folders import new_folder, remove
from kafkafs.zstd_stream import ZstdError, ZstdReader

STANDARD_INPUT = "-"
MOST_FILES = 1_000_000
"""Files in an archive at most."""
_PIECE = MiB
_LEFT_FREE = 256 * MiB
"""Bytes that stay free on the disk of the temporary folder."""
_HEAD, _TAIL = 512, 1024
_GZIP, _ZSTD, _TAR, _TAR_AT = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"ustar", 257
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, ZstdError, tarfile.TarError)


class _Known(NamedTuple):
    paths: list[str]
    damage: str | None


class _State:
    """What this process unpacked, by the identity of the file."""

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], _Known] = {}
        self.is_damaged = False


_STATE = _State()


def was_damaged() -> bool:
    """Return whether an archive that this process unpacked was damaged, so that a part of it is missing."""
    return _STATE.is_damaged


def unpacked(paths: Iterable[str], tell: Callable[[str], object]) -> list[str]:
    """Return paths of sources, with those of their content in place of compressed files, archives and "-".

    Args:
        paths: paths of sources.
        tell: called with a sentence about a damaged archive, the readable part of which is returned.

    Raises:
        SourceError: there is no room, an archive holds nothing of Kafka's, or all of it is unreadable.
    """
    found: list[str] = []
    for path in paths:
        known = _unpacked(path)
        if known is None:
            found.append(path)
            continue
        found += known.paths
        if known.damage is not None:
            _STATE.is_damaged = True
            tell(known.damage)
    return found


def _unpacked(path: str) -> _Known | None:
    if path == STANDARD_INPUT:
        key: tuple[object, ...] = (STANDARD_INPUT,)
        if key not in _STATE.known:
            _STATE.known[key] = _unpack(
                io.BufferedReader(_Pipe(), _PIECE), "standard input", "", "stdin.log"
            )
        return _STATE.known[key]
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if key in _STATE.known:
        return _STATE.known[key]
    folder, name = os.path.split(os.path.realpath(path))
    with ExitStack() as stack:
        try:
            file = stack.enter_context(stack.enter_context(SourceRoot(folder)).open_fresh(name))
            if not _is_packed(file.read_at(0, _HEAD)):
                return None
        except (OSError, SourceRefusedError):  # the command itself says why
            return None
        with readable(path):
            stream = io.BufferedReader(_Positioned(file), _PIECE)
            _STATE.known[key] = _unpack(stream, path, os.path.basename(folder), name)
    return _STATE.known[key]


def _is_packed(head: bytes) -> bool:
    return head.startswith((_GZIP, _ZSTD)) or _is_tar(head)


def _is_tar(head: bytes) -> bool:
    return head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR


class _Positioned(io.RawIOBase):
    """A source file as a stream."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        got = self._file.read_into(memoryview(cast("bytearray", buffer)), self._position)
        self._position += got
        return got


class _Content(io.RawIOBase):
    """What a stream holds, up to its damage, which looks like its end.

    Attributes:
        error: the damage; None so far without.
        tail: the last bytes.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.error: Exception | None = None
        self.tail = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        if self.error is not None:
            return 0
        try:
            data = self._read(len(view))
        except _BROKEN as error:
            self.error = error
            return 0
        view[: len(data)] = data
        self.tail = (self.tail + data[-_TAIL:])[-_TAIL:]
        return len(data)


class _Pipe(io.RawIOBase):
    """Standard input, whatever the interpreter made of it."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        return os.readv(0, [memoryview(cast("bytearray", buffer))])


def _unpack(packed: io.BufferedReader[Any], shown: str, folder: str, name: str) -> _Known:
    """Unpack a stream into a new temporary folder; return the paths of the sources in it."""
    target = new_folder()
    content = _content_of(packed)
    stream = io.BufferedReader(content, _PIECE)
    name = _plain_name(name)
    try:
        damage: str | None = None
        top = os.path.join(target, folder or "content")
        if _is_tar(stream.peek(_HEAD)):
            top = os.path.join(
                target, name.removesuffix(".tar").removesuffix(".log").strip(".") or "archive"
            )
            damage = _extract(stream, top, shown)
            return _Known(_sources_in(top, shown, damage), damage)
        os.makedirs(top, exist_ok=True)
        path = os.path.join(top, name)
        size = _copy(stream, path)
        if content.error is not None:
            damage = _sentence(shown, content.error, f"the {size:,} bytes before it are read")
        if not size:
            raise SourceError(damage or f"{shown} is empty", hint="copy it again")
        with readable(path):
            _identified(path, shown)
        return _Known([path], damage)
    except OSError as error:
        remove(target)
        raise SourceError(
            f"{shown} cannot be unpacked: {error.strerror or error}",
            hint=f"TMPDIR names another folder than {os.path.dirname(target)}",
        ) from None
    except _BROKEN as error:
        remove(target)
        raise SourceError(
            _sentence(shown, error, "nothing of it can be read"), hint="copy it again"
        ) from None
    except BaseException:
        remove(target)
        raise


def _sentence(shown: str, error: Exception, rest: str) -> str:
    reason = str(error) or type(error).__name__
    return f"{shown} is damaged: {reason}; {rest}"


def _plain_name(name: str) -> str:
    for ending, other in ((".tgz", ".tar"), (".tzst", ".tar"), (".gz", ""), (".zst", "")):
        if name.endswith(ending):
            return name.removesuffix(ending) + other
    return name


def _content_of(packed: io.BufferedReader[Any]) -> _Content:
    """Return what a compressed stream holds; the stream itself if it is not compressed."""
    head = packed.peek(_HEAD)
    if head.startswith(_GZIP):
        return _Content(gzip.GzipFile(fileobj=packed).read1)
    if head.startswith(_ZSTD):
        return _Content(io.BufferedReader(ZstdReader(packed), _PIECE).read1)
    return _Content(packed.read1)


def _copy(stream: IO[bytes], path: str) -> int:
    """Copy a stream into a new file; return its size."""
    size = 0
    with open(path, "xb") as file:
        while data := stream.read(_PIECE):
            if size % (64 * MiB) < len(data):
                _require_room(path, len(data))
            file.write(data)
            size += len(data)
    return size


def _require_room(path: str, size: int) -> None:
    free = shutil.disk_usage(os.path.dirname(path)).free
    if free < _LEFT_FREE + size:
        raise SourceError(
            f"there is no room to unpack: {free // MiB:,} MiB are free in {tempfile.gettempdir()}",
            hint="TMPDIR names another folder",
        )


def _extract(stream: io.BufferedReader[Any], top: str, shown: str) -> str | None:
    """Write the files of an archive; return the sentence about damage that ended it early. Links are left out."""
    os.makedirs(top)
    content = cast("_Content", stream.raw)
    last = "its first entry"
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_PIECE) as archive:
            for _ in range(MOST_FILES):
                member = archive.next()
                if member is None:
                    break
                cast("Any", archive).members.clear()  # else it keeps them all
                last = member.name
                _extract_one(archive, member, top)
            else:
                raise SourceError(f"{shown} has more than {MOST_FILES:,} entries", hint="unpack it")
        while stream.read(_PIECE):  # checksums are at the end
            pass
    except _BROKEN as error:
        content.error = content.error or error
    if content.error is None and content.tail.strip(b"\0"):
        content.error = EOFError("it does not end as a tar archive does")
    if content.error is None:
        return None
    return _sentence(shown, content.error, f"what is before the damage is read, up to {last}")


def _extract_one(archive: tarfile.TarFile, member: tarfile.TarInfo, top: str) -> None:
    path = _path_below(top, member.name)
    if path is None or os.path.lexists(path):
        return
    if member.isdir():
        os.makedirs(path)
        return
    content = archive.extractfile(member) if member.isfile() else None
    if content is None:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _require_room(path, min(member.size, 1 << 40))
    try:
        _copy(content, path)
    finally:
        if os.path.exists(path):
            os.utime(path, (member.mtime, member.mtime))


def _path_below(top: str, name: str) -> str | None:
    """Return where an entry is written; None for a name that leads out of the folder."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name or not parts:
        return None
    return os.path.join(top, *parts)


def _sources_in(top: str, shown: str, damage: str | None) -> list[str]:
    """Return the sources in an unpacked archive: all of it, the log dirs in it, or its only file or folder."""
    here = top
    while True:
        try:
            identify(here, open_files=1, cross_device=False).close()
            return [here]
        except SourceError:
            pass
        if os.path.isdir(here):
            with SourceRoot(here) as root:
                below = log_dirs_below(root).paths
                if below:
                    return [root.display(each) for each in below]
        entries = os.listdir(here) if os.path.isdir(here) else []
        if len(entries) != 1:
            break
        here = os.path.join(here, entries[0])
    raise SourceError(
        damage or f"{shown} holds no log dir, partition or .log file",
        hint="see what is in it: tar -tf",
    )


def _identified(path: str, shown: str) -> None:
    try:
        identify(path, open_files=1, cross_device=False).close()
    except SourceError as error:
        reason = str(error).replace(path, shown)
        raise SourceError(f"{reason}, unpacked", hint=error.hint) from None
