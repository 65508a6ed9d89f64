"""The best lineage leads: largest epoch of the last batch, then the largest end; the others agree up to a known offset."""

from __future__ import annotations

import pytest

from engine.replicas.choice import CopyFacts, Lineage, choose
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import EpochEntry, Offset


def copy(
    node: int,
    epochs: list[tuple[int, Offset]],
    end: Offset,
    *,
    first: Offset = 0,
    deleted_to: Offset | None = None,
    topic_id: str | None = "A",
    cluster_id: str = "c",
) -> CopyFacts:
    known = LeaderEpochCache(EpochEntry(*each) for each in epochs)
    epoch = known.epoch_for(end - 1)
    lineage = Lineage(-1 if epoch is None else epoch, end)
    return CopyFacts(
        f"/b{node}", node, cluster_id, topic_id, first, lineage, known, None, deleted_to
    )


def test_the_largest_epoch_of_a_last_batch_leads_however_short_its_log() -> None:
    chosen = choose([copy(1, [(0, 0)], 900), copy(2, [(0, 0), (1, 100)], 120)])
    assert chosen.leading == 1
    assert chosen.agreed == (100, 120)
    assert chosen.tail(0, 900) == (100, 900)
    assert (
        chosen.reason == "node 2 (/b2) has the last batch of the newest epoch, 1; the others have 0"
    )


def test_of_one_epoch_the_largest_end_leads_whoever_the_metadata_names() -> None:
    chosen = choose([copy(1, [(0, 0)], 90), copy(2, [(0, 0)], 100)], told="the leader was node 1")
    assert chosen.leading == 1
    assert chosen.agreed == (90, 100)
    assert chosen.tail(0, 90) is None
    assert "largest log end of epoch 0: 100" in chosen.reason
    assert chosen.reason.endswith("; the leader was node 1")


def test_copies_agree_up_to_the_end_of_the_largest_epoch_that_both_know() -> None:
    """Epoch 2 was led elsewhere: its records in the second copy lost to those of epoch 3."""
    leader = copy(1, [(0, 0), (1, 50), (3, 80)], 200)
    other = copy(2, [(0, 0), (1, 50), (2, 70)], 90)
    assert choose([leader, other]).agreed == (200, 70)


@pytest.mark.parametrize("first", [0, 60])
def test_a_copy_from_before_the_leaders_first_epoch_agrees_up_to_its_start(first: Offset) -> None:
    leader = copy(1, [(5, 60)], 200, first=60)
    chosen = choose([leader, copy(2, [(4, 0)], 90, first=first)])
    assert chosen.agreed == (200, 60)
    assert chosen.start == first


def test_the_log_starts_where_any_copy_says_that_records_were_deleted_up_to() -> None:
    copies = [copy(1, [(0, 0)], 100), copy(2, [(0, 0)], 90, deleted_to=60), copy(3, [(0, 0)], 90)]
    assert choose(copies).start == 60


def test_another_topic_of_the_same_name_is_a_stranger() -> None:
    copies = [copy(1, [(9, 0)], 500, topic_id="old"), copy(2, [(0, 0)], 9), copy(3, [(0, 0)], 8)]
    chosen = choose(copies)
    assert chosen.leading == 1
    assert chosen.agreed == (None, 9, 8)
    assert list(chosen.strangers) == [0]
    assert "node 1 (/b1)" in chosen.strangers[0]
    assert "old" in chosen.strangers[0]
    assert choose(copies, topic_id="old").leading == 0


def test_a_copy_without_an_id_joins_and_one_of_another_cluster_does_not() -> None:
    copies = [
        copy(1, [(0, 0)], 5),
        copy(2, [(0, 0)], 9, topic_id=None),
        copy(3, [(0, 0)], 99, cluster_id="d"),
        copy(4, [(0, 0)], 9),
    ]
    chosen = choose(copies)
    assert chosen.leading == 1
    assert list(chosen.strangers) == [2]
    assert "cluster d" in chosen.strangers[2]


def test_before_magic_2_copies_agree_up_to_the_shorter_end() -> None:
    assert choose([copy(1, [], 50), copy(2, [], 70)]).agreed == (50, 70)
