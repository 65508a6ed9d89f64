"""A tree in memory with one node of each kind that the adapter treats differently."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from engine.errors import CorruptRecordError, UnsupportedCodecError
from kafkafs.tree.content import BytesContent
from kafkafs.tree.errors import Cancelled, NotFound
from kafkafs.tree.node import Attrs, Cancel, Content, Directory, Entry, File, Kind, Link, Node

if TYPE_CHECKING:
    from kafkafs.tree.context import StatusProvider

MTIME_NS = 1_700_000_000_123_456_789


def attrs_of(node: Node, kind: Kind, size: int, *, exact: bool = True, ttl: float = 1.0) -> Attrs:
    mode = 0o555 if kind is Kind.DIRECTORY else 0o777 if kind is Kind.LINK else 0o444
    return Attrs(kind, mode, size, MTIME_NS, node.inode, 1, 0, 0, exact, ttl)


class Bytes(File):
    """A file whose size is known."""

    __slots__ = ("data", "ttl")

    def __init__(self, path: str, data: bytes, ttl: float = 1.0) -> None:
        super().__init__(path)
        self.data = data
        self.ttl = ttl

    def attrs(self) -> Attrs:
        return attrs_of(self, Kind.FILE, len(self.data), ttl=self.ttl)

    def xattrs(self) -> dict[str, bytes]:
        return {"user.kafka.offset": b"35", "user.kafka.large": bytes(70_000)}

    def open(self, cancel: Cancel | None = None) -> Content:
        return BytesContent(self.data)


class Guessed(Bytes):
    """A file whose size is a guess until it is opened, and whose bytes come from a thread."""

    __slots__ = ("opened", "wait")

    slow = True

    def __init__(self, path: str, data: bytes, *, wait: float = 0.0) -> None:
        super().__init__(path, data)
        self.wait = wait
        self.opened = False

    def attrs(self) -> Attrs:
        if self.opened:
            return attrs_of(self, Kind.FILE, len(self.data))
        return attrs_of(self, Kind.FILE, len(self.data) * 2 or 1, exact=False)

    def open(self, cancel: Cancel | None = None) -> Content:
        end = time.monotonic() + self.wait
        while time.monotonic() < end:
            if cancel is not None and cancel():
                raise Cancelled
            time.sleep(0.01)
        self.opened = True
        return _Threaded(self.data)


class _Threaded(BytesContent):
    __slots__ = ()

    @property
    def in_memory(self) -> None:  # type: ignore[override]
        return None

    def read_now(self, offset: int, size: int) -> None:  # type: ignore[override]
        return None

    def read(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


class SlowRead(Bytes):
    """A file whose first read takes `wait` seconds."""

    __slots__ = ("wait",)

    def __init__(self, path: str, data: bytes, wait: float) -> None:
        super().__init__(path, data)
        self.wait = wait

    def open(self, cancel: Cancel | None = None) -> Content:
        content = _Sleepy(self.data)
        content.wait = self.wait
        return content


class _Sleepy(_Threaded):
    __slots__ = ("wait",)
    wait: float

    def read(self, offset: int, size: int) -> bytes:
        time.sleep(self.wait)
        return super().read(offset, size)


class Growing(Bytes):
    """A file that others append to; what was opened follows."""

    __slots__ = ()

    def attrs(self) -> Attrs:
        return attrs_of(self, Kind.FILE, len(self.data), ttl=0.2)

    def open(self, cancel: Cancel | None = None) -> Content:
        return _Following(self)


class _Following(Content):
    __slots__ = ("_file",)

    def __init__(self, file: Growing) -> None:
        self._file = file
        self.identity = hash(file.data)

    @property
    def lineage(self) -> int:
        return hash(self._file.path)

    @property
    def size(self) -> int:
        return len(self._file.data)

    def read_now(self, offset: int, size: int) -> bytes:
        return self._file.data[offset : offset + size]

    read = read_now


class Failing(Bytes):
    """A file that raises `error` at one of: attrs, open, read_now, read, xattrs; or answers rubbish."""

    __slots__ = ("at", "error")

    def __init__(self, path: str, at: str, error: BaseException | object) -> None:
        super().__init__(path, b"never seen")
        self.at = at
        self.error = error

    def fail(self) -> object:
        if isinstance(self.error, BaseException):
            raise self.error
        return self.error

    def attrs(self) -> Attrs:
        return self.fail() if self.at == "attrs" else super().attrs()  # type: ignore[return-value]

    def xattrs(self) -> dict[str, bytes]:
        return self.fail() if self.at == "xattrs" else super().xattrs()  # type: ignore[return-value]

    def open(self, cancel: Cancel | None = None) -> Content:
        if self.at == "open":
            return self.fail()  # type: ignore[return-value]
        return _FailingContent(self)


class _FailingContent(Content):
    __slots__ = ("_file",)

    def __init__(self, file: Failing) -> None:
        self._file = file
        self.identity = 1

    @property
    def size(self) -> int:
        return len(self._file.data)

    def read_now(self, offset: int, size: int) -> bytes | None:
        return self._file.fail() if self._file.at == "read_now" else None  # type: ignore[return-value]

    def read(self, offset: int, size: int) -> bytes:
        return self._file.fail()  # type: ignore[return-value]

    def close(self) -> None:
        if self._file.at == "close":
            self._file.fail()


class Folder(Directory):
    """A folder of fixed children; `on_lookup` sees each name first."""

    __slots__ = ("children", "on_lookup")

    def __init__(self, path: str, children: list[Node]) -> None:
        super().__init__(path)
        self.children = {node.path.rpartition("/")[2]: node for node in children}
        self.on_lookup: Callable[[str], None] | None = None

    def attrs(self) -> Attrs:
        return attrs_of(self, Kind.DIRECTORY, 0)

    def lookup(self, name: str) -> Node:
        if self.on_lookup is not None:
            self.on_lookup(name)
        try:
            return self.children[name]
        except KeyError:
            raise NotFound(self.child(name)) from None

    def entries(self, after: int = 0) -> Iterator[Entry]:
        for cookie, (name, node) in enumerate(self.children.items(), start=3):
            if cookie > after:
                yield Entry(name, kind_of(node), node.inode, cookie)


class Numbers(Directory):
    """A folder of the numbers below `count`, made up as they are asked for; `made` counts them."""

    __slots__ = ("count", "made")

    def __init__(self, path: str, count: int) -> None:
        super().__init__(path)
        self.count = count
        self.made = 0

    def attrs(self) -> Attrs:
        return attrs_of(self, Kind.DIRECTORY, 0)

    def lookup(self, name: str) -> Node:
        if not (name.isascii() and name.isdigit()) or int(name) >= self.count:
            raise NotFound(self.child(name))
        return Bytes(self.child(name), name.encode() * 20, ttl=300.0)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        kind = Kind.FILE
        for number in range(max(after - 2, 0), self.count):
            self.made += 1
            yield Entry(str(number), kind, number + 1000, number + 3)


class Broken(Folder):
    """A folder whose look-up and listing raise."""

    __slots__ = ("error",)

    def __init__(self, path: str, error: BaseException) -> None:
        super().__init__(path, [])
        self.error = error

    def lookup(self, name: str) -> Node:
        raise self.error

    def entries(self, after: int = 0) -> Iterator[Entry]:
        raise self.error


def kind_of(node: Node) -> Kind:
    if isinstance(node, Directory):
        return Kind.DIRECTORY
    return Kind.LINK if isinstance(node, Link) else Kind.FILE


class FakeLink(Link):
    """A link."""

    __slots__ = ("_target",)

    def __init__(self, path: str, target: str) -> None:
        super().__init__(path)
        self._target = target

    @property
    def target(self) -> str:
        return self._target

    def attrs(self) -> Attrs:
        return attrs_of(self, Kind.LINK, len(self.target))


LINES = b"".join(b'{"offset":%d,"value":"%s"}\n' % (n, b"x" * (n % 90)) for n in range(14_000))
"""The text of the guessed files, about 1 MB."""

ERRORS: dict[str, BaseException | object] = {
    "KeyError": KeyError("key"),
    "FileNotFoundError": FileNotFoundError(2, "gone"),
    "ENOSYS": OSError(38, "not implemented"),
    "SystemExit": SystemExit(1),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "StopIteration": StopIteration(),
    "RecursionError": RecursionError("deep"),
    "MemoryError": MemoryError(),
    "AssertionError": AssertionError(),
    "UnicodeDecodeError": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "CorruptRecordError": CorruptRecordError("the checksum is wrong", path="a.log", position=1),
    "UnsupportedCodecError": UnsupportedCodecError("zstd: pip install cramjam"),
    "None": None,
    "text": "a str",
    "number": 5,
}
PLACES = ("attrs", "open", "read_now", "read", "xattrs", "close", "lookup", "entries")


class Grower(Folder):
    """Looking up `more` appends to the file `log`."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        log = self.children["log"]
        if name == "more" and isinstance(log, Growing):
            log.data += b"another line\n"
        return super().lookup(name)


