"""Where things lie in a log, as look-ups give it back."""

from __future__ import annotations

from typing import NamedTuple

from engine.log.segment.scan import Damage, Table
from engine.units import Offset, Position


class Landing(NamedTuple):
    """Where a search by offset ended: proven, with checksums, from a good batch on.

    Attributes:
        position: from where to read so that nothing of the offset and above is missed, damage included;
            the segment's end when everything lies below.
        next_offset: the smallest offset that belongs there.
        batch: the header of the first good batch that reaches the offset, a table of one row; None when
            there is none. Its bytes are not kept: `LogSegment.run_of` reads them again.
        damage: what is damaged right before that batch (or the end), if something is.
        is_disordered: whether offsets went back on the way: batches may lie where they do not belong.
    """

    position: Position
    next_offset: Offset
    batch: Table | None = None
    damage: Damage | None = None
    is_disordered: bool = False


class Extent(NamedTuple):
    """A part of a records file, and the smallest offset that belongs where it starts."""

    start: Position
    stop: Position
    next_offset: Offset


def joined(first: Damage, second: Damage) -> Damage:
    """Two stretches of damage side by side as one, for asking which offsets they can have held."""
    length = second.position + second.length - first.position
    return first._replace(length=length, last_offset=second.last_offset)
