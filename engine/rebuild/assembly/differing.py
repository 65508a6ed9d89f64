"""Find good batches of two copies with the same offsets and leader epoch, but other bytes.

While a copy is read, a fingerprint of each 4,096 offsets is kept, so that only where these differ the batches are
looked at again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.rebuild.assembly.pieces import Piece
from engine.units import Offset

_BITS = 12
_PRIME = np.uint64(0x9E3779B97F4A7C15)

Table: TypeAlias = npt.NDArray[Any]


class Fingerprints:
    """Fingerprints of the batches of a copy, by 4,096 offsets; the order of the batches does not matter."""

    def __init__(self) -> None:
        self._sums: dict[int, int] = {}

    def add(self, table: Table) -> None:
        """Add batches; their leader epochs do not count."""
        base = table["base_offset"].astype(np.uint64)
        prints = (base * _PRIME) ^ (table["crc"].astype(np.uint64) << np.uint64(20))
        prints = (prints ^ (prints >> np.uint64(29))) * _PRIME + table["size"].astype(np.uint64)
        places = table["base_offset"] >> _BITS
        starts = np.concatenate(([0], np.flatnonzero(places[1:] != places[:-1]) + 1))
        sums = np.bitwise_xor.reduceat(prints, starts)
        for place, each in zip(places[starts].tolist(), sums.tolist(), strict=True):
            self._sums[place] = self._sums.get(place, 0) ^ each

    def differing(self, other: Fingerprints) -> Iterator[tuple[Offset, Offset]]:
        """Yield the ranges of offsets, ascending and as long as possible, where two copies are not the same."""
        start = end = -1
        for place in sorted(self._sums.keys() & other._sums.keys()):
            if self._sums[place] == other._sums[place]:
                continue
            if place != end:
                if end >= 0:
                    yield start << _BITS, end << _BITS
                start = place
            end = place + 1
        if end >= 0:
            yield start << _BITS, end << _BITS


class Differing(NamedTuple):
    """Batches of a copy in a row that differ from those with the same offsets in the result.

    Attributes:
        piece: the first of them.
        taken: the file that has the batches of the result.
        first_offset, last_offset: their offsets.
        size: their bytes.
    """

    piece: Piece
    taken: str
    first_offset: Offset
    last_offset: Offset
    size: int


def differing_batches(
    pieces: Sequence[Piece],
    taken: Sequence[Piece],
    bounds: tuple[Offset, Offset],
    compares: Callable[[Offset, int], bool],
) -> Iterator[Differing]:
    """Yield the batches of a copy that differ from those with the same offsets in the result.

    Args:
        pieces: pieces of the copy.
        taken: pieces of the result.
        bounds: offsets to compare, [first, end).
        compares: returns whether a batch, by its base offset and leader epoch, is of the result's leader.

    Raises:
        OSError: a file cannot be read.
    """
    known = _Rows(taken, bounds)
    found: Differing | None = None
    for piece in pieces:
        if piece.origin is None or not _touches(piece, bounds):
            continue
        for table in _tables(piece, bounds):
            for row in table:
                base, last = int(row["base_offset"]), int(row["last_offset"])
                if not compares(base, piece.epoch):
                    continue
                other = known.other_than(base, last, int(row["size"]), int(row["crc"]))
                if other is None or other.origin is piece.origin or other.origin is None:
                    continue
                size, path = int(row["size"]), other.origin.path
                if found is not None and found.last_offset + 1 == base and found.taken == path:
                    found = found._replace(last_offset=last, size=found.size + size)
                    continue
                if found is not None:
                    yield found
                at = piece._replace(position=int(row["position"]), size=size)
                found = Differing(at, path, base, last, size)
    if found is not None:
        yield found


class _Rows:
    """The batches of the result within bounds."""

    def __init__(self, pieces: Sequence[Piece], bounds: tuple[Offset, Offset]) -> None:
        found = [
            (piece, table)
            for piece in pieces
            if piece.origin is not None and _touches(piece, bounds)
            for table in _tables(piece, bounds)
        ]
        self._pieces = [piece for piece, table in found for _ in range(len(table))]
        columns = ("base_offset", "last_offset", "size", "crc")
        self._columns = [
            [value for _, table in found for value in table[name].tolist()] for name in columns
        ]

    def other_than(self, base: Offset, last: Offset, size: int, crc: int) -> Piece | None:
        """Return the piece whose batch has some of these offsets, but is another batch; None without one."""
        bases, lasts, sizes, crcs = self._columns
        at = bisect_right(bases, last) - 1
        if at < 0 or lasts[at] < base:
            return None
        if (bases[at], lasts[at], sizes[at], crcs[at]) == (base, last, size, crc):
            return None
        return self._pieces[at]


def _touches(piece: Piece, bounds: tuple[Offset, Offset]) -> bool:
    return piece.base_offset < bounds[1] and piece.next_offset > bounds[0]


def _tables(piece: Piece, bounds: tuple[Offset, Offset]) -> Iterator[Table]:
    for run in piece.runs():
        inside = (run.table["base_offset"] < bounds[1]) & (run.table["last_offset"] >= bounds[0])
        if inside.any():
            yield run.table[inside].copy()
        del run
