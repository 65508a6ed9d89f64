"""A sorted map from offsets to values that many threads read while one writes, without a lock.

Pugh's skip list, with LevelDB's argument: a node is complete before the one assignment that links it, and a
removed node keeps its own links, so a reader is always on a list that was right at some moment. There is one
writer at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Generic, TypeVar

V = TypeVar("V")

MAX_HEIGHT = 12
"""Enough for 4^12 entries, since one node in four is a level higher."""
BRANCHING = 4
BEFORE_ALL = -(2**64)
"""Key of the head, below every offset."""


class _Node(Generic[V]):
    __slots__ = ("key", "next", "value")

    def __init__(self, key: int, value: V | None, height: int) -> None:
        self.key = key
        self.value = value
        self.next: list[_Node[V] | None] = [None] * height


class SkipList(Generic[V]):
    """Entries by key, ascending; look-ups of neighbours are O(log n).

    >>> segments = SkipList([(0, "first"), (100, "second"), (250, "third")])
    >>> segments.floor(249), segments.lower(100), segments.higher(100), segments.ceiling(251)
    ((100, 'second'), (0, 'first'), (250, 'third'), None)
    """

    __slots__ = ("_count", "_head", "_height", "_random")

    def __init__(self, entries: Iterable[tuple[int, V]] = ()) -> None:
        self._head: _Node[V] = _Node(BEFORE_ALL, None, MAX_HEIGHT)
        self._height = 1
        self._count = 0
        self._random = Random(0x5EED)  # the same input gives the same shape
        self._build(entries)

    def _build(self, entries: Iterable[tuple[int, V]]) -> None:
        """Append entries in one pass while keys ascend; insert the rest."""
        tails: list[_Node[V]] = [self._head] * MAX_HEIGHT
        last: int | None = None
        rest = iter(entries)
        for key, value in rest:
            if last is not None and key <= last:
                self.insert(key, value)
                break
            height = self._random_height()
            node = _Node(key, value, height)
            for level in range(height):
                tails[level].next[level] = node
                tails[level] = node
            self._height = max(self._height, height)
            self._count += 1
            last = key
        for key, value in rest:
            self.insert(key, value)

    def _random_height(self) -> int:
        height = 1
        while height < MAX_HEIGHT and self._random.random() * BRANCHING < 1:
            height += 1
        return height

    def _before(self, key: int) -> _Node[V]:
        """Return the last node with a smaller key, or the head."""
        node = self._head
        for level in range(self._height - 1, -1, -1):
            following = node.next[level]
            while following is not None and following.key < key:
                node = following
                following = node.next[level]
        return node

    def _from(self, key: int) -> _Node[V] | None:
        """Return the first node with this key or a larger one."""
        node = self._before(key).next[0]
        while node is not None and node.key < key:  # added after the search passed it
            node = node.next[0]
        return node

    def _path_to(self, key: int) -> list[_Node[V]]:
        """Return the last node with a smaller key on each level."""
        path = [self._head] * MAX_HEIGHT
        node = self._head
        for level in range(self._height - 1, -1, -1):
            following = node.next[level]
            while following is not None and following.key < key:
                node = following
                following = node.next[level]
            path[level] = node
        return path

    def insert(self, key: int, value: V) -> V | None:
        """Add an entry; return the value that it replaced, or None. For the writer."""
        path = self._path_to(key)
        found = path[0].next[0]
        if found is not None and found.key == key:
            previous, found.value = found.value, value
            return previous
        height = self._random_height()
        node = _Node(key, value, height)
        for level in range(height):
            node.next[level] = path[level].next[level]
        for level in range(height):  # from the bottom: a reader that misses it above finds it below
            path[level].next[level] = node
        self._height = max(self._height, height)
        self._count += 1
        return None

    def remove(self, key: int) -> V | None:
        """Remove an entry; return its value, None without one. For the writer."""
        path = self._path_to(key)
        found = path[0].next[0]
        if found is None or found.key != key:
            return None
        for level in range(len(found.next) - 1, -1, -1):
            path[level].next[level] = found.next[level]
        self._count -= 1
        return found.value

    def clear(self) -> None:
        """Remove all entries; readers go on over the old ones."""
        self._head = _Node(BEFORE_ALL, None, MAX_HEIGHT)
        self._height = 1
        self._count = 0

    def get(self, key: int) -> V | None:
        """Return the value of a key, None without one."""
        node = self._from(key)
        return node.value if node is not None and node.key == key else None

    def __contains__(self, key: int) -> bool:
        node = self._from(key)
        return node is not None and node.key == key

    def __len__(self) -> int:
        return self._count

    def floor(self, key: int) -> tuple[int, V] | None:
        """Return the entry with the largest key at or below this one."""
        return self._entry(self._before(key + 1))

    def lower(self, key: int) -> tuple[int, V] | None:
        """Return the entry with the largest key below this one."""
        return self._entry(self._before(key))

    def ceiling(self, key: int) -> tuple[int, V] | None:
        """Return the entry with the smallest key at or above this one."""
        return self._entry(self._from(key))

    def higher(self, key: int) -> tuple[int, V] | None:
        """Return the entry with the smallest key above this one."""
        return self._entry(self._from(key + 1))

    def first(self) -> tuple[int, V] | None:
        """Return the entry with the smallest key."""
        return self._entry(self._head.next[0])

    def last(self) -> tuple[int, V] | None:
        """Return the entry with the largest key."""
        node = self._head
        for level in range(self._height - 1, -1, -1):
            following = node.next[level]
            while following is not None:
                node = following
                following = node.next[level]
        return self._entry(node)

    def _entry(self, node: _Node[V] | None) -> tuple[int, V] | None:
        if node is None or node.key == BEFORE_ALL:
            return None
        return node.key, node.value  # type: ignore[return-value]  # only the head has no value

    def items(self) -> Iterator[tuple[int, V]]:
        """Return all entries, ascending, perhaps with those added during the iteration."""
        return self.between(None, None)

    def values(self) -> Iterator[V]:
        """Return all values in the order of their keys."""
        return (value for _, value in self.between(None, None))

    def __iter__(self) -> Iterator[int]:
        return (key for key, _ in self.between(None, None))

    def between(self, start: int | None, stop: int | None) -> Iterator[tuple[int, V]]:
        """Yield the entries with start <= key < stop; None is no limit."""
        node = self._head.next[0] if start is None else self._from(start)
        while node is not None and (stop is None or node.key < stop):
            yield node.key, node.value  # type: ignore[misc]  # only the head has no value
            node = node.next[0]
