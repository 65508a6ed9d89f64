"""The assignor `uniform`: numbers of partitions that differ as little as the subscriptions allow, and few moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from kafkafs.serve.coordinator.assignors.balancing import Balancing
from kafkafs.serve.coordinator.assignors.hash_order import (
    ids_in_hash_order,
    in_hash_order,
    numbers_in_hash_order,
)
from kafkafs.serve.coordinator.assignors.subscriber import Assignment, Place, Subscriber


def assign_uniformly(
    members: Sequence[Subscriber], sizes: Mapping[str, int], are_alike: bool
) -> Assignment:
    """Give all members numbers of partitions that differ as little as possible, and move few.

    Args:
        members: the members, in the order in which a broker adds them to a hash map.
        sizes: numbers of partitions by topic id.
        are_alike: whether all subscribe to the topics of the first member.
    """
    by_id = {member.member_id: member for member in members}
    ordered = [_of_now(by_id[name], sizes) for name in in_hash_order(by_id)]
    if are_alike:
        return _assign_alike(ordered, sizes)
    return Balancing(ordered, sizes).assigned()


def _of_now(member: Subscriber, sizes: Mapping[str, int]) -> Subscriber:
    """Return a member without partitions that are gone."""
    return member._replace(
        current=frozenset(place for place in member.current if place[1] < sizes.get(place[0], 0))
    )


def _assign_alike(members: Sequence[Subscriber], sizes: Mapping[str, int]) -> Assignment:
    topics = ids_in_hash_order(members[0].topics)
    taken = {place for member in members for place in member.current}
    every = [(topic, number) for topic in topics for number in range(sizes[topic])]
    free = [place for place in every if place not in taken]
    least, more = divmod(len(every), len(members))
    found: Assignment = {}
    unfilled: list[tuple[str, int]] = []
    for place, member in enumerate(members):
        has_more = more > 0
        quota = least + has_more
        held = [each for each in _in_order(member.current) if each[0] in members[0].topics]
        found[member.member_id] = set(held[:quota])
        free += held[quota:]
        quota = max(quota - len(held), 0)
        if quota and has_more and len(members) - place > more:
            quota, has_more = quota - 1, False  # another member may have one more already
        more -= has_more
        if quota:
            unfilled.append((member.member_id, quota))
    places = iter(free)
    for name, quota in unfilled:
        found[name].update(islice(places, quota))
    return found


def _in_order(places: Iterable[Place]) -> Iterator[Place]:
    topics: dict[str, list[int]] = {}
    for topic, number in places:
        topics.setdefault(topic, []).append(number)
    for topic in ids_in_hash_order(sorted(topics)):
        for number in numbers_in_hash_order(topics[topic]):
            yield topic, number
