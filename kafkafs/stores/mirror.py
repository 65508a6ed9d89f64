"""Object stores as sources: a private folder that shows the objects, whose bytes are fetched when they are read.

`mirrored` returns the folder in place of a URL. All readers of a process, and of those forked from it, share it; it is
removed when the last one ends. One more process fetches, see `fetching`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import warnings
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, cast
from urllib.parse import urlsplit

from engine.budgets import MiB
from engine.errors import STORE_FAILURES, SourceError
from engine.files.stored_file import StoredFile
from engine.files.stores import STORES, File, MirroredRoot
from kafkafs.stores.mirror_folder import BYTES, OBJECTS, PIECE, PIECES, SOCKET, pieces_of
from kafkafs.stores.store_options import (
    StoreOptions,
    checked_url,
    given_options,
    is_store,
    parse_options,
)
from kafkafs.unpacked_folders import new_folder, remove

_MOST_AHEAD = 64 * MiB
_WAYS_OUT = {
    errno.EKEYREJECTED: "the credentials need the rights to list the bucket and to get objects",
    errno.ENOLINK: "check the network and --store-option endpoint=URL",
    errno.ECOMM: "check the bucket, its region and --store-option endpoint=URL",
    errno.EUSERS: "run the command again later",
    errno.ENOMEDIUM: "check the bucket and the prefix",
}


class StoreMirror:
    """The folder that shows the objects of one URL.

    Attributes:
        folder: path of the folder with the bucket's folder in it.
        url: what stands for the folder in URLs.
    """

    def __init__(self, url: str, target: str) -> None:
        self.folder = f"{target}/tree"
        self.url = f"{urlsplit(url).scheme}:/"
        self._target = target
        table = array("Q")
        with open(f"{target}/{OBJECTS}", "rb") as file:
            table.frombytes(file.read())
        inodes, bases = table[::2], table[1::2]
        self._numbers = dict(zip(inodes, range(len(inodes)), strict=True))
        self._bases = bases
        self._opened: _OpenMirror | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._opened = None  # a daemon closes what it does not know

    @property
    def _handles(self) -> _OpenMirror:
        if self._opened is None:
            self._opened = _OpenMirror(self._target)
        return self._opened

    def opened(self, root: MirroredRoot, file: File) -> File:
        """Return a file with the bytes of the object, in place of one of the folder. Raises OSError."""
        status = file.opened_as
        stored = MirroredObject(self, root, self._numbers[status.st_ino], status.st_size)
        return cast("File", StoredFile(stored, file.path, status))

    def open_bytes(self, number: int) -> int:
        """Return a descriptor of an object's private file, which stays while it is open. Raises OSError."""
        path = f"{self._target}/{BYTES}/{number}"
        while True:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                self._handles.ask(f"{number} 0 0 0")
                continue
            fcntl.flock(fd, fcntl.LOCK_SH)
            if os.fstat(fd).st_nlink:
                return fd
            os.close(fd)  # it was removed to make room

    def has(self, number: int, start: int, end: int) -> bool:
        """Return whether the pieces of [start, end) are there."""
        first = start // PIECE
        count = pieces_of(end) - first
        there = os.pread(self._handles.pieces, count, self._bases[number] + first)
        return b"\0" not in there and len(there) == count

    def missing(self, number: int, start: int, end: int) -> tuple[int, int]:
        """Return the first and the following piece of the first ones of [start, end) that are not there."""
        first, base = start // PIECE, self._bases[number]
        there = os.pread(self._handles.pieces, pieces_of(end) - first, base + first)
        place = max(there.find(b"\0"), 0)
        after = there.find(b"\1", place)
        return first + place, first + (len(there) if after < 0 else after)

    def fetch(self, number: int, start: int, end: int, ahead: int) -> bool:
        """Fetch pieces; return whether the private files take more room than they may. Raises OSError."""
        return self._handles.ask(f"{number} {start} {end} {ahead}") == "full"


