"""Base classes of the tree: folders, files and links with their attributes and bytes, free of FUSE.

A node is cheap and holds no file descriptor: it may be created for one question and dropped. It answers from the
log's state at that moment. `open` returns a Content: bytes by position, for one reader. All classes are
thread-safe.
"""

from __future__ import annotations

import stat
from abc import abstractmethod
from collections.abc import Callable, Iterator
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from engine.errors import UnreadableError

Cancel: TypeAlias = Callable[[], bool]
"""Polled during long work; returning True ends the work with `Cancelled`."""

ROOT_INODE = 1
MAX_MTIME_NS = 2**63 - 1
_MAX_MTIME_MS = MAX_MTIME_NS // 1_000_000

_CHUNK = 1 << 20


class Kind(IntEnum):
    """Type of a node."""

    DIRECTORY = 0
    FILE = 1
    LINK = 2


FILE_TYPES = {Kind.DIRECTORY: stat.S_IFDIR, Kind.FILE: stat.S_IFREG, Kind.LINK: stat.S_IFLNK}
"""The bits of st_mode for each type of node."""


class Attrs(NamedTuple):
    """Attributes for stat.

    `mode` has permission bits only. `size` is in bytes; if not `exact` it is an estimate, which is zero only for an
    empty file. `ttl` is the number of seconds for which the answer may be cached.
    """

    kind: Kind
    mode: int
    size: int
    mtime_ns: int
    inode: int
    nlink: int
    uid: int
    gid: int
    exact: bool
    ttl: float


class Entry(NamedTuple):
    """A name in a folder. `cookie` is above 2 and grows along the listing; a listing can continue after it."""

    name: str
    kind: Kind
    inode: int
    cookie: int


def inode_number(path: str) -> int:
    """Return the permanent number of a path of the tree: 63 bits of its hash, never 0."""
    if not path:
        return ROOT_INODE
    digest = blake2b(path.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    number = int.from_bytes(digest, "little") >> 1
    return number if number > ROOT_INODE else number + 2


def mtime_of(timestamp: int) -> int:
    """Convert a record's timestamp in ms to a file time in ns, within the range of stat."""
    if 0 <= timestamp <= _MAX_MTIME_MS:
        return timestamp * 1_000_000
    return 0 if timestamp < 0 else MAX_MTIME_NS


class Node:
    """A node of the tree. `path` is relative to the root, without a leading slash; "" is the root."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def inode(self) -> int:
        """Inode number, a function of the path alone."""
        return inode_number(self.path)

    @abstractmethod
    def attrs(self) -> Attrs:
        """Return the attributes as of now. Raises NotFound if the node no longer exists."""

    def xattrs(self) -> dict[str, bytes]:
        """Return the extended attributes by full name (`user.kafka.…`)."""
        return {}


class Directory(Node):
    """A folder. Every listed name can be looked up; not every name that can be looked up is listed."""

    __slots__ = ()

    @property
    def slow(self) -> bool:
        """Whether a look-up, a child's attributes or the listing may take more than a millisecond now."""
        return False

    @abstractmethod
    def lookup(self, name: str) -> Node:
        """Return the node of a name. Decodes at most one batch. Raises NotFound."""

    @abstractmethod
    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Yield the entries after cookie `after` (0: all), without "." and ".."."""

    def child(self, name: str) -> str:
        """Return the path of a name in this folder."""
        return f"{self.path}/{name}" if self.path else name


class Content:
    """Bytes of an open file.

    `size` may grow while the content is open (a log that is being written). It never shrinks, and bytes that were
    read never change.

    Attributes:
        identity: two contents of one path with equal identity have equal bytes.
    """

    __slots__ = ("identity",)

    identity: int

    @property
    def lineage(self) -> int:
        """Two contents of one path with equal lineage have equal bytes, as far as both reach."""
        return self.identity

    @property
    @abstractmethod
    def size(self) -> int:
        """Current length in bytes, exact."""

    @abstractmethod
    def read_now(self, position: int, size: int) -> bytes | memoryview | None:
        """Like `read`, but return None if it would block or decode. A memoryview is valid until the thread's next call."""

    def notify(self, position: int, size: int, callback: Callable[[], object]) -> bool:
        """Call `callback`, from any thread, when `read_now` is worth another try. Return False if it never will be.

        To call after `read_now` returned None, and before `read`: another thread may be making these bytes.
        """
        return False

    @abstractmethod
    def read(self, position: int, size: int) -> bytes:
        """Return the bytes [position, position + size), as far as they exist. May take long.

        Raises DamagedFileError, OSError.
        """

    @property
    def in_memory(self) -> bytes | None:
        """All bytes, if they are in memory and their size never changes."""
        return None

    @property
    def has_unreadable(self) -> bool:
        """Whether some of the bytes are known to be unreadable."""
        return False

    def read_up_to_unreadable(self, position: int, size: int) -> bytes:
        """Like `read`, but return only the bytes before the first unreadable one."""
        return self.read(position, size)

    def unreadable_end(self, error: UnreadableError) -> int:
        """Return the position after the unreadable bytes of an error; `size` if there is none."""
        return self.size

    def close(self) -> None:
        """Release the content. A second call does nothing."""


class File(Node):
    """A file. If `slow`, `open` may take more than a millisecond.

    Attributes:
        has_error_lines: whether damaged or unreadable records appear as a line {"error": ...}; `chunks` then yields
            each such line in one piece.
    """

    __slots__ = ()

    slow: bool = False
    has_error_lines: bool = False

    @abstractmethod
    def open(self, cancel: Cancel | None = None) -> Content:
        """Open the file. From then on the size in `attrs` is exact.

        Raises Cancelled, NotFound, DamagedFileError, UnsupportedCodecError, OSError.
        """

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes from start to end: those of `open` and `read`, but cheaper where the size is not needed.

        Raises what `open` raises.
        """
        content = self.open()
        try:
            position = 0
            while data := content.read_up_to_unreadable(position, _CHUNK):
                yield data
                position += len(data)
        finally:
            content.close()


class Link(Node):
    """A symbolic link to another node of the tree. If `slow`, the target may take more than a millisecond."""

    __slots__ = ()

    slow: bool = False

    @property
    @abstractmethod
    def target(self) -> str:
        """The target, relative to the link's folder. Raises as `find`."""

    def find(self, cancel: Cancel | None = None) -> str:
        """Return the target. Raises Cancelled, NotFound, DamagedFileError, OSError where it has to be searched for."""
        return self.target
