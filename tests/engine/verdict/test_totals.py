"""What losses add up to: each offset once, and apart what a rebuild takes from .swap files and what a log has itself."""

from __future__ import annotations

from dataclasses import replace

from engine.log.segment.damage import Elsewhere, ElsewhereKind
from engine.verdict.loss import Loss, LossKind
from engine.verdict.totals import LossTotals
from kafkafs.loss_words import closing

SWAP = Elsewhere(ElsewhereKind.LEFTOVER, "orders-0/00000000000000000395.log.swap")
COPY = Elsewhere(ElsewhereKind.COPY, "/data/orders-0")
FUTURE = f"orders-0.{'0' * 32}-future"


def loss(first: int, following: int, *places: Elsewhere, partition: str = "orders-0") -> Loss:
    return Loss(
        partition=partition,
        kind=LossKind.GAP,
        first_offset=first,
        next_offset=following,
        file="",
        reason="",
        elsewhere=places,
    )


def test_an_offset_counts_once() -> None:
    totals = LossTotals.of([loss(0, 10), loss(5, 20)])
    assert (totals.offsets, totals.swapped, totals.moving) == (20, 0, 0)
    assert closing(totals) == "lost for good here: 20 offsets in 1 partition"


def test_what_a_swap_file_may_hold_is_not_lost_for_good() -> None:
    totals = LossTotals.of([loss(0, 10, SWAP), loss(30, 35)])
    assert (totals.offsets, totals.swapped) == (15, 10)
    assert closing(totals, "before any start") == (
        "lost here: 15 offsets in 1 partition, before any start;"
        " up to 10 of them in .swap files, which kafkafs rebuild takes"
    )
    assert LossTotals.from_json(totals.to_json()) == totals
    assert LossTotals.joined([totals, totals]).swapped == 20


def test_a_batch_that_states_wrong_offsets_is_not_lost_for_good() -> None:
    misplaced = replace(loss(0, 10), damage_kinds=("offset_order",))
    damaged = replace(loss(20, 30), damage_kinds=("offset_order", "crc_mismatch"))
    totals = LossTotals.of([misplaced, damaged])
    assert (totals.offsets, totals.misplaced) == (20, 10)
    assert closing(totals) == (
        "lost here: 20 offsets in 1 partition; up to 10 of them in batches that state wrong offsets,"
        " which kafkafs rebuild puts right where it can"
    )
    assert LossTotals.from_json(totals.to_json()) == totals


def test_what_could_not_be_read_is_not_lost_for_good() -> None:
    unread = replace(loss(0, 10), damage_kinds=("unreadable",))
    totals = LossTotals.of([unread])
    assert closing(totals) == ("not readable here: 10 offsets in 1 partition")
    totals = LossTotals.of([unread, loss(20, 30)])
    assert closing(totals) == (
        "lost here: 20 offsets in 1 partition; up to 10 of them in bytes that could not be read"
    )
    assert LossTotals.from_json(totals.to_json()) == totals
    assert LossTotals.joined([totals, totals]).unread == 20


def test_what_only_a_future_log_lost_the_log_has() -> None:
    lost = [loss(0, 10, COPY, partition=FUTURE), loss(4, 6)]
    totals = LossTotals.of(lost)
    assert (totals.offsets, totals.moving) == (12, 8)
    assert closing(totals) == (
        "lost here: 12 offsets in 2 partitions;"
        " 8 of them in future logs alone: the current logs have them"
    )
    assert LossTotals.from_json(totals.to_json()) == totals
    alone = LossTotals.of([loss(0, 10, partition=FUTURE)])
    assert closing(alone) == "lost for good here: 10 offsets in 1 partition"