class _OpenMirror:
    """What one process has open."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.pieces = os.open(f"{target}/{PIECES}", os.O_RDONLY | os.O_CLOEXEC)
        self._lines = threading.local()

    def ask(self, request: str) -> str:
        """Return the answer to a request. Raises OSError."""
        try:
            line: IO[bytes] | None = getattr(self._lines, "line", None)
            if line is None:
                line = self._lines.line = self._connected()
            line.write(f"{request}\n".encode())
            line.flush()
            answer = line.readline().decode().rstrip("\n")
        except OSError:
            answer = ""
        if not answer:
            self._lines.line = None
            raise OSError(errno.ENOLINK, STORE_FAILURES[errno.ENOLINK])
        number, _, text = answer.partition(" ")
        if number.isdigit():
            raise OSError(int(number), text)
        return answer

    def _connected(self) -> IO[bytes]:
        # By a descriptor, as the path of a socket may have 107 bytes only.
        folder = os.open(self._target, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(f"/proc/self/fd/{folder}/{SOCKET}")
                return cast("IO[bytes]", client.makefile("rwb"))
        finally:
            os.close(folder)


class MirroredObject:
    """The bytes of one object in its private file.

    Attributes:
        descriptor: of the private file.
    """

    __slots__ = (
        "_ahead",
        "_is_whole",
        "_mirror",
        "_next",
        "_number",
        "_requested",
        "_root",
        "_size",
        "descriptor",
    )

    def __init__(self, mirror: StoreMirror, root: MirroredRoot, number: int, size: int) -> None:
        self.descriptor = mirror.open_bytes(number)
        self._mirror = mirror
        self._root = root
        self._number = number
        self._size = size
        self._is_whole = False
        self._next = self._requested = self._ahead = 0

    def fetch(self, start: int, end: int) -> None:
        """Have [start, end) in the private file, and read ahead of one who reads in order. Raises OSError."""
        if self._is_whole:
            return
        ahead = 0
        if start == self._next and start:
            self._ahead = min(max(2 * self._ahead, 4 * (end - start)), _MOST_AHEAD)
            ahead = end + self._ahead
        elif not self._next <= end <= self._next + PIECE:
            self._ahead = self._requested = 0
        self._next = end
        is_there = self._mirror.has(self._number, start, end)
        if is_there and (ahead <= end or self._requested - end > self._ahead // 2):
            return
        is_full = self._mirror.fetch(self._number, start, end, ahead)
        self._requested = max(ahead, end)
        if is_full:
            self._root.free_descriptors()
        self._is_whole = start == 0 and end == self._size

    def missing(self, start: int, end: int) -> tuple[int, int]:
        """Return start and end of the first bytes that are not there of those around [start, end)."""
        first, after = self._mirror.missing(self._number, start, end)
        return first * PIECE, min(after * PIECE, self._size)


class _State:
    """The URLs that this process has mirrored."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.lock = threading.Lock()


_STATE = _State()


def mirrored(path: str) -> str:
    """Return the folder or file that shows what a store's URL names; another path as it is.

    Raises:
        SourceError: the store cannot be listed, or has nothing there.
    """
    if not is_store(path):
        return path
    url = checked_url(path)
    with _STATE.lock:
        for known, local in _STATE.known.items():
            if f"{url}/".startswith(f"{known}/"):
                return local + url.removeprefix(known)
        _STATE.known[url] = _mirror(url, parse_options(given_options()))
        return _STATE.known[url]


def _mirror(url: str, options: StoreOptions) -> str:
    target = new_folder()
    try:
        facts = _started(target, url, options)
        if "error" in facts:
            hint = facts.get("hint") or _WAYS_OUT.get(facts.get("errno", 0), "")
            raise SourceError(facts["error"], hint=hint)
        STORES.mirrors.append(StoreMirror(url, target))
    except BaseException:
        with suppress(OSError):
            remove(target)
        raise
    if facts["left_out"]:
        warnings.warn(
            f"{url}: {facts['left_out']:,} objects have keys that no file can have; they are not read",
            stacklevel=2,
        )
    parts = urlsplit(url)
    return f"{target}/tree/{parts.netloc}{parts.path}"


def _started(target: str, url: str, options: StoreOptions) -> dict[str, Any]:
    """Start the process that fetches; return what it says of the listing."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths: Sequence[str] = [top, *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkafs.stores.fetching", target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout, suppress(BrokenPipeError):
        process.stdin.write(json.dumps({"url": url, "options": options._asdict()}).encode())
        process.stdin.close()
        process.wait()
        line = process.stdout.readline()
    if not line:
        raise SourceError(f"{url} cannot be listed: the process that fetches has ended")
    found: dict[str, Any] = json.loads(line)
    return found
