"""Typed columns that count the keys and values which are null in them, and not in the log."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kafkafs.forms.arrow.errors import NOT_FITTING
from kafkafs.forms.arrow.typed_values import TypedValues
from kafkafs.records.rows import Rows

_NOTES = {"decodedKey": "keyNote", "decodedValue": "valueNote"}


class CountedMisfits(TypedValues):
    """The columns `decodedKey` and `decodedValue` of a topic, and how many keys and values do not fit. Thread-safe.

    Args:
        typed: the columns.

    Attributes:
        count: number of keys and values that are null, or have a time that is, and have a note.
        untold: one of the notes that were not asked for with their columns; None without any.
    """

    def __init__(self, typed: TypedValues) -> None:
        self._typed = typed
        self._lock = threading.Lock()
        self.count = 0
        self.untold: str | None = None

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The Arrow types by name of the column."""
        return self._typed.types

    def made(self, names: Collection[str]) -> list[str]:
        """Return those columns of a table that `batches` makes, as `TypedValues.made`."""
        return self._typed.made(names)

    def batches(
        self, rows: Rows, names: Collection[str]
    ) -> Iterator[tuple[Rows, dict[str, pa.Array]]]:
        """Yield rows with the columns that are made of them, as `TypedValues.batches`."""
        notes = {name: note for name, note in _NOTES.items() if name in names}
        for shown, made in self._typed.batches(rows, {*names, *notes.values()}):
            for name, note in notes.items():
                if name in made:
                    self._add(made[name], made[note], is_told=note in names)
            yield shown, {name: array for name, array in made.items() if name in names}

    def _add(self, column: pa.Array, notes: pa.Array, *, is_told: bool) -> None:
        if notes.null_count == len(notes):
            return
        is_part = pc.fill_null(pc.match_substring(notes, NOT_FITTING), False)
        found = notes.filter(pc.or_(pc.and_(column.is_null(), notes.is_valid()), is_part))
        if len(found):
            with self._lock:
                self.count += len(found)
                if not is_told and self.untold is None:
                    self.untold = found[0].as_py()
