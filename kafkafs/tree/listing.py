"""Resumable listings: each entry has a cookie, and a listing can continue after any of them.

0 is the beginning; 1 and 2 are the cookies of "." and "..". Cookies stay valid while a folder changes during a
listing: no name appears twice, and no name that exists throughout is skipped.
"""

from __future__ import annotations

import itertools
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkafs.tree.node import Directory, Entry, Kind, inode_number

FIRST_COOKIE = 3
README = "README.txt"
MOST_FOLDERS = 4096
_NAMES_AT_ONCE = 256


def entry(folder: Directory, name: str, kind: Kind, cookie: int) -> Entry:
    """Return an entry of a folder."""
    return Entry(name, kind, inode_number(folder.child(name)), cookie)


def fixed_entries(
    folder: Directory, names: Sequence[tuple[str, Kind]], after: int
) -> Iterator[Entry]:
    """Yield the entries of a folder with fixed names, in their order."""
    for index, (name, kind) in enumerate(names):
        cookie = FIRST_COOKIE + index
        if cookie > after:
            yield entry(folder, name, kind, cookie)


class Numbered(NamedTuple):
    """Names with their cookies: two immutable sequences of the same length.

    Attributes:
        slots: the cookies, ascending.
        names: the names, in the order of their cookies.
    """

    slots: Sequence[int]
    names: Sequence[str]

    def behind(self, cookie: int) -> Iterator[tuple[int, str]]:
        """Yield cookies and names after a cookie."""
        for place in range(bisect_right(self.slots, cookie), len(self.slots)):
            yield self.slots[place], self.names[place]


class NameStream:
    """Names of a folder, read from it only as far as listings need. A cookie is a name's index plus FIRST_COOKIE.

    Thread-safe. An exception of reading the folder is raised in place of the next name.
    """

    def __init__(self, names: Iterator[str]) -> None:
        self.names: list[str] = []
        self._rest: Iterator[str] = names
        self._lock = threading.Lock()

    def behind(self, cookie: int) -> Iterator[tuple[int, str]]:
        """Yield cookies and names after a cookie."""
        place = max(cookie - FIRST_COOKIE + 1, 0)
        while place < len(self.names) or self._has_more(place):
            yield FIRST_COOKIE + place, self.names[place]
            place += 1

    def _has_more(self, place: int) -> bool:
        with self._lock:
            while len(self.names) <= place:
                more = list(itertools.islice(self._rest, _NAMES_AT_ONCE))
                if not more:
                    return False
                self.names += more
            return True


class NameSlots:
    """Cookies for the names of a changing folder: each name gets a number when it is first listed.

    Names listed together are numbered in the given order, later names follow them. Thread-safe. A folder that never
    changes needs no memory beyond its list of names.
    """

    def __init__(self) -> None:
        self._slots: Sequence[int] = ()
        self._names: Sequence[str] = ()
        self._next = FIRST_COOKIE
        self._given: Sequence[str] | None = None
        self._numbered = Numbered((), ())
        self._stream: NameStream | None = None
        self._stamp: object = None
        self._lock = threading.Lock()

    def stream(self, stamp: object, names: Callable[[], Iterator[str]] | None) -> NameStream | None:
        """Return the names as a stream, while no listing was numbered and the folder is unchanged; else None.

        Args:
            stamp: identifies the folder's current state.
            names: starts reading the folder; None to join only a stream that another caller has started.
        """
        with self._lock:
            if self._stream is None:
                if names is None or self._given is not None:
                    return None
                self._stream, self._stamp = NameStream(names()), stamp
            return self._stream if stamp == self._stamp else None

    def number(self, names: Sequence[str]) -> Numbered:
        """Return the names with their cookies. `names` has no duplicates and must not change; passing the same object
        again costs nothing.
        """
        with self._lock:
            if names is not self._given:
                if self._stream is not None:
                    self._follow(self._stream)
                self._numbered = self._number(names)
                self._given = names
            return self._numbered

    def _follow(self, stream: NameStream) -> None:
        """Keep the cookies of names that were listed as a stream."""
        seen = stream.names[:]
        self._slots, self._names = self._take(len(seen)), seen
        self._stream = None

    def _number(self, names: Sequence[str]) -> Numbered:
        if not self._names:
            self._slots, self._names = numbered = Numbered(self._take(len(names)), names)
            return numbered
        new = dict.fromkeys(names)
        slots, shown = [], []
        gone = 0
        for slot, name in zip(self._slots, self._names, strict=True):
            if name in new:
                del new[name]
                slots.append(slot)
                shown.append(name)
            else:
                gone += 1
        added = self._take(len(new))
        numbered = Numbered(array("q", (*slots, *added)), [*shown, *new])
        if 0 < gone <= 3 * len(names) + 1000:  # removed names may come back
            self._slots = array("q", (*self._slots, *added))
            self._names = [*self._names, *new]
        else:
            self._slots, self._names = numbered
        return numbered

    def _take(self, count: int) -> range:
        """Reserve `count` new cookies."""
        start, self._next = self._next, self._next + count
        return range(start, self._next)

    def entries(
        self, folder: Directory, names: Iterable[tuple[str, Kind]], after: int
    ) -> Iterator[Entry]:
        """Yield a folder's entries after a cookie."""
        kinds = dict(names)
        for slot, name in self.number(tuple(kinds)).behind(after):
            yield entry(folder, name, kinds[name], slot)

    def files(self, folder: Directory, names: Sequence[str], after: int) -> Iterator[Entry]:
        """Yield the entries after a cookie of a folder with files only; `names` as in `number`."""
        for slot, name in self.number(names).behind(after):
            yield entry(folder, name, Kind.FILE, slot)


class FolderSlots:
    """Cookies of the folders' listings, by path. The least recently used are dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: OrderedDict[str, NameSlots] = OrderedDict()

    def of(self, path: str) -> NameSlots:
        """Return the cookies of the folder at `path`."""
        with self._lock:
            found = self._slots.get(path)
            if found is None:
                found = self._slots[path] = NameSlots()
                if len(self._slots) > MOST_FOLDERS:
                    self._slots.popitem(last=False)
            self._slots.move_to_end(path)
            return found
