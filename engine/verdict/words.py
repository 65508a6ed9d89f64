"""Words for ranges of offsets."""

from __future__ import annotations

from engine.units import Offset


def offsets_are(first: Offset, following: Offset) -> str:
    """Return the subject of a sentence about the offsets [first, following), with its verb."""
    number = following - first
    if number == 1:
        return f"offset {first} is"
    return f"offsets {first} to {following - 1} ({number}) are"
