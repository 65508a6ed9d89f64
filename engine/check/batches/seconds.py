"""Timestamps that were written in seconds: in milliseconds they are of January or February 1970."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.check.partition_under_check import Table
from engine.check.rules.breach import Breach
from engine.record.attributes import TIMESTAMP_TYPE_MASK

FIRST, END = 1_000_000_000, 4_102_444_800
"""Seconds of 2001-09-09 and of 2100-01-01."""


class Seconds:
    """Counts a segment's batches with a producer's timestamps in seconds."""

    def __init__(self) -> None:
        self._count = 0
        self._first: np.void | None = None

    def add(self, table: Table) -> None:
        """Count the next batches."""
        largest = table["max_timestamp"]
        if int(largest.min()) >= END:
            return
        by_producer = table["attributes"] & TIMESTAMP_TYPE_MASK == 0
        rows = ((largest >= FIRST) & (largest < END) & by_producer).nonzero()[0]
        if not len(rows):
            return
        self._count += len(rows)
        if self._first is None:
            self._first = table[rows[0]].copy()

    def breaches(self) -> Iterator[Breach]:
        """Yield one warning for all of them."""
        if self._first is None:
            return
        batches = "a batch has" if self._count == 1 else f"{self._count} batches have"
        sentence = (
            f"{batches} timestamps of early 1970, such as {self._first['max_timestamp']}:"
            " probably seconds, not milliseconds"
        )
        yield Breach.of("timestamp-seconds", self._first, sentence, batches=self._count)
