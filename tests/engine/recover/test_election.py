"""Who leads a recovered partition: the table that real controllers of Kafka 4.3.1 were seen to follow."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.recover.election import (
    NO_LEADER,
    Rules,
    elected_in,
    elects_eligible,
    other_leaders,
    possible_leaders,
)
from engine.recover.metadata.cluster_metadata import newest_metadata
from tests.engine.recover.metadata.clusters import (
    config,
    each_in_a_batch,
    feature,
    node_of,
    placements_of,
    topic,
    write_log_dir,
)

THREE = (1, 2, 3)
EVERY_ORDER = list(permutations(THREE))


def one_by_one(order: tuple[int, ...]) -> list[tuple[str, int]]:
    return [(act, each) for each in order for act in ("register", "unfence")]


@pytest.mark.parametrize("min_isr", [1, 2, 3])
@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("best", THREE)
def test_the_chosen_leader_leads_whatever_the_order_of_starts(
    best: int, elr: bool, min_isr: int
) -> None:
    assert possible_leaders(THREE, best, Rules(elr=elr, min_isr=min_isr)) == {best}


def test_without_a_leader_nobody_leads_where_replicas_are_eligible() -> None:
    for order in EVERY_ORDER:
        assert elected_in(THREE, NO_LEADER, one_by_one(order), Rules()).leader == NO_LEADER


def test_without_a_leader_the_replica_in_sync_leads_where_none_are_eligible() -> None:
    assert possible_leaders(THREE, NO_LEADER, Rules(elr=False)) == {1}


@pytest.mark.parametrize("elr", [True, False])
def test_an_unclean_topic_may_be_led_by_another_replica(elr: bool) -> None:
    assert possible_leaders(THREE, 2, Rules(elr=elr, unclean=True)) == {1, 2, 3}
    first_up = elected_in(THREE, 2, one_by_one((3, 2, 1)), Rules(elr=elr, unclean=True))
    assert first_up.leader == 3


def test_one_replica_leads_also_if_the_topic_is_unclean() -> None:
    for unclean in (False, True):
        for elr in (False, True):
            assert possible_leaders((7,), 7, Rules(elr=elr, unclean=unclean)) == {7}


def test_the_epoch_grows_by_at_most_three_until_the_leader_leads() -> None:
    for order in EVERY_ORDER:
        found = elected_in(THREE, 2, one_by_one(order), Rules())
        assert found.isr == [2]
        assert 1 <= found.leader_epoch <= 3
        assert found.was_unclean


def test_a_partition_waits_for_its_leader() -> None:
    without = elected_in(THREE, 2, one_by_one((1, 3)), Rules())
    assert (without.leader, without.isr) == (2, [2])
    registered = elected_in(THREE, 2, [*one_by_one((1, 3)), ("register", 2)], Rules())
    assert (registered.leader, registered.isr, registered.last_known) == (NO_LEADER, [], [2])


def test_of_many_replicas_each_is_tried_as_the_first() -> None:
    many = tuple(range(1, 9))
    assert possible_leaders(many, 4, Rules()) == {4}
    assert possible_leaders(many, 4, Rules(unclean=True)) == set(many)


def test_a_cluster_names_the_partitions_that_another_replica_may_lead(tmp_path: Path) -> None:
    records = [
        feature("metadata.version", 30),
        *topic("a", 1, 2),
        *topic("b", 2),
        *topic("c", 3),
        config(2, "b", "unclean.leader.election.enable", "true"),
    ]
    nodes = [node_of(1), node_of(2)]
    found = {}
    for name, more in (
        ("topic", []),
        ("all", [config(4, "", "unclean.leader.election.enable", "true")]),
    ):
        path = write_log_dir(tmp_path / name, each_in_a_batch([*records, *more]))
        metadata = newest_metadata([open_source(str(path))])
        placements = placements_of(metadata, nodes)
        found[name] = {
            f"{each.topic}-{each.partition}": leaders
            for each, leaders in other_leaders(metadata, placements, has_elr=True)
        }
    assert found["topic"] == {"b-0": {1, 2}}
    assert sorted(found["all"]) == ["a-0", "a-1", "b-0", "c-0"]
    assert elects_eligible({"eligible.leader.replicas.version": 1})
    assert not elects_eligible({"metadata.version": 30})
