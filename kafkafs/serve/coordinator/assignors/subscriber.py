"""What an assignor gets, and what it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Place: TypeAlias = tuple[str, int]
"""Topic id and partition."""


class Subscriber(NamedTuple):
    """A member as an assignor sees it.

    Attributes:
        order: its place among the members for `range`: static members by instance id, then the others.
        topics: ids of its topics, all of which exist, in the order of a broker.
        current: what it has been assigned.
    """

    member_id: str
    order: tuple[bool, str]
    topics: tuple[str, ...]
    current: frozenset[Place]


Assignment: TypeAlias = dict[str, set[Place]]
"""Partitions by member id."""
Assignor: TypeAlias = Callable[[Sequence[Subscriber], Mapping[str, int], bool], Assignment]
"""Assigns partitions to members, by numbers of partitions by topic id, and whether all subscribe to the same."""
