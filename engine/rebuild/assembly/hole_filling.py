"""Fill the holes of a log with batches of other sources."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from engine.rebuild.assembly.pieces import Piece, rows_to_pieces
from engine.units import MAX_INT64, Offset


class Filled(NamedTuple):
    """A log with fewer holes.

    Attributes:
        pieces: all pieces, in offset order.
        added: the added pieces.
        refused: batches that overlap pieces or do not fit.
    """

    pieces: list[Piece]
    added: list[Piece]
    refused: list[Piece]


def fill(
    pieces: Sequence[Piece],
    candidates: Iterable[Piece],
    *,
    must_touch: bool = False,
    lowest: Offset = 0,
    any_epoch: bool = False,
    fits: Callable[[Piece], bool] | None = None,
) -> Filled:
    """Add the candidates that fit before, between and after the pieces.

    Args:
        pieces: in offset order, not overlapping.
        candidates: further pieces; a part of one may fit.
        must_touch: before the first and after the last piece, accept only batches without a gap;
            without pieces, only batches from `lowest` on.
        lowest: accept no batch below this offset.
        any_epoch: do not require leader epochs to be between those of their neighbours.
        fits: final predicate for each batch.
    """
    result = list(pieces)
    added: list[Piece] = []
    refused: list[Piece] = []
    for candidate in sorted(candidates, key=lambda piece: piece.base_offset):
        for part in _parts(result, candidate):
            at = bisect_right(result, part.base_offset, key=_base_of)
            if (
                part.base_offset >= lowest
                and (result or not must_touch or part.base_offset == lowest)
                and _has_room(result, at, part, must_touch, any_epoch)
                and (fits is None or fits(part))
            ):
                result.insert(at, part)
                added.append(part)
            else:
                refused.append(part)
    return Filled(result, added, refused)


def _parts(pieces: Sequence[Piece], candidate: Piece) -> list[Piece]:
    """Return the candidate whole if it is inside one hole or outside of all; else cut at the borders of holes."""
    holes = _holes(pieces, candidate.base_offset, candidate.next_offset)
    whole = any(a <= candidate.base_offset and candidate.next_offset <= b for a, b in holes)
    if whole or not holes or candidate.origin is None or candidate.batches == 1:
        return [candidate]
    parts: list[Piece] = []
    for run in candidate.runs():
        base, last = run.table["base_offset"], run.table["last_offset"]
        room = np.zeros(len(base), np.int64)
        for number, (low, high) in enumerate(holes):
            room[(base >= low) & (last < high)] = number + 1
        edges = np.concatenate(([0], np.flatnonzero(np.diff(room)) + 1, [len(room)]))
        for first, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            table = run.table[first:stop]
            parts += rows_to_pieces(candidate.origin, run.with_table(table), at_gaps=False)
        del run  # free it before the next one is read: a batch may be as large as the budget
    return parts


def _holes(pieces: Sequence[Piece], low: Offset, high: Offset) -> list[tuple[Offset, Offset]]:
    """Return the parts without pieces of the ranges that touch [low, high)."""
    at = max(bisect_right(pieces, low, key=_base_of) - 1, 0)
    start = pieces[at - 1].next_offset if at else 0
    holes = []
    for piece in pieces[at:]:
        if piece.base_offset > start and piece.base_offset > low and start < high:
            holes.append((start, piece.base_offset))
        start = piece.next_offset
        if start >= high:
            return holes
    holes.append((start, MAX_INT64))
    return holes


def _has_room(
    pieces: Sequence[Piece], at: int, piece: Piece, must_touch: bool, any_epoch: bool
) -> bool:
    """Return whether a piece fits before the piece at an index: by its offsets, and by its leader epoch."""
    before = pieces[at - 1] if at else None
    after = pieces[at] if at < len(pieces) else None
    return _may_follow(
        piece, before, must_touch=must_touch and after is None, any_epoch=any_epoch
    ) and _may_follow(after, piece, must_touch=must_touch and before is None, any_epoch=any_epoch)


def _may_follow(
    second: Piece | None, first: Piece | None, *, must_touch: bool, any_epoch: bool
) -> bool:
    """Return whether a piece may follow another; batches before magic 2 have no leader epoch."""
    if first is None or second is None:
        return True
    if not any_epoch and first.epoch > second.epoch >= 0:
        return False
    touches = first.next_offset == second.base_offset
    return touches or (not must_touch and first.next_offset < second.base_offset)


def _base_of(piece: Piece) -> Offset:
    return piece.base_offset
