"""What a reader asks for: isolation, and what happens at damage."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from engine.budgets import Budgets
from kafkafs.table.row_options import DecoderOf, RowOptions

if TYPE_CHECKING:
    from kafkafs.records.row_mask import RowMask

Value = TypeVar("Value")

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]
Corrupt: TypeAlias = Literal["raise", "skip", "row"]

_MOST_THREADS = 8
_ON_CORRUPT = {"raise": "fail", "skip": "skip", "row": "row"}
_COMMITTED = {"read_uncommitted": False, "read_committed": True}


def row_options(
    isolation: str,
    on_corrupt: str,
    budgets: Budgets,
    *,
    decoder_of: DecoderOf | None = None,
    keeps_bytes: bool = False,
    mask: RowMask | None = None,
) -> RowOptions:
    """Return the options of reading splits.

    Args:
        isolation: "read_uncommitted" or "read_committed".
        on_corrupt: "raise", "skip" or "row".
        budgets: limits on memory and entries.
        decoder_of: returns the decoder of a topic's keys and values; None for raw bytes.
        keeps_bytes: whether keys and values stay bytes beside decoded columns.
        mask: what records leave out.

    Raises:
        ValueError: an unknown isolation or treatment of damage.
    """
    return RowOptions(
        committed=_one_of(_COMMITTED, "isolation", isolation),
        on_corrupt=_one_of(_ON_CORRUPT, "on_corrupt", on_corrupt),
        decoder_of=decoder_of,
        keeps_bytes=keeps_bytes,
        budgets=budgets,
        mask=mask,
    )


def _one_of(known: dict[str, Value], name: str, given: str) -> Value:
    if given not in known:
        raise ValueError(f"{name} is one of {', '.join(known)}, not {given!r}")
    return known[given]


def usual_threads() -> int:
    """Return the number of threads of a reader that states none."""
    return min(os.cpu_count() or 1, _MOST_THREADS)
