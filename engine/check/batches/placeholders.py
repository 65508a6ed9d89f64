"""Batches without records, producer and timestamp, which fill offsets without records.

`kafkafs rebuild` writes them for lost records, and Spark's writer for gaps in the offsets that it keeps. They have no
timestamp, while a batch emptied by compaction keeps its own, so they are no sign of compaction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.check.partition_under_check import Table
from engine.check.rules.breach import Breach
from engine.verdict.gap_causes.compaction_marks import is_placeholder


class Placeholders:
    """Counts the placeholders of a segment."""

    def __init__(self) -> None:
        self._count = 0
        self._offsets = 0
        self._first: np.void | None = None

    def add(self, table: Table) -> None:
        """Count the next batches."""
        rows = is_placeholder(table).nonzero()[0]
        if not len(rows):
            return
        held = table[rows]
        self._count += len(rows)
        self._offsets += int((held["last_offset"] - held["base_offset"] + 1).sum())
        if self._first is None:
            self._first = held[0].copy()

    def breaches(self) -> Iterator[Breach]:
        """Yield one note for all of them."""
        if self._first is None:
            return
        batches = "a batch" if self._count == 1 else f"{self._count} batches"
        offsets = "1 offset is" if self._offsets == 1 else f"{self._offsets} offsets are"
        sentence = f"{offsets} held by {batches} without records"
        yield Breach.of(
            "gap-held", self._first, sentence, batches=self._count, offsets=self._offsets
        )
