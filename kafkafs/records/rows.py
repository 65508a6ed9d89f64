"""Some records of a run of batches, by their indices."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.columns.columns import RECORD_ROW, Columns
from engine.lines.line_decoder import DecodedField, LineDecoder, Marks
from engine.units import Offset, TopicPartition
from kafkafs.records.visible import Indices

Fields: TypeAlias = tuple[list[DecodedField | None], list[DecodedField | None]]
"""Decoded keys and values of some records; None for bytes that are not decoded."""
OPAQUE_ROW = np.dtype((np.void, RECORD_ROW.size))
"""A RECORD_ROW as bytes, which numpy copies at once."""


def chosen(columns: Columns, indices: Indices) -> Columns:
    """Return some of the records."""
    # As opaque bytes: numpy copies a structure field by field, 20 times slower.
    table = columns.table.view(OPAQUE_ROW)[indices].view(RECORD_ROW.dtype)
    return Columns(table, columns.arena, [], columns.next_row)


def are_marked(
    columns: Columns,
    marks: Marks,
    indices: Indices | slice = slice(None),
    sides: Collection[str] = ("key", "value"),
) -> npt.NDArray[np.bool_]:
    """Return which of some records look as the marks say, by their headers and the first bytes of keys and values."""
    arena = np.frombuffer(columns.arena, np.uint8)
    table = columns.table
    is_first = np.zeros(256, np.bool_)
    is_first[list(marks.first_bytes)] = True
    counts = table["headers_count"][indices]
    found = np.zeros(len(counts), np.bool_)
    for side in sides:
        filled = np.flatnonzero(table[f"{side}_size"][indices] > 0)
        found[filled] |= is_first[arena[table[f"{side}_start"][indices][filled]]]
    if marks.header_keys:
        places = np.arange(len(table))[indices]
        for place in np.flatnonzero((counts > 0) & ~found).tolist():
            found[place] = marks.are_on(None, None, columns.headers(int(places[place])))
    return found


@dataclass(frozen=True)
class Rows:
    """Some records of a run of batches.

    Attributes:
        partition: partition of the records.
        segment: base offset of the segment.
        columns: decoded records of the run.
        table: BATCH_ROW rows of the run; `columns.row` is an index into them.
        fates: fate of each row of the table; None when none is transactional.
        indices: chosen records, ascending.
        decoder: decoder of keys and values; None for raw bytes.
        keeps_bytes: whether keys and values stay bytes, beside the columns of decoded ones.
        fields: decoded keys and values of the chosen records; None if they are not decoded yet.
        leftover: file or folder that a broker set aside, and that has the records; "" for a log's own.
    """

    partition: TopicPartition
    segment: Offset
    columns: Columns
    table: npt.NDArray[Any]
    fates: npt.NDArray[np.uint8] | None
    indices: Indices
    decoder: LineDecoder | None = None
    keeps_bytes: bool = False
    fields: Fields | None = None
    leftover: str = ""

    def __len__(self) -> int:
        return len(self.indices)

    def some(self, places: npt.NDArray[Any] | slice) -> Rows:
        """Return some of the records, by their places among the chosen ones."""
        fields = self.fields
        if fields is not None:
            chosen = np.arange(len(self))[places].tolist()
            key, value = ([side[place] for place in chosen] for side in fields)
            fields = (key, value)
        return replace(self, indices=self.indices[places], fields=fields)

    @cached_property
    def places(self) -> Indices | slice:
        """Indices; a slice for consecutive records, which numpy copies ten times faster."""
        first, last = int(self.indices[0]), int(self.indices[-1])
        return slice(first, last + 1) if last - first + 1 == len(self) else self.indices

    @property
    def timestamps(self) -> npt.NDArray[Any]:
        """The timestamp of each record."""
        return self.numbers("timestamp")

    def numbers(self, field: str) -> npt.NDArray[Any]:
        """Return a field of each record."""
        column: npt.NDArray[Any] = self.columns.table[field][self.places]
        return column

    def of_batch(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return for each record the value of its batch.

        Args:
            values: one value for each row of the table.
        """
        column: npt.NDArray[Any] = values[self.numbers("row")]
        return column
