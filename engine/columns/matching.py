"""Which records match: those with a field that holds some bytes, and that an automaton accepts."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from typing import NamedTuple

from engine.arrays import np, npt
from engine.coding.layout import Buffer
from engine.columns.columns import Columns
from engine.columns.decoding import Needle

BYTES = 256


class Fields(IntFlag):
    """Fields of a record that are searched; the kernel's C code has the same numbers."""

    KEY = 1
    VALUE = 2
    HEADERS = 4


class Automaton(NamedTuple):
    """A table of next states, for a regular expression.

    State 0 accepts whatever follows; the search of a field begins in state 1.

    Attributes:
        following: uint32; for each state 256 next states, each as its number times 256.
        accepts_end: uint8; whether a state accepts the end of the field.
    """

    following: npt.NDArray[np.uint32]
    accepts_end: npt.NDArray[np.uint8]

    def accepts(self, field: bytes) -> bool:
        """Return whether the expression is found in a field."""
        state = BYTES
        for byte in field:
            state = int(self.following[state | byte])
            if not state:
                return True
        return bool(self.accepts_end[state // BYTES])


def matching(
    columns: Columns,
    fields: int,
    needle: Buffer = b"",
    *,
    fold: bool = False,
    automaton: Automaton | None = None,
) -> npt.NDArray[np.uint8]:
    """Return for each record whether one of its fields matches: 1 or 0. A null never does.

    Args:
        columns: the records.
        fields: `Fields` to search.
        needle: bytes that the field must hold.
        fold: whether capital and small ASCII letters of the needle are the same.
        automaton: must accept the field too.
    """
    sought = Needle(bytes(needle), fold)
    return np.array(
        [
            any(
                sought.is_in(field) and (automaton is None or automaton.accepts(field))
                for field in _fields_of(columns, index, fields)
            )
            for index in range(len(columns))
        ],
        np.uint8,
    )


def _fields_of(columns: Columns, index: int, fields: int) -> Iterator[bytes]:
    """Yield a record's fields without its nulls."""
    found = [
        columns.key(index) if fields & Fields.KEY else None,
        columns.value(index) if fields & Fields.VALUE else None,
    ]
    if fields & Fields.HEADERS and columns.headers_count[index] > 0:
        for header in columns.headers(index):
            found += [header.key, header.value]
    return (field for field in found if field is not None)