class Counting(Folder):
    """Counts the look-ups of names that are not there; the count is the content of `count`."""

    __slots__ = ("count",)

    def lookup(self, name: str) -> Node:
        if name == "count":
            return Bytes(self.child(name), b"%06d" % self.count, ttl=0.0)
        self.count += 1
        return super().lookup(name)


def counting(path: str) -> Counting:
    folder = Counting(path, [])
    folder.count = 0
    return folder


def failing(place: str, name: str) -> Node:
    path = f"failing/{place}-{name}"
    error = ERRORS[name]
    if place in ("lookup", "entries"):
        return Broken(path, error if isinstance(error, BaseException) else TypeError(str(error)))
    return Failing(path, place, error)


def example() -> Folder:
    """The tree of the mount tests."""
    guessed = [Guessed(f"guessed/{n:02}.jsonl", LINES) for n in range(48)]
    numbers = Numbers("numbers", 1_000_000)
    return Folder(
        "",
        [
            Bytes("small", b"hello\n"),
            Bytes("empty", b""),
            Bytes("big", bytes(range(256)) * 40_000),
            FakeLink("link", "small"),
            Bytes(b"bad\xffname".decode("utf-8", "surrogateescape"), b"bytes"),
            Folder("guessed", list(guessed)),
            Guessed("slow", b"late\n", wait=20.0),
            SlowRead("sleepy", b"yawn\n", wait=1.5),
            numbers,
            StatusFile("numbers-made", lambda: b"%d" % numbers.made),
            Numbers("few", 300),
            Grower("grower", [Growing("grower/log", b"first line\n")]),
            counting("absent"),
            Folder("failing", [failing(place, name) for place in PLACES for name in ERRORS]),
        ],
    )


class StatusFile(Bytes):
    """A file that the daemon writes anew for each question."""

    __slots__ = ("make",)

    def __init__(self, path: str, make: Callable[[], bytes]) -> None:
        super().__init__(path, b"")
        self.make = make

    def attrs(self) -> Attrs:
        return attrs_of(self, Kind.FILE, len(self.make()) + 7, exact=False, ttl=0.5)

    def open(self, cancel: Cancel | None = None) -> Content:
        return BytesContent(self.make())


class StatusFolder(Folder):
    """`.kafkafs` with a provider's files."""

    __slots__ = ()

    def __init__(self, path: str, provider: StatusProvider) -> None:
        files = [
            StatusFile(f"{path}/{name}", partial(provider.read, name)) for name in provider.names()
        ]
        super().__init__(path, list(files))
