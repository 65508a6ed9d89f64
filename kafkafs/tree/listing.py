"""Listings that can be resumed: every entry has a cookie, and a listing goes on behind any of them.

Cookies 1 and 2 belong to "." and "..", 0 is the beginning. They must stay right while a folder changes
under a listing: no name twice, none left out that was there throughout.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkafs.tree.node import Entry, Kind, inode_number

if TYPE_CHECKING:
    from kafkafs.tree.node import Directory

FIRST_COOKIE = 3


def entry(folder: Directory, name: str, kind: Kind, cookie: int) -> Entry:
    """An entry of a folder."""
    return Entry(name, kind, inode_number(folder.child(name)), cookie)


def fixed_entries(
    folder: Directory, names: Sequence[tuple[str, Kind]], after: int
) -> Iterator[Entry]:
    """Names that are always the same, in their order."""
    for index, (name, kind) in enumerate(names):
        cookie = FIRST_COOKIE + index
        if cookie > after:
            yield entry(folder, name, kind, cookie)


class NameSlots:
    """Cookies for the names of a folder whose names come and go: a number for each name on first sight.

    Names seen together get numbers in the order they are given, names seen later come after them. Safe
    from several threads.
    """

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._next = FIRST_COOKIE
        self._lock = threading.Lock()

    def number(self, names: Iterable[str]) -> list[tuple[int, str]]:
        """The names with their cookies, by cookie."""
        with self._lock:
            slots = self._slots
            numbered = []
            for name in names:
                slot = slots.get(name)
                if slot is None:
                    slot = slots[name] = self._next
                    self._next += 1
                numbered.append((slot, name))
            if len(slots) > 4 * len(numbered) + 1000:
                self._slots = {name: slot for slot, name in numbered}
        numbered.sort()
        return numbered

    def entries(
        self, folder: Directory, names: Iterable[tuple[str, Kind]], after: int
    ) -> Iterator[Entry]:
        """Entries of a folder behind a cookie."""
        kinds = dict(names)
        for slot, name in self.number(kinds):
            if slot > after:
                yield entry(folder, name, kinds[name], slot)
