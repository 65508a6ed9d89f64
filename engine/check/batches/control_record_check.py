"""Check of control records: their keys, their values, and their batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.check.rules.breach import Breach
from engine.columns.columns import Columns
from engine.record.attributes import TRANSACTIONAL_MASK

Table: TypeAlias = npt.NDArray[Any]

KEY_SIZE = 4
END_MARKER_SIZE = 6
_LAST_END_MARKER = 1
_LAST_KNOWN = 6


def control_breaches(table: Table, columns: Columns) -> Iterator[Breach]:
    """Yield the breaches of control records.

    Args:
        table: control batches, rows of BATCH_ROW.
        columns: their records.
    """
    places = np.arange(len(columns))
    key_size = columns.key_size[places]
    for place in places[key_size < KEY_SIZE]:
        yield _breach(table, columns, int(place), "a control record with too short a key")
    places = places[key_size >= KEY_SIZE]
    version, kind = _key_fields(columns, places)
    for place in places[version < 0]:
        yield _breach(table, columns, int(place), "a control record with a negative version")
    unknown = (kind < 0) | (kind > _LAST_KNOWN)
    for place, number in zip(places[unknown], kind[unknown], strict=True):
        sentence = f"a control record of unknown type {number}"
        yield _breach(table, columns, int(place), sentence, rule="control-type")
    yield from _marker_breaches(table, columns, places[(kind >= 0) & (kind <= _LAST_END_MARKER)])


def _key_fields(columns: Columns, places: Table) -> tuple[Table, Table]:
    """Return version and type of control records, int16 each."""
    arena = np.frombuffer(columns.arena, np.uint8)
    starts = columns.key_start[places]
    fields = [arena[starts + at].astype(np.uint16) for at in range(KEY_SIZE)]
    version = (fields[0] << np.uint16(8) | fields[1]).view(np.int16)
    return version, (fields[2] << np.uint16(8) | fields[3]).view(np.int16)


def _marker_breaches(table: Table, columns: Columns, places: Table) -> Iterator[Breach]:
    """Check end-transaction markers: the value, and that each is alone in a transactional batch."""
    if not len(places):
        return
    rows = columns.row[places]
    for place in places[columns.value_size[places] < END_MARKER_SIZE]:
        sentence = "an end marker with a missing or too short value"
        yield _breach(table, columns, int(place), sentence)
    for place in places[table["attributes"][rows] & TRANSACTIONAL_MASK == 0]:
        sentence = "an end marker in a batch that is not transactional"
        yield _breach(table, columns, int(place), sentence)
    several = (np.diff(rows) == 0).nonzero()[0]
    for place in places[several]:
        sentence = "several end markers in one batch"
        yield _breach(table, columns, int(place), sentence)


def _breach(
    table: Table, columns: Columns, place: int, sentence: str, rule: str = "control-record"
) -> Breach:
    batch = table[columns.row[place]]
    offset = int(columns.offset[place])
    return Breach.of(rule, batch, f"{sentence}, at offset {offset}", offset=offset)
