"""The file of `--commit-to`: a line for each commit, with a checksum; the newest line of a partition counts.

A line is the CRC-32C of a JSON object in eight hexadecimal digits, a space, the object, a newline. The first line tells
the format and whose commits these are. Lines are added, and synced to disk before the client is told; when most of them
are out of date, the file is written anew and takes the place of the old one. A line that a crash has left incomplete is
told and passed over.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.budgets import MiB
from engine.coding.checksums import crc32c
from kafkafs.serve.coordinator.commits.newest import Commit, CommitsOfGroup, Place

_FORMAT = "kafkafs commits"
_VERSION = 1
_LONGEST_HEADER = 1 * MiB
_SLACK = 1 * MiB
"""Bytes that a file may have besides twice those of its last rewriting."""


class CommitFileError(Exception):
    """The file cannot be used."""


class CommitFile:
    """An open file of commits, used by this process alone.

    Args:
        path: the file; it is made if it is not there.
        cluster_id: of the source; None if it has none.
        sources: absolute paths of the source.

    Attributes:
        commits: what was in the file, by group.
        problems: a sentence for each line that was passed over.

    Raises:
        CommitFileError: the file is in the source, in use, of another cluster, no file of commits, or cannot be
            read and written.
    """

    def __init__(self, path: str, cluster_id: str | None, sources: Sequence[str]) -> None:
        self.path = os.path.realpath(path)
        for source in sources:
            if Path(self.path).is_relative_to(os.path.realpath(source)):
                raise CommitFileError(f"{path} is inside the source {source}: choose another file")
        self._header = {
            "format": _FORMAT,
            "version": _VERSION,
            "clusterId": cluster_id,
            "source": list(sources),
        }
        self.commits: dict[str, dict[Place, Commit]] = {}
        self.problems: list[str] = []
        self._fd = -1
        self._size = self._rewritten = 0
        try:
            self._open()
        except OSError as error:
            self.close()
            raise CommitFileError(f"{self.path}: {error.strerror or error}") from None
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._fd = os.open(self.path, flags, 0o600)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            raise CommitFileError(f"{self.path} is no file")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommitFileError(f"{self.path} is in use by another kafkafs serve") from None
        status = os.fstat(self._fd)
        if status.st_ino != os.stat(self.path).st_ino:
            raise CommitFileError(f"{self.path} is in use by another kafkafs serve")
        lines = 0
        if status.st_size:
            with os.fdopen(os.dup(self._fd), "rb") as file:
                self._check_header(file.readline(_LONGEST_HEADER))
                for lines, line in enumerate(file, 1):
                    self._take(lines + 1, line)
        live = sum(map(len, self.commits.values()))
        if not status.st_size or self.problems or lines > live:
            self.rewrite(self.commits)
        else:
            self._size = self._rewritten = status.st_size

    def _check_header(self, line: bytes) -> None:
        try:
            found = _object(line)
        except ValueError:
            found = {}
        if found.get("format") != _FORMAT:
            raise CommitFileError(f"{self.path} is no file of commits: choose another one")
        if found.get("version") != _VERSION:
            raise CommitFileError(f"{self.path} has format {found.get('version')}, not {_VERSION}")
        mine, its = self._header["clusterId"], found.get("clusterId")
        if mine != its:
            raise CommitFileError(
                f"{self.path} has the commits of cluster {its}, and the source is of {mine}: choose another file"
            )
        if mine is None and found.get("source") != self._header["source"]:
            raise CommitFileError(
                f"{self.path} has the commits of {', '.join(found.get('source', ()))}: choose another file"
            )

    def _take(self, number: int, line: bytes) -> None:
        try:
            found = _object(line)
            place = (str(found["topic"]), int(found["partition"]))
            epoch, metadata = int(found["leaderEpoch"]), str(found["metadata"])
            commit = Commit(int(found["offset"]), epoch, metadata)
            self.commits.setdefault(str(found["group"]), {})[place] = commit
        except (ValueError, KeyError, TypeError) as error:
            self.problems.append(f"{self.path}: line {number} is passed over: {error}")

    @property
    def is_outdated(self) -> bool:
        """Whether most of the lines are no more the newest of their partitions."""
        return self._size > 2 * self._rewritten + _SLACK

    def append(self, items: Iterable[tuple[str, CommitsOfGroup]]) -> None:
        """Add commits by group, and wait until they are on disk.

        Raises:
            OSError: they cannot be written; the file is as before.
        """
        data = b"".join(_lines(items))
        try:
            _write(self._fd, data, self._size)
            os.fdatasync(self._fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def rewrite(self, commits: Mapping[str, CommitsOfGroup]) -> None:
        """Put a file with these commits alone in place of the present one.

        Raises:
            OSError: it cannot be written; the present one stays.
        """
        new = f"{self.path}.new"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(new, flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            data = b"".join((_line(self._header), *_lines(commits.items())))
            _write(fd, data, 0)
            os.fsync(fd)
            os.rename(new, self.path)
        except BaseException:
            os.close(fd)
            with suppress(OSError):
                os.unlink(new)
            raise
        self.close()
        self._fd, self._size, self._rewritten = fd, len(data), len(data)
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lines(items: Iterable[tuple[str, CommitsOfGroup]]) -> Iterator[bytes]:
    for group, commits in items:
        for (topic, partition), commit in commits.items():
            yield _line(
                {
                    "group": group,
                    "topic": topic,
                    "partition": partition,
                    "offset": commit.offset,
                    "leaderEpoch": commit.leader_epoch,
                    "metadata": commit.metadata,
                }
            )


def _line(fields: Mapping[str, Any]) -> bytes:
    text = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def _object(line: bytes) -> dict[str, Any]:
    """Return the object of a line.

    Raises:
        ValueError: the line is incomplete or damaged.
    """
    if not line.endswith(b"\n"):
        raise ValueError("it has no end")
    checksum, _, text = line[:-1].partition(b" ")
    if checksum != b"%08x" % crc32c(text):
        raise ValueError("its checksum is wrong")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is no object")  # as every line that is not as it should be
    return found


def _write(fd: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, position)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view, position = view[written:], position + written
