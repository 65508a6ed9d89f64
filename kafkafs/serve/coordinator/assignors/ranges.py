"""The assignor `range`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkafs.serve.coordinator.assignors.subscriber import Assignment, Subscriber


def assign_ranges(
    members: Sequence[Subscriber], sizes: Mapping[str, int], are_alike: bool
) -> Assignment:
    """Give each member of a topic consecutive partitions; the first members get one more.

    Args:
        members: the members.
        sizes: numbers of partitions by topic id.
        are_alike: whether all subscribe to the topics of the first member.
    """
    found: Assignment = {member.member_id: set() for member in members}
    subscribers: dict[str, list[str]] = {}
    ordered = sorted(members, key=lambda member: member.order)
    for member in ordered:
        for topic in (ordered[0] if are_alike else member).topics:
            subscribers.setdefault(topic, []).append(member.member_id)
    for topic, names in subscribers.items():
        least, more = divmod(sizes[topic], len(names))
        start = 0
        for place, name in enumerate(names):
            end = start + least + (place < more)
            found[name].update((topic, number) for number in range(start, end))
            start = end
    return found
