"""The assignor `uniform` for members with different topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkafs.serve.coordinator.assignors.hash_order import id_order
from kafkafs.serve.coordinator.assignors.subscriber import Assignment, Subscriber

_MOST_ROUNDS = 16


class Balancing:
    """Gives free partitions to the least loaded members, then moves some from the most loaded ones, topic by topic.

    Args:
        members: the members, in the order that decides between equals.
        sizes: numbers of partitions by topic id.
    """

    def __init__(self, members: Sequence[Subscriber], sizes: Mapping[str, int]) -> None:
        self._names = [member.member_id for member in members]
        self._subscribers: dict[str, list[int]] = {}
        for place, member in enumerate(members):
            for topic in member.topics:
                self._subscribers.setdefault(topic, []).append(place)
        self._owners: dict[str, list[int | None]] = {
            topic: [None] * sizes[topic] for topic in self._subscribers
        }
        self.loads = [0] * len(members)
        for place, member in enumerate(members):
            for topic, number in member.current:
                if topic in member.topics:
                    self._give(topic, number, place)

    def assigned(self) -> Assignment:
        """Return what each member gets."""
        topics = sorted(self._subscribers, key=self._order)
        for topic in topics:
            free = [number for number, owner in enumerate(self._owners[topic]) if owner is None]
            if free:
                levels = _Levels(self.loads, self._subscribers[topic])
                for number in free:
                    self._give(topic, number, levels.least_loaded())
        self._balance([topic for topic in topics if len(self._subscribers[topic]) > 1])
        found: Assignment = {name: set() for name in self._names}
        for topic, owners in self._owners.items():
            for number, owner in enumerate(owners):
                if owner is not None:
                    found[self._names[owner]].add((topic, number))
        return found

    def _order(self, topic: str) -> tuple[float, int, tuple[int, int]]:
        """Topics with the most partitions for each subscriber come first."""
        count = len(self._subscribers[topic])
        return -len(self._owners[topic]) / count, count, id_order(topic)

    def _give(self, topic: str, number: int, member: int) -> None:
        before = self._owners[topic][number]
        if before is not None:
            self.loads[before] -= 1
        self._owners[topic][number] = member
        self.loads[member] += 1

    def _balance(self, topics: Sequence[str]) -> None:
        last: str | None = None
        for _ in range(_MOST_ROUNDS):
            for topic in topics:
                if topic == last:  # nothing has moved since
                    return
                if self._level(topic) or last is None:
                    last = topic

    def _level(self, topic: str) -> bool:
        """Move partitions of a topic; return whether any moved."""
        levels = _Levels(self.loads, self._subscribers[topic])
        if levels.gap <= 1:
            return False
        held: dict[int, list[int]] = {}
        for number, owner in enumerate(self._owners[topic]):
            if owner is not None:
                held.setdefault(owner, []).append(number)
        has_moved = False
        while not levels.is_balanced():
            giver = levels.most_loaded()
            while giver is not None and not held.get(giver):
                levels.exclude_most_loaded()
                giver = levels.most_loaded()
            if giver is None:
                break
            number = held[giver].pop()
            taker = levels.least_loaded()
            if levels.is_balanced():
                break
            self._give(topic, number, taker)
            has_moved = True
        return has_moved


class _Levels:
    """Subscribers of a topic by their loads: the least loaded ones fill up, the most loaded ones empty.

    Args:
        loads: numbers of partitions of all members, as they are now.
        members: the subscribers.
    """

    def __init__(self, loads: Sequence[int], members: Sequence[int]) -> None:
        self._loads = loads
        self._sorted = sorted(members, key=lambda member: (loads[member], member))
        low, high = loads[self._sorted[0]], loads[self._sorted[-1]]
        self.gap = high - low
        self._low, self._low_end, self._next_low = low - 1, 0, 0
        self._high, self._high_start = high + 1, len(self._sorted)
        self._high_end, self._next_high = len(self._sorted), len(self._sorted) - 1

    def is_balanced(self) -> bool:
        """Return whether moving another partition would not help."""
        return self._high - self._low <= 1

    def least_loaded(self) -> int:
        """Return the next member that gets a partition."""
        if self._next_low >= self._low_end:
            self._low += 1
            while (
                self._low_end < len(self._sorted)
                and self._loads[self._sorted[self._low_end]] == self._low
            ):
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self._sorted[self._next_low - 1]

    def most_loaded(self) -> int | None:
        """Return the next member that loses a partition; None if no member has any left."""
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high = self._loads[self._sorted[self._high_start - 1]]
            else:
                self._high -= 1
            while (
                self._high_start > 0
                and self._loads[self._sorted[self._high_start - 1]] == self._high
            ):
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return self._sorted[self._next_high + 1]

    def exclude_most_loaded(self) -> None:
        """Pass over the member that was returned last: it has no partition of the topic."""
        here, end = self._next_high + 1, self._high_end - 1
        self._sorted[here], self._sorted[end] = self._sorted[end], self._sorted[here]
        self._high_end -= 1
