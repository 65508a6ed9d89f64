"""The topics that the members of a consumer group subscribe to, by names and by patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kafkafs.serve.coordinator.assignors.hash_order import in_hash_order
from kafkafs.serve.coordinator.consumer_member import ConsumerMember
from kafkafs.serve.coordinator.limits import ByteAccount
from kafkafs.serve.coordinator.topics_now import TopicsNow

_PLACE_BYTES = 400
"""Bytes that a partition costs that is to be assigned."""
_RESOLVE_SECONDS = 10.0
"""Least time between two look-ups of the topics that the patterns of a group match, as in brokers."""


class Subscriptions:
    """The subscriptions of a group.

    Args:
        members: the members of the group, as they are at any time.
        account: counts the bytes of partitions.

    Attributes:
        are_alike: whether all members state the same names or the same pattern, with the topics that it matches alone.
        resolved: ids of the topics that patterns of members match; a new pattern is looked up after its heartbeat.
        seen: the topics of the source when they were looked at last.
        sizes: numbers of partitions of the subscribed topics.
    """

    def __init__(self, members: Mapping[str, ConsumerMember], account: ByteAccount) -> None:
        self.are_alike = True
        self.resolved: dict[str, frozenset[str]] = {}
        self.seen = TopicsNow({})
        self.sizes: Mapping[str, int] = {}
        self._members = members
        self._account = account
        self._resolved_of: TopicsNow | None = None
        self._resolved_at = 0.0

    def topics(self, member: ConsumerMember) -> frozenset[str]:
        """Return the ids of the topics of a member; a pattern that has not been looked up matches none."""
        matched = self.resolved.get(member.pattern, frozenset())
        return self.seen.ids(member.names) | (matched & self.seen.sizes.keys())

    def in_order(self, member: ConsumerMember) -> tuple[str, ...]:
        """Return the ids of the topics of a member in the order of a broker."""
        by_name = {self.seen.names[topic]: topic for topic in self.topics(member)}
        return tuple(by_name[name] for name in in_hash_order(sorted(by_name)))

    def change(self, member: ConsumerMember, names: frozenset[str], pattern: str) -> bool:
        """Set the subscription of a member; return whether it is another one."""
        before = member.names, member.pattern
        member.names, member.pattern = names, pattern
        if pattern != before[1]:
            self._forget_pattern(before[1])
        return (names, pattern) != before

    def forget(self, gone: Iterable[ConsumerMember]) -> None:
        """Forget the subscriptions of members that are gone.

        As in brokers, the topics of a pattern that nobody has any more count once more when members are compared.
        """
        self.compare()
        for member in gone:
            self._forget_pattern(member.pattern)
        self.refresh(self.seen)

    def _forget_pattern(self, pattern: str) -> None:
        if all(each.pattern != pattern for each in self._members.values()):
            self.resolved.pop(pattern, None)

    def release(self) -> None:
        """Give back the bytes of partitions."""
        self._account.held -= _PLACE_BYTES * sum(self.sizes.values())

    # What the source has

    def may_resolve(self, now_seconds: float) -> bool:
        """Return whether patterns may be looked up again."""
        return not self.resolved or now_seconds > self._resolved_at + _RESOLVE_SECONDS

    def resolve(self, now: TopicsNow, now_seconds: float) -> bool:
        """Look up the topics of patterns; return whether they are others than before."""
        patterns = {each.pattern for each in self._members.values() if each.pattern}
        if not patterns or (patterns == self.resolved.keys() and now is self._resolved_of):
            return False
        found = {pattern: now.matched(pattern) for pattern in patterns}
        has_changed = any(
            topics != self.resolved.get(each, frozenset()) for each, topics in found.items()
        )
        self.resolved, self._resolved_of, self._resolved_at = found, now, now_seconds
        return self.refresh(now) or has_changed

    def update(self, now: TopicsNow, *, has_changed: bool) -> bool:
        """Look at the topics again if a subscription has changed, or the topics; return whether either has."""
        if not has_changed and self.seen is now:
            return False
        self.compare()
        return self.refresh(now) or has_changed

    def refresh(self, now: TopicsNow) -> bool:
        """Look at the topics of all members; return whether they are others than before."""
        self.seen = now
        wanted = {topic for each in self._members.values() for topic in self.topics(each)}
        sizes = {topic: now.sizes[topic] for topic in wanted}
        has_changed = sizes != self.sizes
        self._account.held += _PLACE_BYTES * (sum(sizes.values()) - sum(self.sizes.values()))
        self.sizes = sizes
        return has_changed

    def compare(self) -> None:
        """Compare the subscriptions of all members, for `are_alike`."""
        members = self._members.values()
        names = self.seen.names
        named = Counter(name for each in members for name in each.names)
        matched = Counter(
            names.get(topic, topic) for topics in self.resolved.values() for topic in topics
        )
        topics = named.keys() | matched.keys()
        patterns = {each.pattern for each in members}
        if patterns <= {""}:
            self.are_alike = all(named[each] == len(members) for each in topics)
        else:
            self.are_alike = len(patterns) == 1 and all(
                matched[each] == 1 and not named[each] for each in topics
            )
