"""Folders of small JSON files, named after values in records (groups, transactional ids, topics)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from engine.units import Timestamp
from kafkafs.decode.shown_text import plain_json, pretty_json
from kafkafs.escaped_names import escaped, name_of
from kafkafs.tree.context import Context
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import entry
from kafkafs.tree.node import Attrs, Directory, Entry, Kind, Node, mtime_of
from kafkafs.tree.path_names import instant_name
from kafkafs.tree.plain_files import BytesFile


class Document(NamedTuple):
    """Content of a JSON file, and its time in milliseconds since 1970; -1 if unknown."""

    facts: Any
    timestamp: Timestamp


class StateDirectory(Directory):
    """A folder of replayed state. Slow, because any access may replay the topic first."""

    __slots__ = ("context",)

    def __init__(self, path: str, context: Context) -> None:
        super().__init__(path)
        self.context = context

    @property
    def slow(self) -> bool:
        return True

    def attrs(self) -> Attrs:
        context = self.context
        return context.root_owner().directory(self.path, context.ttl(context.is_live))

    def file(self, name: str, document: Document) -> BytesFile:
        """Return a file of this folder."""
        context = self.context
        owner = context.root_owner()
        known = document.timestamp >= 0
        mtime_ns = mtime_of(document.timestamp) if known else owner.mtime_ns
        return BytesFile(
            self.child(name),
            pretty_json(document.facts),
            owner,
            mtime_ns=mtime_ns,
            ttl=context.ttl(context.is_live),
        )


class Documents(StateDirectory):
    """A folder of JSON files with names from records.

    Args:
        names: returns all current names, in listing order.
        find: returns the document of a name, or None.
        error: returns the damage for the folder's extended attribute; empty if undamaged.
    """

    __slots__ = ("_error", "_find", "_names")

    def __init__(
        self,
        path: str,
        context: Context,
        names: Callable[[], Sequence[str]],
        find: Callable[[str], Document | None],
        error: Callable[[], Sequence[object]] = tuple,
    ) -> None:
        super().__init__(path, context)
        self._names = names
        self._find = find
        self._error = error

    def xattrs(self) -> dict[str, bytes]:
        return damage_xattrs(self._error())

    def lookup(self, name: str) -> Node:
        plain = name_of(name, self._names())
        document = None if plain is None else self._find(plain)
        if document is None:
            raise NotFound(self.child(name))
        return self.file(name, document)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        names = [escaped(name) for name in self._names()]
        for cookie, name in self.context.slots.of(self.path).number(names).behind(after):
            yield entry(self, name, Kind.FILE, cookie)


class Folders(StateDirectory):
    """A folder with a fixed set of folders and files."""

    __slots__ = ("_files", "_folders")

    def __init__(
        self,
        path: str,
        context: Context,
        folders: Mapping[str, Callable[[str], Directory]],
        files: Mapping[str, Callable[[], Document]],
    ) -> None:
        super().__init__(path, context)
        self._folders = folders
        self._files = files

    def lookup(self, name: str) -> Node:
        if name in self._folders:
            return self._folders[name](self.child(name))
        if name in self._files:
            return self.file(name, self._files[name]())
        raise NotFound(self.child(name))

    def entries(self, after: int = 0) -> Iterator[Entry]:
        names = [(name, Kind.FILE) for name in self._files]
        names += [(name, Kind.DIRECTORY) for name in self._folders]
        yield from self.context.slots.of(self.path).entries(self, names, after)


def damage_xattrs(damage: Sequence[object]) -> dict[str, bytes]:
    """Return the extended attribute that describes damage; none if undamaged."""
    if not damage:
        return {}
    facts = {"damagedPlaces": len(damage), "first": damage[0]}
    return {"user.kafka.error": plain_json(facts)}


def with_times(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts, with each timestamp in milliseconds followed by the same time as text."""
    found: dict[str, Any] = {}
    for name, value in facts.items():
        found[name] = value
        if name.endswith("imestamp") and isinstance(value, int):
            shown = name[: -len("timestamp")] + ("Time" if name[-9] == "T" else "time")
            found[shown] = instant_name(value) if value >= 0 else None
    return found
