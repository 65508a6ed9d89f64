"""The assignors of consumer groups: every partition goes to one of its subscribers, evenly, and moves little."""

from __future__ import annotations

import base64
from random import Random

import pytest

from kafkafs.serve.coordinator.assignors.choice import ASSIGNORS, elected
from kafkafs.serve.coordinator.assignors.hash_order import (
    in_hash_order,
    in_table_order,
    numbers_in_hash_order,
)
from kafkafs.serve.coordinator.assignors.ranges import assign_ranges
from kafkafs.serve.coordinator.assignors.subscriber import Assignment, Subscriber
from kafkafs.serve.coordinator.assignors.uniform import assign_uniformly


def topic(number: int) -> str:
    """A topic id."""
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode()[:22]


T, U, V, GONE = map(topic, (100, 101, 102, 103))


def member(
    name: str, *topics: str, current: Assignment | None = None, instance: str | None = None
) -> Subscriber:
    """A member as an assignor sees it."""
    mine = frozenset((current or {}).get(name, ()))
    return Subscriber(name, (instance is None, instance or name), topics, mine)


def ranges(members: list[Subscriber], sizes: dict[str, int]) -> Assignment:
    return assign_ranges(members, sizes, len({frozenset(each.topics) for each in members}) == 1)


def uniform(members: list[Subscriber], sizes: dict[str, int]) -> Assignment:
    return assign_uniformly(members, sizes, len({frozenset(each.topics) for each in members}) == 1)


def loads(found: Assignment) -> list[int]:
    """The numbers of partitions of all members, ascending."""
    return sorted(map(len, found.values()))


def moved(before: Assignment, after: Assignment) -> int:
    """How many partitions have another owner."""
    return sum(len(places - after.get(name, set())) for name, places in before.items())


def test_members_and_topics_have_the_order_of_a_broker_s_hash_maps():
    assert in_table_order(["e3", "b0", "f2", "e1"], 4) == ["f2", "e1", "b0", "e3"]
    assert in_hash_order(["e1", "d0", "b0", "f2"]) == ["e1", "d0", "f2", "b0"]
    assert in_hash_order(["uniform", "range"]) == ["uniform", "range"]
    assert numbers_in_hash_order([17, 3, 16, 2]) == [16, 17, 2, 3]


def test_unlike_members_get_what_a_broker_gives_them():
    current: Assignment = {"a1": {(U, 0), (T, 0), (T, 1)}, "g0": {(T, 2)}}
    members = [
        member("g0", T, current=current),
        member("a1", T, U, current=current),
        member("a2", U, V),
    ]
    assert uniform(members, {T: 3, U: 1, V: 1}) == {
        "a1": {(U, 0), (T, 0)},
        "g0": {(T, 1), (T, 2)},
        "a2": {(V, 0)},
    }


def test_ranges_are_consecutive_and_the_first_members_get_more():
    found = ranges([member("b", T), member("a", T), member("c", U)], {T: 5, U: 2})
    assert found == {
        "a": {(T, 0), (T, 1), (T, 2)},
        "b": {(T, 3), (T, 4)},
        "c": {(U, 0), (U, 1)},
    }


def test_ranges_of_static_members_come_first():
    found = ranges([member("a", T), member("z", T, instance="one")], {T: 3})
    assert found == {"z": {(T, 0), (T, 1)}, "a": {(T, 2)}}


def test_more_members_than_partitions_leave_some_without():
    assert loads(ranges([member(each, T) for each in "abc"], {T: 2})) == [0, 1, 1]
    assert loads(uniform([member(each, T) for each in "abc"], {T: 2})) == [0, 1, 1]


def test_uniform_spreads_topics_of_one_partition():
    sizes = {topic(number): 1 for number in range(7)}
    assert loads(uniform([member("a", *sizes), member("b", *sizes)], sizes)) == [3, 4]


def test_uniform_moves_only_what_a_new_member_gets():
    sizes = {T: 12}
    before = uniform([member("a", T), member("b", T)], sizes)
    after = uniform([member(each, T, current=before) for each in "abc"], sizes)
    assert loads(after) == [4, 4, 4]
    assert moved(before, after) == 4


def test_uniform_keeps_what_the_others_have_when_a_member_leaves():
    sizes = {T: 12}
    before = uniform([member(each, T) for each in "abc"], sizes)
    after = uniform([member(each, T, current=before) for each in "ab"], sizes)
    assert loads(after) == [6, 6]
    assert moved({name: before[name] for name in "ab"}, after) == 0


def test_uniform_follows_subscriptions():
    sizes = {T: 4, U: 4}
    found = uniform([member("a", T), member("b", T, U)], sizes)
    assert found == {
        "a": {(T, each) for each in range(4)},
        "b": {(U, each) for each in range(4)},
    }


def test_a_topic_that_is_gone_or_smaller_leaves_nothing_behind():
    before = {"a": {(T, 0), (T, 5), (GONE, 0)}}
    assert uniform([member("a", T, current=before)], {T: 2}) == {"a": {(T, 0), (T, 1)}}


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("assign", [ranges, uniform])
def test_every_partition_has_one_owner_that_subscribes_to_it(assign, seed):
    random = Random(seed)
    sizes = {topic(number): random.randint(1, 9) for number in range(random.randint(1, 8))}
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
            assert {topic for topic, _ in current[each.member_id]} <= set(each.topics)
        if assign is uniform:
            for giver in members:
                for taker in members:
                    can_move = any(topic in taker.topics for topic, _ in current[giver.member_id])
                    gap = len(current[giver.member_id]) - len(current[taker.member_id])
                    assert gap <= 1 or not can_move


# The choice of one


def test_the_assignor_is_the_one_that_most_members_ask_for():
    assert elected([None, "range", "uniform", "range"]) == "range"
    assert elected([None, None, None, "range"]) == "range"


@pytest.mark.parametrize("wishes", [[], [None, None], ["range", "uniform"]])
def test_the_assignor_is_uniform_if_the_members_do_not_decide(wishes: list[str | None]) -> None:
    assert elected(wishes) == "uniform"


def test_of_equals_the_assignor_that_only_the_asking_member_wants_is_chosen():
    assert elected(["range", "uniform"], "range") == "range"
    assert elected(["range", "uniform"], "uniform") == "uniform"
    assert elected(["range", "range", "uniform", "uniform"], "range") == "uniform"
    assert elected(["range", "uniform", "uniform"], "range") == "uniform"


def test_the_assignors_are_in_the_order_of_the_table_of_a_broker():
    names = list(ASSIGNORS)
    assert in_table_order(names, len(names)) == in_table_order(names[::-1], len(names)) == names
