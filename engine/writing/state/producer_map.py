"""Producers by id, in the order in which a broker writes them.

A broker keeps them in a java.util.HashMap and writes a snapshot in its iteration order: by bucket,
within a bucket by age. A HashMap never shrinks, so the number of buckets follows from the most
producers at once, and the order is determined by the ids and the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Generic, TypeVar

from engine.state.producer_state_entry import ProducerStateEntry

_FIRST_BUCKETS = 16
_LONGEST_CHAIN = 8
_TREES_FROM = 64

T = TypeVar("T")


class ProducerMap(MutableMapping[int, ProducerStateEntry]):
    """Entries by producer id, iterating as Java's HashMap<Long, ...> would.

    One difference: at the ninth id in one of at least 64 buckets, HashMap makes the bucket a red-black
    tree. The tree's root comes first, and a new id follows its parent, so the order needs the whole tree,
    with its removals. Ids come to that with a stride of 16, from the 33rd on. Here such a bucket stays by
    age: the order of entries has no meaning to a reader of a snapshot.
    """

    __slots__ = ("_buckets", "_entries")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerStateEntry] = {}
        self._buckets = _FIRST_BUCKETS

    def __repr__(self) -> str:
        return f"ProducerMap({dict(self)})"

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._entries

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._entries, key=self._bucket))

    def __getitem__(self, producer_id: int) -> ProducerStateEntry:
        return self._entries[producer_id]

    def __setitem__(self, producer_id: int, entry: ProducerStateEntry) -> None:
        is_new = producer_id not in self._entries
        self._entries[producer_id] = entry
        if is_new:
            self._grow(producer_id)

    def __delitem__(self, producer_id: int) -> None:
        del self._entries[producer_id]

    def clear(self) -> None:
        """Remove all entries; the buckets stay."""
        self._entries.clear()

    def copied(self) -> ProducerMap:
        """Return a map of copies of the entries, with the same iteration order and buckets."""
        copy = ProducerMap()
        copy._buckets = self._buckets
        copy._entries = {producer_id: each.copied() for producer_id, each in self._entries.items()}
        return copy

    def _grow(self, producer_id: int) -> None:
        if self._buckets < _TREES_FROM:
            bucket = self._bucket(producer_id)
            if sum(self._bucket(each) == bucket for each in self._entries) > _LONGEST_CHAIN:
                self._buckets *= 2
        if len(self._entries) > self._buckets * 3 // 4:
            self._buckets *= 2

    def _bucket(self, producer_id: int) -> int:
        return _bucket_of(producer_id, self._buckets)


class ProducerUpdates(Generic[T]):
    """Updates of each producer by one append or one read of batches, in a broker's order.

    A broker collects them with HashMap.computeIfAbsent, which puts a new id first in its bucket,
    and resizes only before that. New producers enter `ProducerMap` in this order.
    """

    __slots__ = ("_buckets", "_updates")

    def __init__(self) -> None:
        self._updates: dict[int, T] = {}
        self._buckets = _FIRST_BUCKETS

    def __len__(self) -> int:
        return len(self._updates)

    def of(self, producer_id: int, make: Callable[[], T]) -> T:
        """Return the update of a producer, a new one for the first call."""
        if len(self._updates) > self._buckets * 3 // 4:
            self._buckets *= 2
        found = self._updates.get(producer_id)
        if found is None:
            found = self._updates[producer_id] = make()
        return found

    def values(self) -> list[T]:
        """Return all updates: by bucket, within a bucket newest first."""
        newest_first = reversed(self._updates)
        ordered = sorted(newest_first, key=lambda each: _bucket_of(each, self._buckets))
        return [self._updates[producer_id] for producer_id in ordered]


def _bucket_of(producer_id: int, buckets: int) -> int:
    # Long.hashCode, then HashMap.hash.
    hash_code = (producer_id ^ (producer_id & 2**64 - 1) >> 32) & 2**32 - 1
    return (hash_code ^ hash_code >> 16) & (buckets - 1)
