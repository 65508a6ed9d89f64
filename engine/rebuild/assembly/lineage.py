"""Find the leader epochs of batches, and which of several copies of a partition leads.

A batch's checksum does not cover its leader epoch, but epochs only grow: a batch with an epoch that
is not between those of its neighbours has a damaged epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from engine.rebuild.assembly.pieces import Piece
from engine.replicas.choice import Lineage, leading
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import NO_PARTITION_LEADER_EPOCH, EpochEntry, Offset


def believable(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces, in order, with never decreasing epochs that have the most batches."""
    tips: list[int] = []  # ascending by epoch and by weight
    weights: list[int] = []
    before: list[int] = []
    for at, piece in enumerate(pieces):
        place = bisect_right(tips, piece.epoch, key=lambda tip: pieces[tip].epoch)
        before.append(tips[place - 1] if place else -1)
        weight = piece.batches + (weights[place - 1] if place else 0)
        stop = place
        while stop < len(tips) and weights[stop] <= weight:
            stop += 1
        if place and pieces[tips[place - 1]].epoch == piece.epoch:
            place -= 1
        tips[place:stop], weights[place:stop] = [at], [weight]
    chain = []
    at = tips[-1] if tips else -1
    while at >= 0:
        chain.append(pieces[at])
        at = before[at]
    return chain[::-1]


def lineage(
    pieces: Sequence[Piece], known: LeaderEpochCache
) -> tuple[LeaderEpochCache, list[Piece]]:
    """Return the leader epochs of a log, and the pieces with a wrong epoch.

    Args:
        pieces: pieces of the log.
        known: entries of its checkpoint; used if all believable pieces agree with them.
    """
    chain = believable([piece for piece in pieces if piece.epoch >= 0])
    if chain and all(known.epoch_for(piece.base_offset) == piece.epoch for piece in chain):
        right = known
    else:
        found: dict[int, Offset] = {}
        for piece in chain:
            found.setdefault(piece.epoch, piece.base_offset)
        right = LeaderEpochCache(EpochEntry(*item) for item in found.items())
    odd = [
        piece
        for piece in pieces
        if piece.epoch < NO_PARTITION_LEADER_EPOCH
        or (piece.epoch >= 0 and right.epoch_for(piece.base_offset) != piece.epoch)
    ]
    return right, odd


def latest_epoch(pieces: Sequence[Piece], known: LeaderEpochCache) -> int:
    """Return the epoch of the newest believable batch; -1 without one.

    No checksum covers an epoch: above the last one of the checkpoint, one that a single batch states is not believed.
    """
    chain = believable([piece for piece in pieces if piece.epoch >= 0])
    latest = known.latest
    if latest is not None:
        below = [piece for piece in chain if piece.epoch <= latest.epoch]
        newest = sum(piece.batches for piece in chain if piece.epoch == chain[-1].epoch)
        chain = chain if not below and newest > 1 else below
    return chain[-1].epoch if chain else -1


def reference(copies: Sequence[tuple[Sequence[Piece], LeaderEpochCache]]) -> int:
    """Return the index of the leading copy, see `replicas.choice.leading`; its epochs are those of all its batches."""
    return leading(
        [
            Lineage(latest_epoch(pieces, known), pieces[-1].next_offset if pieces else -1)
            for pieces, known in copies
        ]
    )
