"""Filters on records: some keys, or a pattern that must be found in the key."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Protocol

import numpy as np

from engine.columns.columns import Columns
from engine.log.segment.scan import BatchRun
from kafkafs.records.visible import Indices


class RowFilter(Protocol):
    """Filter on records."""

    def narrowed(self, run: BatchRun) -> BatchRun:
        """Return the batches of a run that may hold a wanted record."""

    def matching(self, columns: Columns, indices: Indices) -> Indices:
        """Return the wanted ones of some records, in order."""


class Every:
    """Records that meet each of some conditions.

    Args:
        conditions: the conditions, the cheapest one first.
    """

    def __init__(self, *conditions: RowFilter) -> None:
        self._conditions = conditions

    def narrowed(self, run: BatchRun) -> BatchRun:
        """Return the batches of a run that may hold a wanted record."""
        for each in self._conditions:
            run = each.narrowed(run)
        return run

    def matching(self, columns: Columns, indices: Indices) -> Indices:
        """Return the wanted ones of some records."""
        for each in self._conditions:
            indices = each.matching(columns, indices)
        return indices


class KeyFilter:
    """Filter on the keys of records.

    Args:
        keys: the wanted keys, None among them for the null key; None for any.
        pattern: regular expression to find in the key; a null key is searched as an empty one.
    """

    def __init__(
        self, keys: Collection[bytes | None] | None, pattern: re.Pattern[bytes] | None = None
    ) -> None:
        self._keys = None if keys is None else tuple(dict.fromkeys(keys))
        self._pattern = pattern

    def narrowed(self, run: BatchRun) -> BatchRun:
        """Return the run itself: only the records tell."""
        return run

    def matching(self, columns: Columns, indices: Indices) -> Indices:
        """Return the wanted ones of some records."""
        if self._keys is not None:
            parts = [_equal(columns, indices, key) for key in self._keys]
            indices = np.sort(np.concatenate([indices[:0], *parts]))
        if self._pattern is not None:
            indices = _found(columns, indices, self._pattern)
        return indices


def _equal(columns: Columns, indices: Indices, key: bytes | None) -> Indices:
    if key is None:
        nulls: Indices = indices[columns.key_size[indices] < 0]
        return nulls
    indices = indices[columns.key_size[indices] == len(key)]
    arena = np.frombuffer(columns.arena, np.uint8)
    starts = columns.key_start
    for place, byte in enumerate(key):  # byte by byte: the first bytes rule out most records
        if not len(indices):
            break
        indices = indices[arena[starts[indices] + place] == byte]
    return indices


def _found(columns: Columns, indices: Indices, pattern: re.Pattern[bytes]) -> Indices:
    arena = columns.arena
    starts = columns.key_start[indices].tolist()
    sizes = np.maximum(columns.key_size[indices], 0).tolist()
    found = [
        pattern.search(arena[start : start + size]) is not None
        for start, size in zip(starts, sizes, strict=True)
    ]
    wanted: Indices = indices[np.array(found, bool)]
    return wanted
