"""What chooses the records to erase, and which were chosen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.columns.batch_table import Table
from engine.columns.columns import Columns
from engine.erase.found_files import FoundFile
from engine.log.segment.scan import BatchRun
from engine.units import MAX_INT64, Offset, Position, Timestamp, TopicPartition

Indices: TypeAlias = "npt.NDArray[np.intp]"
MOST_HASHES = 1_000_000
MOST_TEXTS = 20_000
"""Keys, and values, that the proof looks for; more are only compared by their offsets."""


class ChosenRecords(NamedTuple):
    """Some decoded records, and the chosen ones.

    Attributes:
        table: rows of BATCH_ROW; `columns.row` is an index into them.
        columns: all records of their batches.
        hits: indexes of the chosen records, ascending.
    """

    table: Table
    columns: Columns
    hits: Indices


class Unknown(NamedTuple):
    """Bytes that may hold records to erase: they are damaged, or do not decode."""

    path: str
    position: Position
    length: int
    reason: str


class RecordChoice(Protocol):
    """Chooses records."""

    @property
    def undecided(self) -> int:
        """Records of which it could not be said whether they are chosen; they are kept."""

    def takes(self, file: FoundFile) -> bool:
        """Return whether a records file may have chosen records."""

    def of(self, file: FoundFile, run: BatchRun) -> Iterable[ChosenRecords]:
        """Yield the decoded records of a run that may be chosen, some whole batches at a time."""


@dataclass
class Span:
    """Records of one place: how many, and from when to when.

    Attributes:
        records: their number.
        first, last: offsets; first is the largest possible number without records.
        since, until: timestamps in milliseconds; -1 without one.
    """

    records: int = 0
    first: Offset = MAX_INT64
    last: Offset = -1
    since: Timestamp = -1
    until: Timestamp = -1

    def add(self, offsets: npt.NDArray[np.int64], timestamps: npt.NDArray[np.int64]) -> None:
        """Count some records, at least one."""
        self.records += len(offsets)
        self.first = min(self.first, int(offsets.min()))
        self.last = max(self.last, int(offsets.max()))
        stated = timestamps[timestamps >= 0]
        if len(stated):
            since = int(stated.min())
            self.since = since if self.since < 0 else min(self.since, since)
            self.until = max(self.until, int(stated.max()))

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            "records": self.records,
            "firstOffset": self.first,
            "lastOffset": self.last,
            "firstTimestamp": self.since,
            "lastTimestamp": self.until,
        }


@dataclass
class Removed:
    """The chosen records, without their content: by partition, and as hashes.

    Attributes:
        salt: bytes that each hash begins with.
        hashes: SHA-256 of the salt and a whole record; a record has one hash in all copies.
        offsets: the chosen offsets of each partition.
        keys, values: content to look for in the result; never written anywhere.
        is_cut: whether there are more of these than are looked for.
    """

    salt: bytes
    hashes: set[bytes] = field(default_factory=set)
    offsets: dict[TopicPartition, set[Offset]] = field(default_factory=dict)
    keys: dict[bytes, None] = field(default_factory=dict)
    values: dict[bytes, None] = field(default_factory=dict)
    is_cut: bool = False

    def add(self, partition: TopicPartition, columns: Columns, hits: Indices) -> None:
        """Note chosen records."""
        offsets = self.offsets.setdefault(partition, set())
        for index in hits.tolist():
            offset = int(columns.offset[index])
            offsets.add(offset)
            key, value = columns.key(index), columns.value(index)
            for content, known in ((key, self.keys), (value, self.values)):
                if content and content not in known:
                    if len(known) < MOST_TEXTS:
                        known[content] = None
                    else:
                        self.is_cut = True
            if len(self.hashes) < MOST_HASHES:
                self.hashes.add(self.hash_of(partition, columns, index))

    def hash_of(self, partition: TopicPartition, columns: Columns, index: int) -> bytes:
        """Return the hash of a record: of its place, its time and its content."""
        row = columns.table[index]
        place = [*partition, int(row["offset"]), int(row["timestamp"])]
        digest = hashlib.sha256(self.salt + json.dumps(place).encode())
        for name in ("key", "value", "headers"):
            start, size = int(row[f"{name}_start"]), int(row[f"{name}_size"])
            digest.update(b"%d:" % size)
            digest.update(columns.arena[start : start + max(size, 0)])
        return digest.digest()
