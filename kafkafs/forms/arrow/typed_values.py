"""Columns of decoded keys and values that have a type: what tables need of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from kafkafs.records.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa


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
