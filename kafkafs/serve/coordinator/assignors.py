"""The two assignors of consumer groups: range and uniform. Both are sticky as far as their balance allows."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

Place = tuple[str, int]
"""Topic id and partition."""


class Subscriber(NamedTuple):
    """A member as an assignor sees it.

    Attributes:
        order: its place among the members for `range`: static members by instance id, then the others.
        topics: ids of its topics, all of which exist.
        current: what it has been assigned.
    """

    member_id: str
    order: tuple[bool, str]
    topics: frozenset[str]
    current: frozenset[Place]


Assignment = dict[str, set[Place]]
Assignor = Callable[[Sequence[Subscriber], Mapping[str, int]], Assignment]


def assign_ranges(members: Sequence[Subscriber], sizes: Mapping[str, int]) -> Assignment:
    """Give each member of a topic consecutive partitions; the first members get one more.

    Args:
        members: the members.
        sizes: numbers of partitions by topic id.
    """
    found: Assignment = {member.member_id: set() for member in members}
    ordered = sorted(members, key=lambda member: member.order)
    for topics, group in _by_subscribers(ordered):
        for topic in topics:
            least, more = divmod(sizes[topic], len(group))
            start = 0
            for place, member in enumerate(group):
                end = start + least + (place < more)
                found[member.member_id].update((topic, number) for number in range(start, end))
                start = end
    return found


def assign_uniformly(members: Sequence[Subscriber], sizes: Mapping[str, int]) -> Assignment:
    """Give all members numbers of partitions that differ as little as their subscriptions allow, and move few.

    Args:
        members: the members.
        sizes: numbers of partitions by topic id.
    """
    found: Assignment = {}
    taken: set[Place] = set()
    for member in members:
        kept = {
            (topic, number)
            for topic, number in member.current
            if topic in member.topics and number < sizes[topic] and (topic, number) not in taken
        }
        taken |= kept
        found[member.member_id] = kept
    classes = _by_subscribers(members)
    for topics, group in classes:
        free = [
            (topic, number)
            for topic in topics
            for number in range(sizes[topic])
            if (topic, number) not in taken
        ]
        _hand_out(free, group, found)
    while sum(_level(topics, group, found) for topics, group in classes):
        pass  # a move between two members can make room for one between others; each brings all closer
    return found


def _by_subscribers(members: Sequence[Subscriber]) -> list[tuple[list[str], list[Subscriber]]]:
    """Return topics that have the same subscribers, with these, in a fixed order."""
    subscriptions: dict[frozenset[str], list[int]] = {}
    for place, member in enumerate(members):
        subscriptions.setdefault(member.topics, []).append(place)
    places_of: dict[str, list[int]] = {}
    for topics, places in subscriptions.items():
        for topic in topics:
            places_of.setdefault(topic, []).extend(places)
    classes: dict[tuple[int, ...], list[str]] = {}
    for topic in sorted(places_of):
        classes.setdefault(tuple(sorted(places_of[topic])), []).append(topic)
    return [(topics, [members[place] for place in places]) for places, topics in classes.items()]


def _hand_out(free: Iterable[Place], group: Sequence[Subscriber], found: Assignment) -> None:
    """Give each free partition to a member with the fewest."""
    loads = [(len(found[member.member_id]), place) for place, member in enumerate(group)]
    heapq.heapify(loads)
    for partition in free:
        load, place = loads[0]
        found[group[place].member_id].add(partition)
        heapq.heapreplace(loads, (load + 1, place))


def _level(topics: Iterable[str], group: Sequence[Subscriber], found: Assignment) -> bool:
    """Move partitions of topics from members with many to members with few; return whether any moved."""
    wanted = set(topics)
    movable = {
        member.member_id: sorted(each for each in found[member.member_id] if each[0] in wanted)
        for member in group
    }
    loads = Counter({member.member_id: len(found[member.member_id]) for member in group})
    low = [(load, name) for name, load in loads.items()]
    high = [(-load, name) for name, load in loads.items()]
    heapq.heapify(low)
    heapq.heapify(high)
    has_moved = False
    while high:
        load, name = heapq.heappop(high)
        if -load != loads[name] or not movable[name]:
            continue
        while low[0][0] != loads[low[0][1]]:
            heapq.heappop(low)
        least, other = low[0]
        if loads[name] - least <= 1:
            break
        partition = movable[name].pop()
        found[name].remove(partition)
        found[other].add(partition)
        for member, change in ((name, -1), (other, 1)):
            loads[member] += change
            heapq.heappush(low, (loads[member], member))
            heapq.heappush(high, (-loads[member], member))
        movable[other].append(partition)
        has_moved = True
    return has_moved


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
DEFAULT_ASSIGNOR = "uniform"
