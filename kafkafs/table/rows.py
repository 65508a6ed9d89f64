"""Some records of a run of batches, by their indices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.columns.columns import Columns
from engine.lines.line_decoder import DecodedField, LineDecoder
from engine.units import Offset, TopicPartition
from kafkafs.records.visible import Indices

if TYPE_CHECKING:
    import pyarrow as pa

Fields: TypeAlias = tuple[list[DecodedField | None], list[DecodedField | None]]
"""Decoded keys and values of some records; None for bytes that are not decoded."""


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


class TypedValues(Protocol):
    """Columns of decoded keys and values that have a type."""

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The Arrow types by name of the column."""

    def made(self, names: Collection[str]) -> list[str]:
        """Return those columns of a table that `batches` makes: typed ones, and the notes on them."""

    def batches(
        self, rows: Rows, names: Collection[str]
    ) -> Iterator[tuple[Rows, dict[str, pa.Array]]]:
        """Yield rows with the columns that are made of them, in parts of about 16 MiB, unless one value is larger.

        Args:
            rows: rows with the decoder of their topic; not none.
            names: names of a table's columns.
        """
