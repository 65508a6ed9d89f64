"""The assignors of consumer groups: every partition goes to one of its subscribers, evenly, and moves little."""

from __future__ import annotations

from random import Random

import pytest

from kafkafs.serve.coordinator.assignors import (
    Assignment,
    Subscriber,
    assign_ranges,
    assign_uniformly,
)


def member(
    name: str, *topics: str, current: Assignment | None = None, instance: str | None = None
) -> Subscriber:
    """A member as an assignor sees it."""
    mine = frozenset((current or {}).get(name, ()))
    return Subscriber(name, (instance is None, instance or name), frozenset(topics), mine)


def loads(found: Assignment) -> list[int]:
    """The numbers of partitions of all members, ascending."""
    return sorted(map(len, found.values()))


def moved(before: Assignment, after: Assignment) -> int:
    """How many partitions have another owner."""
    return sum(len(places - after.get(name, set())) for name, places in before.items())


def test_ranges_are_consecutive_and_the_first_members_get_more():
    found = assign_ranges([member("b", "t"), member("a", "t"), member("c", "u")], {"t": 5, "u": 2})
    assert found == {
        "a": {("t", 0), ("t", 1), ("t", 2)},
        "b": {("t", 3), ("t", 4)},
        "c": {("u", 0), ("u", 1)},
    }


def test_ranges_of_static_members_come_first():
    found = assign_ranges([member("a", "t"), member("z", "t", instance="one")], {"t": 3})
    assert found == {"z": {("t", 0), ("t", 1)}, "a": {("t", 2)}}


def test_more_members_than_partitions_leave_some_without():
    assert loads(assign_ranges([member(each, "t") for each in "abc"], {"t": 2})) == [0, 1, 1]
    assert loads(assign_uniformly([member(each, "t") for each in "abc"], {"t": 2})) == [0, 1, 1]


def test_uniform_spreads_topics_of_one_partition():
    sizes = {f"t{number}": 1 for number in range(7)}
    assert loads(assign_uniformly([member("a", *sizes), member("b", *sizes)], sizes)) == [3, 4]


def test_uniform_moves_only_what_a_new_member_gets():
    sizes = {"t": 12}
    before = assign_uniformly([member("a", "t"), member("b", "t")], sizes)
    after = assign_uniformly([member(each, "t", current=before) for each in "abc"], sizes)
    assert loads(after) == [4, 4, 4]
    assert moved(before, after) == 4


def test_uniform_keeps_what_the_others_have_when_a_member_leaves():
    sizes = {"t": 12}
    before = assign_uniformly([member(each, "t") for each in "abc"], sizes)
    after = assign_uniformly([member(each, "t", current=before) for each in "ab"], sizes)
    assert loads(after) == [6, 6]
    assert moved({name: before[name] for name in "ab"}, after) == 0


def test_uniform_follows_subscriptions():
    sizes = {"t": 4, "u": 4}
    found = assign_uniformly([member("a", "t"), member("b", "t", "u")], sizes)
    assert found == {
        "a": {("t", each) for each in range(4)},
        "b": {("u", each) for each in range(4)},
    }


def test_a_topic_that_is_gone_or_smaller_leaves_nothing_behind():
    before = {"a": {("t", 0), ("t", 5), ("gone", 0)}}
    assert assign_uniformly([member("a", "t", current=before)], {"t": 2}) == {
        "a": {("t", 0), ("t", 1)}
    }


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("assign", [assign_ranges, assign_uniformly])
def test_every_partition_has_one_owner_that_subscribes_to_it(assign, seed):
    random = Random(seed)
    sizes = {f"t{number}": random.randint(1, 9) for number in range(random.randint(1, 8))}
    current: Assignment = {}
    for _ in range(4):
        names = random.sample("abcdefgh", random.randint(1, 8))
        members = [
            member(
                name, *random.sample(sorted(sizes), random.randint(1, len(sizes))), current=current
            )
            for name in names
        ]
        current = assign(members, sizes)
        owned = [place for places in current.values() for place in places]
        wanted = {topic for each in members for topic in each.topics}
        assert sorted(owned) == sorted(
            (topic, number) for topic in wanted for number in range(sizes[topic])
        )
        for each in members:
            assert {topic for topic, _ in current[each.member_id]} <= each.topics
        if assign is assign_uniformly:
            for giver in members:
                for taker in members:
                    can_move = any(topic in taker.topics for topic, _ in current[giver.member_id])
                    gap = len(current[giver.member_id]) - len(current[taker.member_id])
                    assert gap <= 1 or not can_move
