"""A transaction that has ended."""

from __future__ import annotations

from typing import NamedTuple

from engine.units import Offset


class CompletedTxn(NamedTuple):
    """A transaction with records, and its end marker.

    Attributes:
        first_offset: first offset of its first batch in this partition.
        last_offset: offset of the end marker.
    """

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool
