"""Filters on records: some keys, or a pattern that must be found in the key."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Protocol

import numpy as np

from engine.log.segment.scan import BatchRun
from kafkafs.records.conditions.pattern import Query, matching_records
from kafkafs.records.conditions.wanted_keys import TopicKeys
from kafkafs.records.rows import Rows, chosen


class RowFilter(Protocol):
    """Filter on records."""

    def narrowed(self, run: BatchRun) -> BatchRun:
        """Return the batches of a run that may hold a wanted record."""

    def matching(self, rows: Rows) -> Rows:
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

    def matching(self, rows: Rows) -> Rows:
        """Return the wanted ones of some records."""
        for each in self._conditions:
            rows = each.matching(rows)
        return rows


class KeyFilter:
    """Filter on the keys of records.

    Args:
        keys: the wanted keys; None for any.
        pattern: regular expression to find in the key; a null key is searched as an empty one.
    """

    def __init__(self, keys: TopicKeys | None, pattern: re.Pattern[bytes] | None = None) -> None:
        self._keys = keys
        self._query = None if pattern is None else Query.of(pattern, frozenset({"key"}))

    def narrowed(self, run: BatchRun) -> BatchRun:
        """Return the run itself: only the records tell."""
        return run

    def matching(self, rows: Rows) -> Rows:
        """Return the wanted ones of some records."""
        columns, indices = rows.columns, rows.indices
        if self._keys is not None:
            nulls = indices[columns.key_size[indices] < 0]
            wanted = self._keys.of(rows.partition.topic)
            parts = [nulls if key is None else key.among(columns, indices) for key in wanted]
            indices = np.unique(np.concatenate([indices[:0], *parts]))
        if self._query is not None:
            found = indices[matching_records(chosen(columns, indices), self._query)]
            if self._query.pattern.search(b""):
                found = np.union1d(found, indices[columns.key_size[indices] < 0])
            indices = found
        return replace(rows, indices=indices)
