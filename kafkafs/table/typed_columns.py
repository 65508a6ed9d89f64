"""Decoded keys and values as columns of the Arrow types of a topic's newest Avro schemas.

A value of an older schema is read by Avro's rules of resolution. A value that does not fit is null, and the column
`keyNote` or `valueNote` says why; a null without a note was null in the log.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from engine.lines.line_decoder import DecodedField
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.avro_schema import AvroType
from kafkafs.schemas.decoders.cache import make_decoder
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.schema import SchemaKind
from kafkafs.schemas.store import SchemaStore
from kafkafs.table.avro_types import Fit, arrow_type, fit_of
from kafkafs.table.rows import Fields, Rows

_SIDES = ("key", "value")
_MOST_WRITERS = 512
_MISFITS = (
    UndecodableError, ValueError, TypeError, KeyError, AttributeError, OverflowError, ArithmeticError,
)  # fmt: skip
"""What says that a value has another type; PyArrow's errors are among them."""


def typed_columns(topic: str, store: SchemaStore) -> TypedColumns:
    """Return the columns of a topic's keys and values, as far as their newest schemas are Avro.

    Raises:
        ValueError: neither keys nor values have an Avro schema, or one has no Arrow type.
    """
    found: dict[str, AvroColumn] = {}
    for name in _SIDES:
        schema = store.newest(topic, is_key=name == "key")
        if schema is None or schema.kind is not SchemaKind.AVRO:
            continue
        try:
            decoder = make_decoder(schema, store)
        except UndecodableError as error:
            raise ValueError(f"{schema.name}: {error}") from error
        assert isinstance(decoder, AvroDecoder)
        found[name] = AvroColumn(decoder.schema)
    if not found:
        raise ValueError(f"no Avro schema of keys or values of {topic!r} is known")
    return TypedColumns(found)


class AvroColumn:
    """Column of values of an Avro schema. Thread-safe.

    Args:
        schema: the schema.

    Attributes:
        type: the Arrow type.

    Raises:
        ValueError: the schema has more types than a column may have.
    """

    def __init__(self, schema: AvroType) -> None:
        self.type = arrow_type(schema)
        self._schema = schema
        self._fits: dict[AvroDecoder, Fit | str] = {}

    def array(self, fields: list[DecodedField | None]) -> tuple[pa.Array, dict[int, str]]:
        """Return the values of decoded fields, and by place the notes on those that do not fit.

        Args:
            fields: decoded keys or values.
        """
        values: list[Any] = [None] * len(fields)
        notes: dict[int, str] = {}
        for place, field in enumerate(fields):
            if field is None or field.text is None:
                continue
            fit = self._fit(field.made_by)
            if isinstance(fit, str):
                notes[place] = fit
                continue
            try:
                values[place] = fit(json.loads(field.text))
            except _MISFITS as error:
                notes[place] = _misfit(error)
        try:
            return pa.array(values, self.type), notes
        except (*_MISFITS, pa.ArrowException):
            self._drop_misfits(values, notes)
            return pa.array(values, self.type), notes

    def _drop_misfits(self, values: list[Any], notes: dict[int, str]) -> None:
        for place, value in enumerate(values):
            try:
                pa.array([value], self.type)
            except (*_MISFITS, pa.ArrowException) as error:
                values[place] = None
                notes[place] = _misfit(error)

    def _fit(self, decoder: object) -> Fit | str:
        """Return how values of a decoder are read; a note if they cannot be."""
        if not isinstance(decoder, AvroDecoder):
            return "the value does not fit the column: it has no Avro schema of its own"
        found = self._fits.get(decoder)
        if found is None:
            try:
                found = fit_of(decoder.schema, self._schema)
            except _MISFITS as error:
                found = _misfit(error)
            if len(self._fits) < _MOST_WRITERS:
                self._fits[decoder] = found
        return found


class TypedColumns:
    """The columns of a topic's keys and values that have a type. Thread-safe.

    Args:
        columns: by "key" and "value".
    """

    def __init__(self, columns: Mapping[str, AvroColumn]) -> None:
        self._columns = columns

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The Arrow types of the columns."""
        return {name: column.type for name, column in self._columns.items()}

    def are_in(self, names: Collection[str]) -> bool:
        """Return whether a table with some columns shows values of these columns, or notes on them."""
        return any(name in names or f"{name}Note" in names for name in self._columns)

    def of(self, rows: Rows, names: Collection[str]) -> tuple[Rows, dict[str, pa.Array]]:
        """Return decoded rows with notes on what does not fit, and the columns of a table.

        Args:
            rows: rows with their decoded fields.
            names: names of the table's columns.
        """
        assert rows.fields is not None
        sides = list(rows.fields)
        made: dict[str, pa.Array] = {}
        for side, name in enumerate(_SIDES):
            column = self._columns.get(name)
            if column is None or (name not in names and f"{name}Note" not in names):
                continue
            array, notes = column.array(sides[side])
            made[name] = array
            sides[side] = _with_notes(rows, sides[side], notes, side)
        fields: Fields = (sides[0], sides[1])
        return replace(rows, fields=fields), made


def _with_notes(
    rows: Rows, fields: list[DecodedField | None], notes: dict[int, str], side: int
) -> list[DecodedField | None]:
    sizes = rows.columns.value_size if side else rows.columns.key_size
    noted = list(fields)
    for place, (field, size) in enumerate(zip(fields, sizes[rows.indices].tolist(), strict=True)):
        if field is None and size >= 0:
            noted[place] = DecodedField(None, note="the bytes name no schema")
        elif field is not None and place in notes:
            both = "; ".join(note for note in (field.note, notes[place]) if note)
            noted[place] = field._replace(note=both)
    return noted


def _misfit(error: BaseException) -> str:
    reason = error.reason if isinstance(error, UndecodableError) else str(error)
    return f"the value does not fit the column: {reason}"[:500]
