"""Options of reading splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.lines.line_decoder import LineDecoder
from kafkafs.decode.error_line import shown_facts
from kafkafs.table.splits.split import Split
from kafkafs.table.splits.split_scan import corruption, in_full

if TYPE_CHECKING:
    from kafkafs.masking.line_mask import LineMask
    from kafkafs.records.row_mask import RowMask

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

    def mask_of(self, topic: str) -> LineMask | None:
        """Return the mask of a topic; None for a topic that is shown as it is."""
        return None if self.mask is None else self.mask.of(topic)

    def reported(self, split: Split, facts: dict[str, Any]) -> dict[str, Any] | None:
        """Return the facts of damage in a split for a row about it; None if it is skipped.

        Raises:
            CorruptBatchError: `on_corrupt` is fail.
        """
        facts = in_full(split, shown_facts(facts, self.mask_of(split.partition.topic)))
        if self.on_corrupt == "fail":
            raise corruption(facts)
        return facts if self.on_corrupt == "row" else None
