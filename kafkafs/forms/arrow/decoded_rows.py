"""Columns of decoded keys and values, beside the exact bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine import kernel
from engine.lines.json_text import Shown, Values
from engine.lines.line_decoder import HIDDEN, DecodedField
from kafkafs.forms.arrow.errors import NOT_FITTING, UndecodableRecordError
from kafkafs.records.decoded import embedded_json
from kafkafs.records.rows import Rows

DECODED_FIELDS: dict[str, pa.DataType] = {
    "decodedKey": pa.string(),
    "decodedValue": pa.string(),
    "keySchema": pa.string(),
    "valueSchema": pa.string(),
    "keyNote": pa.string(),
    "valueNote": pa.string(),
}
"""Texts of the record line: the JSON, which schemas or the bytes themselves give, null where the line has none; the JSON
that names its schema; the note.
"""

_TYPED = {"key": "key", "value": "value", "decodedKey": "key", "decodedValue": "value"}
"""Columns that may have types, and the sides that they show."""
_SIDES = ("key", "value")
_NEITHER = "the bytes are neither text nor JSON, and name no schema"


def refuse_undecoded(rows: Rows) -> Rows:
    """Return the rows, of which each key and value that asks for a schema decodes.

    Raises:
        UndecodableRecordError: one does not.
    """
    for index, *both in zip(rows.indices.tolist(), *(rows.fields or ()), strict=True):
        for side, field in zip(_SIDES, both, strict=True):
            if field is not None and field.text is None and field.note is not None:
                offset = int(rows.columns.offset[index])
                raise UndecodableRecordError(rows.partition, offset, side, field.note)
    return rows


def refuse_misfits(rows: Rows, made: Mapping[str, pa.Array]) -> None:
    """Check that no key or value, and no time in one, is null in a typed column for another reason than a null in the log.

    Args:
        rows: the rows.
        made: their typed columns, and the notes on these.

    Raises:
        UndecodableRecordError: one is.
    """
    for name, array in made.items():
        side = _TYPED.get(name)
        if side is None:
            continue
        notes = made[f"{side}Note"]
        is_part = pc.fill_null(pc.match_substring(notes, NOT_FITTING), False)
        misfits = np.flatnonzero(pc.or_(pc.and_(array.is_null(), notes.is_valid()), is_part))
        if len(misfits):
            place = int(misfits[0])
            offset = int(rows.columns.offset[rows.indices[place]])
            raise UndecodableRecordError(rows.partition, offset, side, notes[place].as_py())


def shown_bytes(rows: Rows, side: int) -> pa.Array:
    """Return the decoded keys (0) or values (1), and as they are the bytes that are not decoded."""
    exact = rows.columns.value if side else rows.columns.key
    shown = [
        exact(index) if field is None or field.text is None else field.text
        for index, field in zip(rows.indices.tolist(), _fields(rows, side), strict=True)
    ]
    return pa.array(shown, pa.binary())


def _texts(side: int) -> Callable[[Rows], pa.Array]:
    """Return the builder of the JSON of keys (0) or values (1)."""

    def text(field: DecodedField | None, rows: Rows, index: int) -> bytes | None:
        if field is not None and (field.text is not None or field.made_by is HIDDEN):
            return field.text
        return embedded_json(_exact(rows, side, index))

    return lambda rows: pa.array([text(*each) for each in _fields_of(rows, side)], pa.string())


def _notes(side: int) -> Callable[[Rows], pa.Array]:
    """Return the builder of the notes on keys (0) or values (1)."""

    def note(field: DecodedField | None, rows: Rows, index: int) -> str | None:
        if field is not None:
            return field.note
        data = _exact(rows, side, index)
        is_text = data is None or kernel.how_shown(data, Values.TEXT) == Shown.TEXT
        return None if is_text else _NEITHER

    return lambda rows: pa.array([note(*each) for each in _fields_of(rows, side)], pa.string())


def _exact(rows: Rows, side: int, index: int) -> bytes | None:
    return rows.columns.value(index) if side else rows.columns.key(index)


def _fields_of(rows: Rows, side: int) -> Iterator[tuple[DecodedField | None, Rows, int]]:
    for field, index in zip(_fields(rows, side), rows.indices.tolist(), strict=True):
        yield field, rows, index


def _column(side: int, fact: str) -> Callable[[Rows], pa.Array]:
    of = attrgetter(fact)
    return lambda rows: pa.array(
        [None if field is None else of(field) for field in _fields(rows, side)], pa.string()
    )


def _fields(rows: Rows, side: int) -> Sequence[DecodedField | None]:
    assert rows.fields is not None
    return rows.fields[side]


BUILDERS: dict[str, Callable[[Rows], pa.Array]] = {
    "decodedKey": _texts(0),
    "decodedValue": _texts(1),
    "keySchema": _column(0, "schema"),
    "valueSchema": _column(1, "schema"),
    "keyNote": _notes(0),
    "valueNote": _notes(1),
}
