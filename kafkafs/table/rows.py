"""Some records of a run of batches, by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.columns.columns import Columns
from engine.lines.line_decoder import DecodedField, LineDecoder
from engine.units import Offset, TopicPartition

Indices: TypeAlias = npt.NDArray[np.int64]


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
    """

    partition: TopicPartition
    segment: Offset
    columns: Columns
    table: npt.NDArray[Any]
    fates: npt.NDArray[np.uint8] | None
    indices: Indices
    decoder: LineDecoder | None = None
    keeps_bytes: bool = False

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def places(self) -> Indices | slice:
        """Indices; a slice for consecutive records, which numpy copies ten times faster."""
        first, last = int(self.indices[0]), int(self.indices[-1])
        return slice(first, last + 1) if last - first + 1 == len(self) else self.indices

    def numbers(self, field: str) -> npt.NDArray[Any]:
        """Return a field of each record."""
        column: npt.NDArray[Any] = self.columns.table[field][self.places]
        return column

    @cached_property
    def decoded(self) -> tuple[list[bytes | None], list[bytes | None]]:
        """The keys and the values as JSON; bytes that the decoder leaves alone stay as they are."""
        columns, places = self.columns, self.indices.tolist()
        keys, values = self.decoded_json
        return (
            [columns.key(at) if key is None else key for at, key in zip(places, keys, strict=True)],
            [
                columns.value(at) if value is None else value
                for at, value in zip(places, values, strict=True)
            ],
        )

    @cached_property
    def decoded_json(self) -> tuple[list[bytes | None], list[bytes | None]]:
        """The JSON of the keys and the values; None for bytes that the decoder leaves alone."""
        if self.decoder is None:
            return [None] * len(self), [None] * len(self)
        columns, keys, values = self.columns, [], []
        for index in self.indices.tolist():
            key, value, headers = columns.key(index), columns.value(index), columns.headers(index)
            shown: Sequence[DecodedField | None] = (None, None)
            if self.decoder.may_decode(key, value, headers):
                timestamp = int(columns.timestamp[index])
                shown = self.decoder.fields(key, value, headers, timestamp)
            keys.append(None if shown[0] is None else shown[0].text)
            values.append(None if shown[1] is None else shown[1].text)
        return keys, values

    def of_batch(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return for each record the value of its batch.

        Args:
            values: one value for each row of the table.
        """
        column: npt.NDArray[Any] = values[self.numbers("row")]
        return column
