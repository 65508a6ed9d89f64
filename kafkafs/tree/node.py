"""What the tree is made of: folders, files and links, with their attributes and bytes, free of FUSE.

A node is cheap and holds no descriptor: it may be made for one question and thrown away. What it answers
is the state of the log at that moment. A Content is what `open` gives: bytes by position, in the hands of
one reader. All of it may be used from several threads at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from engine.errors import UnreadableError

Cancel: TypeAlias = Callable[[], bool]
"""Asked now and then during long work; True ends it with `Cancelled`."""

ROOT_INODE = 1
MAX_MTIME_NS = 2**63 - 1

_CHUNK = 1 << 20


class Kind(IntEnum):
    """What a node is."""

    DIRECTORY = 0
    FILE = 1
    LINK = 2


class Attrs(NamedTuple):
    """What stat tells.

    `mode` is permission bits only; `size` is in bytes and, where not `exact`, a guess that is zero only for
    a file that is empty; `ttl` is how many seconds the answer may be kept.
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
    """A name in a folder; a listing goes on after `cookie`, which is above 2 and grows along the listing."""

    name: str
    kind: Kind
    inode: int
    cookie: int


def inode_number(path: str) -> int:
    """A number for a path of the tree that stays the same for ever: 63 bits of its hash, never 0."""
    if not path:
        return ROOT_INODE
    digest = blake2b(path.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    number = int.from_bytes(digest, "little") >> 1
    return number if number > ROOT_INODE else number + 2


def mtime_of(timestamp: int) -> int:
    """A record's timestamp in ms as a file time in ns, kept within what stat can hold."""
    return min(max(timestamp, 0) * 1_000_000, MAX_MTIME_NS)


class Node:
    """A place in the tree; `path` is from the root, without a slash in front, "" for the root."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def inode(self) -> int:
        """The inode number, a function of the path alone."""
        return inode_number(self.path)

    @abstractmethod
    def attrs(self) -> Attrs:
        """What stat tells now. Raises NotFound when the thing has gone."""

    def xattrs(self) -> dict[str, bytes]:
        """Extended attributes by full name (`user.kafka.…`)."""
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
        """The node of a name. Never decodes more than a batch. Raises NotFound."""

    @abstractmethod
    def entries(self, after: int = 0) -> Iterator[Entry]:
        """The listing behind cookie `after`, 0 for all of it; "." and ".." are not in it."""

    def child(self, name: str) -> str:
        """The path of a name in this folder."""
        return f"{self.path}/{name}" if self.path else name


class Content:
    """An open file's bytes.

    Attributes:
        identity: equal numbers of two contents of one path mean equal bytes.

    `size` may grow while the content is open (a log that is being written), never shrink, and bytes that
    were shown stay.
    """

    __slots__ = ("identity",)

    identity: int

    @property
    def lineage(self) -> int:
        """Equal numbers of two contents of one path mean equal bytes as far as both reach."""
        return self.identity

    @property
    @abstractmethod
    def size(self) -> int:
        """The length in bytes now, exact."""

    @abstractmethod
    def read_now(self, offset: int, size: int) -> bytes | None:
        """As `read` if that takes no waiting and no decoding, else None."""

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes:
        """The bytes [offset, offset + size) as far as they are there; may take long.

        Raises DamagedFileError, OSError.
        """

    @property
    def has_gaps(self) -> bool:
        """Whether some of the bytes are known to be unreadable."""
        return False

    def read_up_to_gap(self, offset: int, size: int) -> bytes:
        """As `read`, but only the bytes before the first that cannot be read, if there are any."""
        return self.read(offset, size)

    def gap_end(self, error: UnreadableError) -> int:
        """Where to go on reading behind the bytes that an error names; `size` when there is no such place."""
        return self.size

    def close(self) -> None:
        """End the use; a second call does nothing."""


class File(Node):
    """A file; `slow` says that `open` may take more than a millisecond.

    Attributes:
        has_error_lines: whether a line {"error": ...} stands in it for records that are damaged or cannot be read;
            `chunks` then gives each such line in one piece.
    """

    __slots__ = ()

    slow: bool = False
    has_error_lines: bool = False

    @abstractmethod
    def open(self, cancel: Cancel | None = None) -> Content:
        """The bytes; from here on the size in `attrs` is exact.

        Raises Cancelled, NotFound, DamagedFileError, UnsupportedCodecError, OSError.
        """

    def chunks(self) -> Iterator[bytes]:
        """The bytes from front to end, once; what `open` and `read` give, where that is cheaper without a size.

        Raises what `open` raises.
        """
        content = self.open()
        try:
            position = 0
            while data := content.read_up_to_gap(position, _CHUNK):
                yield data
                position += len(data)
        finally:
            content.close()


class Link(Node):
    """A symbolic link to another place in the tree."""

    __slots__ = ("target",)

    def __init__(self, path: str, target: str) -> None:
        super().__init__(path)
        self.target = target
