"""Number of distinct keys and the most frequent keys of a log, in bounded memory.

The number comes from the smallest hashes of all keys (k minimum values; Bar-Yossef et al., "Counting Distinct Elements
in a Data Stream", 2002): exact up to `KEPT_HASHES` keys, above with a standard error of 1/sqrt(KEPT_HASHES - 2), 1.6 %.
Frequent keys come from a summary of Misra and Gries ("Finding Repeated Elements", 1982) with at most `KEPT_KEYS` keys:
a key that is in more than one of `KEPT_KEYS + 1` records is in it, and its number is too small by at most `error`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from engine import kernel
from engine.columns.columns import Columns
from engine.log.partition_log import PartitionLog
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, ScanItem
from engine.log.view.log_view import LogView
from engine.verdict.log_runs import is_large
from engine.workers import Workers
from kafkafs.decode.searching.apart import Apart
from kafkafs.decode.searching.search import Chunk, DamageFacts, Search
from kafkafs.records.conditions.pattern import ALL_FIELDS, Query
from kafkafs.records.visible import Indices

KEPT_HASHES = 4096
KEPT_KEYS = 1000
WHOLE_KEY = 64
"""Bytes of a key up to which it stands for itself; of a longer one its beginning and a hash."""
_SPACE = 2.0**64


@dataclass(slots=True)
class KeyCounts:
    """Keys of some records.

    Attributes:
        records: number of records.
        without_key: number of them with a null key.
        frequent: lower bounds of the numbers of the most frequent keys; of a long key only the beginning is there.
        error: the most that such a number, or that of a key that is not there, can be too small by.
    """

    records: int = 0
    without_key: int = 0
    frequent: Counter[bytes] = field(default_factory=Counter)
    error: int = 0
    _hashes: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))

    @property
    def is_exact(self) -> bool:
        """Whether `distinct` is exact."""
        return len(self._hashes) < KEPT_HASHES

    @property
    def distinct(self) -> int:
        """Number of distinct keys, without null."""
        if self.is_exact:
            return len(self._hashes)
        return round((KEPT_HASHES - 1) * _SPACE / (int(self._hashes[-1]) + 1))

    def most_frequent(self, most: int) -> list[tuple[bytes, int]]:
        """Return the keys with the largest numbers, and these; at equal numbers by key."""
        found = sorted(self.frequent.items(), key=lambda item: (-item[1], item[0]))
        return [(key[:WHOLE_KEY], number) for key, number in found[:most]]

    def add(self, other: KeyCounts) -> None:
        """Add the keys of other records."""
        self.records += other.records
        self.without_key += other.without_key
        self.error += other.error
        self.frequent.update(other.frequent)
        if len(self.frequent) > KEPT_KEYS:
            cut = sorted(self.frequent.values(), reverse=True)[KEPT_KEYS]
            left = {key: number - cut for key, number in self.frequent.items() if number > cut}
            self.frequent = Counter(left)
            self.error += cut
        self._hashes = np.union1d(self._hashes, other._hashes)[:KEPT_HASHES]


def keys_of(columns: Columns, records: Indices) -> KeyCounts:
    """Return the keys of some records."""
    arena = memoryview(columns.arena)
    sizes = columns.key_size[records]
    held = records[sizes >= 0]
    starts, ends = columns.key_start[held], columns.key_start[held] + columns.key_size[held]
    keys = Counter(
        bytes(arena[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    named: Counter[bytes] = Counter()
    hashes = np.empty(len(keys), np.uint64)
    for place, (key, number) in enumerate(keys.items()):
        digest = blake2b(key, digest_size=16).digest()
        hashes[place] = int.from_bytes(digest[:8], "little")
        named[key if len(key) <= WHOLE_KEY else key[:WHOLE_KEY] + digest] = number
    counts = KeyCounts()
    found = KeyCounts(len(records), len(records) - len(held), named, _hashes=np.unique(hashes))
    counts.add(found)
    return counts


KeyItem: TypeAlias = KeyCounts | DamageFacts | int
"""Keys to add up, a damaged place, or a number of bytes that were read."""


def count_keys(log: PartitionLog, jobs: int, apart: Apart | None = None) -> Iterator[KeyItem]:
    """Yield the keys of a log's records in parts to add up, the damaged places, and the bytes that were read.

    Control records are no records here.

    Args:
        log: the log.
        jobs: number of threads.
        apart: for a leftover, the records of it that are left out.

    Raises:
        FileNotFoundError: a segment was deleted or replaced since the view was made; other OSError.
    """
    search = search_for_keys(log.view(), apart)
    with Workers(jobs, "keys") as workers:
        yield from workers.flat_map(
            counted,
            ((search, *part) for part in search.parts()),
            lambda part: is_large(part[1:]),
        )


def search_for_keys(view: LogView, apart: Apart | None) -> Search:
    """Return the search whose parts are `counted`."""
    options = kernel.LineOptions(
        *view.partition,
        values="base64",
        from_offset=view.log_start_offset,
        to_offset=view.log_end_offset,
    )
    query = Query.compile("", fixed=True, fields=ALL_FIELDS)
    return Search(view, query, options, only_count=True, apart=apart, shows_control=False)


def counted(part: tuple[Search, LogSegment, ScanItem]) -> Iterator[KeyItem]:
    """Yield what `count_keys` yields for a part of a search."""
    search, segment, item = part
    for chunk in search.chunks(segment, item, with_shown=True):
        if isinstance(chunk, Chunk):
            yield keys_of(chunk.columns, chunk.shown)
        else:
            yield chunk
    if isinstance(item, BatchRun):
        yield int(item.table["size"].sum())
