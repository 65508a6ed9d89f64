"""`.kafkafs/`: version and problems found; a mount adds its own files."""

from __future__ import annotations

from collections.abc import Iterator

from engine.version import __version__
from kafkafs.decode.shown_text import plain_json
from kafkafs.tree.content import BytesContent
from kafkafs.tree.context import Context
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import NameSlots
from kafkafs.tree.node import Attrs, Cancel, Content, Directory, Entry, File, Kind, Node

_slots = NameSlots()


class StatusFolder(Directory):
    """`.kafkafs/`."""

    __slots__ = ("_context",)

    def __init__(self, path: str, context: Context) -> None:
        super().__init__(path)
        self._context = context

    def attrs(self) -> Attrs:
        return self._context.root_owner().directory(self.path, 0.0)

    def lookup(self, name: str) -> Node:
        if name not in self._names():
            raise NotFound(self.child(name))
        return StatusFile(self.child(name), self._context, name)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return _slots.entries(self, [(name, Kind.FILE) for name in self._names()], after)

    def _names(self) -> list[str]:
        provider = self._context.status
        return list(dict.fromkeys(["version", "problems", *(provider.names() if provider else ())]))


class StatusFile(File):
    """A file of `.kafkafs/`, as of now."""

    __slots__ = ("_context", "_name")

    def __init__(self, path: str, context: Context, name: str) -> None:
        super().__init__(path)
        self._context = context
        self._name = name

    def attrs(self) -> Attrs:
        """The size of a provided file is an estimate, because it changes; an open file keeps its size."""
        owner = self._context.root_owner()
        attrs = owner.file(self.path, len(self._read()), owner.mtime_ns, 0.0)
        return attrs._replace(exact=not self._is_provided())

    def open(self, cancel: Cancel | None = None) -> Content:
        return BytesContent(self._read())

    def _is_provided(self) -> bool:
        provider = self._context.status
        return provider is not None and self._name in provider.names()

    def _read(self) -> bytes:
        provider = self._context.status
        if provider is not None and self._is_provided():
            try:
                return provider.read(self._name)
            except KeyError:
                raise NotFound(self.path) from None
        if self._name == "version":
            return f"kafkafs {__version__}\n".encode()
        return problems(self._context)


def problems(context: Context) -> bytes:
    """Return the problems found so far, one JSON object per line."""
    return b"".join(plain_json(facts) + b"\n" for facts in context.problems)
