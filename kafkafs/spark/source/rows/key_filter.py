"""Filter on keys: one key, or a pattern that must be found."""

from __future__ import annotations

import re
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engine.columns.columns import Columns
from kafkafs.spark.source.options.read_options import ReadOptions

Indices: TypeAlias = npt.NDArray[np.int64]


class KeyFilter:
    """Filter on the keys of records.

    Args:
        key: the only wanted key; None for any.
        pattern: regular expression to find in the key; a null key is searched as an empty one.
    """

    def __init__(self, key: bytes | None, pattern: re.Pattern[bytes] | None) -> None:
        self._key = key
        self._pattern = pattern

    def matching(self, columns: Columns, indices: Indices) -> Indices:
        """Return the wanted ones of some records."""
        if self._key is not None:
            indices = _equal(columns, indices, self._key)
        if self._pattern is not None:
            indices = _found(columns, indices, self._pattern)
        return indices


def key_filter(options: ReadOptions) -> KeyFilter | None:
    """Return the filter of keyEquals and keyPattern; None for every record."""
    if options.key is None and options.key_pattern is None:
        return None
    pattern = None if options.key_pattern is None else re.compile(options.key_pattern.encode())
    return KeyFilter(options.key, pattern)


def _equal(columns: Columns, indices: Indices, key: bytes) -> Indices:
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
