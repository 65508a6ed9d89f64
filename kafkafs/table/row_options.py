"""Options of reading splits."""

from __future__ import annotations

from dataclasses import dataclass

from engine.budgets import DEFAULT_BUDGETS, Budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """What to do with records that are gone, damaged or aborted.

    Attributes:
        fail_on_data_loss: fail when planned offsets no longer exist.
        committed: leave out records of aborted transactions.
        on_corrupt: what to do at damage: "fail", "skip" or "row".
        decode: show keys and values of Kafka's internal topics as JSON.
        budgets: limits on memory and entries.
    """

    fail_on_data_loss: bool = True
    committed: bool = False
    on_corrupt: str = "fail"
    decode: bool = False
    budgets: Budgets = DEFAULT_BUDGETS
