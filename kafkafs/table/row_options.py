"""Options of reading splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.lines.line_decoder import LineDecoder

if TYPE_CHECKING:
    from kafkafs.table.masked_rows import RowMask

DecoderOf: TypeAlias = Callable[[str], LineDecoder | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """What to do with records that are gone, damaged or aborted.

    Attributes:
        fail_on_data_loss: fail when planned offsets no longer exist.
        committed: leave out records of aborted transactions.
        on_corrupt: what to do at damage: "fail", "skip" or "row".
        decoder_of: returns the decoder of a topic's keys and values, None for raw bytes; picklable.
        keeps_bytes: whether keys and values stay bytes, and only decodedKey and decodedValue have what is decoded.
        fail_on_undecodable: fail at a key or value that asks for a schema and does not decode.
        budgets: limits on memory and entries.
        mask: what rows and facts of damage leave out; None for nothing.
    """

    fail_on_data_loss: bool = True
    committed: bool = False
    on_corrupt: str = "fail"
    decoder_of: DecoderOf | None = None
    keeps_bytes: bool = False
    fail_on_undecodable: bool = False
    budgets: Budgets = DEFAULT_BUDGETS
    mask: RowMask | None = None
