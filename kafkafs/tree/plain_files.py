"""Files with bytes in memory or computed on opening, files that cannot be read, and links."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from kafkafs.tree.content import BytesContent
from kafkafs.tree.node import Attrs, Cancel, Content, File, Link
from kafkafs.tree.owner import Owner


class BytesFile(File):
    """A file of bytes in memory."""

    __slots__ = ("_data", "_mtime_ns", "_owner", "_ttl", "_xattrs")

    def __init__(
        self,
        path: str,
        data: bytes,
        owner: Owner,
        *,
        mtime_ns: int,
        ttl: float,
        xattrs: dict[str, bytes] | None = None,
    ) -> None:
        super().__init__(path)
        self._data = data
        self._owner = owner
        self._mtime_ns = mtime_ns
        self._ttl = ttl
        self._xattrs = xattrs

    def attrs(self) -> Attrs:
        return self._owner.file(self.path, len(self._data), self._mtime_ns, self._ttl)

    def xattrs(self) -> dict[str, bytes]:
        return self._xattrs or {}

    def open(self, cancel: Cancel | None = None) -> Content:
        return BytesContent(self._data)


class Memo:
    """The last bytes computed for each path, with their version. Bounded in bytes, thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._made: OrderedDict[str, tuple[object, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> tuple[object, bytes] | None:
        """Return the version and the bytes, or None."""
        return self._made.get(path)

    def keep(self, path: str, version: object, data: bytes) -> None:
        """Store the bytes of a path; drop the oldest entries above the bound."""
        with self._lock:
            old = self._made.pop(path, None)
            self._bytes += len(data) - (0 if old is None else len(old[1]))
            self._made[path] = version, data
            while self._bytes > self._max_bytes:
                _, (_, dropped) = self._made.popitem(last=False)
                self._bytes -= len(dropped)


class MadeFile(File):
    """A file computed when it is opened. Computing may be slow, so the bytes are kept.

    Args:
        make: returns the bytes.
        memo: where the bytes are kept; once they are, the size is exact.
        version: bytes computed for an equal version are still valid.
    """

    __slots__ = ("_make", "_memo", "_owner", "_ttl", "_version")

    slow = True

    GUESS = 1024

    def __init__(
        self,
        path: str,
        make: Callable[[Cancel | None], bytes],
        owner: Owner,
        *,
        ttl: float,
        memo: Memo,
        version: object,
    ) -> None:
        super().__init__(path)
        self._make = make
        self._owner = owner
        self._ttl = ttl
        self._memo = memo
        self._version = version

    def attrs(self) -> Attrs:
        known = self._memo.get(self.path)
        exact = known is not None and known[0] == self._version
        size = self.GUESS if known is None else len(known[1])
        return self._owner.file(self.path, size, self._owner.mtime_ns, self._ttl, exact=exact)

    def open(self, cancel: Cancel | None = None) -> Content:
        known = self._memo.get(self.path)
        if known is not None and known[0] == self._version:
            return BytesContent(known[1])
        data = self._make(cancel)
        self._memo.keep(self.path, self._version, data)
        return BytesContent(data)


class FailingFile(File):
    """A file that exists but cannot be read: opening it raises `error`.

    Its size is estimated as 1: with a size of 0 a copy would look complete.
    """

    __slots__ = ("_error", "_owner", "_ttl", "_xattrs")

    def __init__(
        self, path: str, error: Exception, owner: Owner, *, ttl: float, xattrs: dict[str, bytes]
    ) -> None:
        super().__init__(path)
        self._error = error
        self._owner = owner
        self._ttl = ttl
        self._xattrs = xattrs

    def attrs(self) -> Attrs:
        return self._owner.file(self.path, 1, self._owner.mtime_ns, self._ttl, exact=False)

    def xattrs(self) -> dict[str, bytes]:
        return self._xattrs

    def open(self, cancel: Cancel | None = None) -> Content:
        raise self._error


class PlainLink(Link):
    """A link to another node of the tree."""

    __slots__ = ("_mtime_ns", "_owner", "_target", "_ttl")

    def __init__(self, path: str, target: str, owner: Owner, *, mtime_ns: int, ttl: float) -> None:
        super().__init__(path)
        self._target = target
        self._owner = owner
        self._mtime_ns = mtime_ns
        self._ttl = ttl

    @property
    def target(self) -> str:
        return self._target

    def attrs(self) -> Attrs:
        return self._owner.link(self.path, self._target, self._mtime_ns, self._ttl)
