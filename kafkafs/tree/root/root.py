"""`/`: the partitions, and the folders for all of them together."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from kafkafs.tree.context import Context
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import FIRST_COOKIE, README, NameSlots, Numbered, entry
from kafkafs.tree.node import Attrs, Directory, Entry, Kind, Node
from kafkafs.tree.partition.partition import Partition
from kafkafs.tree.partition.partition_folder import PartitionFolder
from kafkafs.tree.plain_files import BytesFile
from kafkafs.tree.root.internal_state import NAMES, has_state, state_folder
from kafkafs.tree.root.moments_folder import MomentsFolder
from kafkafs.tree.root.readme import readme
from kafkafs.tree.root.root_state import RootStateFolder
from kafkafs.tree.root.root_time import RootTimeFolder
from kafkafs.tree.root.status import StatusFolder

STATUS = ".kafkafs"
_OWN = (
    (README, Kind.FILE),
    (STATUS, Kind.DIRECTORY),
    ("state", Kind.DIRECTORY),
    ("time", Kind.DIRECTORY),
    *((name, Kind.DIRECTORY) for name in NAMES),
)


class Partitions:
    """Partitions of the source by their names in the tree. Thread-safe."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, Partition] = {}
        self._lock = threading.Lock()
        self._slots = NameSlots()
        self._numbered: tuple[object, Numbered] = None, Numbered((), ())

    def behind(self, cookie: int) -> Iterator[tuple[int, str]]:
        """Yield cookies and names of the current partitions after a cookie.

        Raises SourceGoneError: a list without the partitions of a log dir that is gone would look complete.
        """
        self._context.source.check_there()
        logs = self._context.source.partitions()
        seen, numbered = self._numbered
        if seen is not logs:
            numbered = self._slots.number([shown_name(name) for name in logs])
            self._numbered = logs, numbered
        yield from numbered.behind(cookie)

    def find(self, name: str) -> Partition | None:
        """Return the partition of a name. A log that was deleted and recreated is a new partition."""
        logs = self._context.source.partitions()
        known = self._known.get(name)
        log = logs.get(own_name(name)) if shown_name(own_name(name)) == name else None
        if known is not None and known.log is log:
            return known
        with self._lock:
            if log is None:
                self._known.pop(name, None)
                return None
            found = self._known.get(name)
            if found is None or found.log is not log:
                found = self._known[name] = Partition(self._context, log, name)
            return found


_SUFFIX = "@1"
OWN_NAMES = frozenset(name for name, _ in _OWN)


def shown_name(name: str) -> str:
    """Return a partition's name in the tree: a loose `time.log` must not hide `time/`."""
    return name + _SUFFIX if name in OWN_NAMES else name


def own_name(name: str) -> str:
    """Return a partition's name in the source for a name in the tree."""
    own = name.removesuffix(_SUFFIX)
    return own if own in OWN_NAMES else name


class RootFolder(Directory):
    """Root folder of the mount."""

    __slots__ = ("_context", "partitions")

    def __init__(self, context: Context, path: str = "") -> None:
        super().__init__(path)
        self._context = context
        self.partitions = Partitions(context)

    def attrs(self) -> Attrs:
        context = self._context
        return context.root_owner().directory("", context.ttl(context.is_live))

    def xattrs(self) -> dict[str, bytes]:
        roots = ",".join(root.path for root in self._context.source.roots)
        live = b"true" if self._context.is_live else b"false"
        return {
            "user.kafka.log_dirs": roots.encode("utf-8", "surrogateescape"),
            "user.kafka.live": live,
        }

    def lookup(self, name: str) -> Node:
        partition = self.partitions.find(name)
        if partition is not None:
            return PartitionFolder(self._at(name), partition)
        context, path = self._context, self._at(name)
        match name:
            case "README.txt":
                owner = context.root_owner()
                return BytesFile(
                    path,
                    readme(context),
                    owner,
                    mtime_ns=owner.mtime_ns,
                    ttl=context.ttl(context.is_live),
                )
            case ".kafkafs":
                return StatusFolder(path, context)
            case "state":
                return RootStateFolder(path, context)
            case "time":
                return RootTimeFolder(path, context, self.partitions)
            case "at" if not self.path:
                return MomentsFolder(path, context, RootFolder)
        folder = state_folder(path, context, name)
        if folder is not None:
            return folder
        context.source.check_there()
        raise NotFound(name)

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def entries(self, after: int = 0) -> Iterator[Entry]:
        self._context.source.check_there()
        for index, (name, kind) in enumerate(_OWN):
            if name in NAMES and not has_state(self._context, name):
                continue
            if FIRST_COOKIE + index > after:
                yield entry(self, name, kind, FIRST_COOKIE + index)
        for slot, name in self.partitions.behind(max(after - len(_OWN), 0)):
            yield entry(self, name, Kind.DIRECTORY, slot + len(_OWN))
