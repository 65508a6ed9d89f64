"""The topics of a group are those that its members name, or match with patterns that a broker has looked up."""

from __future__ import annotations

import pytest

from kafkafs.serve.coordinator.consumer_member import ConsumerMember
from kafkafs.serve.coordinator.limits import ByteAccount
from kafkafs.serve.coordinator.subscriptions import Subscriptions
from kafkafs.serve.coordinator.topics_now import KnownTopic, TopicsNow

T, U, V = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAw"
TOPICS = TopicsNow({"orders": KnownTopic(T, 4), "audit": KnownTopic(U, 2)})
LATER = TopicsNow(
    {"orders": KnownTopic(T, 4), "audit": KnownTopic(U, 2), "orders-eu": KnownTopic(V, 1)}
)
NO_NAMES = frozenset[str]()


class Members:
    """The members of a group, and what they subscribe to."""

    def __init__(self) -> None:
        self.account = ByteAccount(1_000_000)
        self.by_id: dict[str, ConsumerMember] = {}
        self.subscriptions = Subscriptions(self.by_id, self.account)

    def subscribe(self, name: str, *names: str, pattern: str = "") -> ConsumerMember:
        """A member, perhaps a new one, with another subscription."""
        member = self.by_id.setdefault(name, ConsumerMember(member_id=name, instance_id=None))
        self.subscriptions.change(member, frozenset(names), pattern)
        return member

    def leave(self, member: ConsumerMember) -> None:
        del self.by_id[member.member_id]
        self.subscriptions.forget([member])

    @property
    def are_alike(self) -> bool:
        self.subscriptions.compare()
        return self.subscriptions.are_alike


def test_a_member_has_the_topics_among_its_names_that_exist():
    members = Members()
    member = members.subscribe("a", "orders", "orders-eu")
    assert members.subscriptions.topics(member) == NO_NAMES  # nobody has looked yet
    assert members.subscriptions.update(TOPICS, has_changed=True)
    assert members.subscriptions.topics(member) == {T}
    assert members.subscriptions.update(LATER, has_changed=False)
    assert members.subscriptions.topics(member) == {T, V}


def test_only_topics_that_are_subscribed_to_are_a_change():
    members = Members()
    members.subscribe("a", "audit")
    members.subscriptions.refresh(TOPICS)
    assert not members.subscriptions.update(TOPICS, has_changed=False)
    assert not members.subscriptions.update(LATER, has_changed=False)
    assert members.subscriptions.update(LATER, has_changed=True)
    grown = TopicsNow({"audit": KnownTopic(U, 3)})
    assert members.subscriptions.update(grown, has_changed=False)
    assert members.subscriptions.sizes == {U: 3}


def test_a_pattern_matches_nothing_before_it_is_looked_up():
    members = Members()
    member = members.subscribe("a", pattern="ord.*")
    members.subscriptions.refresh(LATER)
    assert members.subscriptions.topics(member) == NO_NAMES
    assert members.subscriptions.resolve(LATER, 0.0)
    assert members.subscriptions.topics(member) == {T, V}
    assert not members.subscriptions.resolve(LATER, 20.0)
    grown = TopicsNow({"orders": KnownTopic(T, 5), "orders-eu": KnownTopic(V, 1)})
    assert members.subscriptions.resolve(grown, 40.0)


def test_a_pattern_loses_the_topics_that_are_gone_and_gets_new_ones_when_it_is_looked_up_again():
    members = Members()
    member = members.subscribe("a", pattern="ord.*")
    members.subscriptions.resolve(TOPICS, 0.0)
    members.subscriptions.refresh(LATER)
    assert members.subscriptions.topics(member) == {T}
    assert members.subscriptions.resolve(LATER, 20.0)
    assert members.subscriptions.topics(member) == {T, V}
    assert members.subscriptions.update(TOPICS, has_changed=False)
    assert members.subscriptions.topics(member) == {T}


def test_patterns_are_looked_up_every_ten_seconds_and_at_once_if_none_is_known():
    members = Members()
    members.subscribe("a", pattern="ord.*")
    assert members.subscriptions.may_resolve(0.0)
    members.subscriptions.resolve(TOPICS, 0.0)
    assert not members.subscriptions.may_resolve(10.0)
    assert members.subscriptions.may_resolve(10.1)
    members.subscribe("a", pattern="aud.*")
    assert members.subscriptions.may_resolve(1.0)


def test_the_topics_of_a_pattern_are_kept_as_long_as_a_member_has_it():
    members = Members()
    first, second = (members.subscribe(name, pattern="ord.*") for name in "ab")
    members.subscriptions.resolve(TOPICS, 0.0)
    members.leave(first)
    assert members.subscriptions.topics(second) == {T}
    members.leave(second)
    assert not members.subscriptions.resolved
    assert not members.subscriptions.sizes


def test_a_subscription_is_another_one_if_its_names_or_its_pattern_are():
    subscriptions = Members().subscriptions
    member = ConsumerMember(member_id="a", instance_id=None)
    names = frozenset({"orders"})
    assert subscriptions.change(member, names, "")
    assert not subscriptions.change(member, names, "")
    assert subscriptions.change(member, names, "aud.*")
    assert subscriptions.change(member, NO_NAMES, "aud.*")


def test_members_are_alike_with_the_same_names():
    members = Members()
    members.subscribe("a", "orders", "audit")
    assert members.are_alike
    members.subscribe("b", "orders")
    assert not members.are_alike
    members.subscribe("b", "audit", "orders")
    assert members.are_alike


def test_members_are_alike_with_one_pattern_that_matches_no_topic_that_one_names():
    members = Members()
    members.subscribe("a", pattern="ord.*")
    members.subscribe("b", pattern="ord.*")
    members.subscriptions.resolve(TOPICS, 0.0)
    assert members.are_alike
    members.subscribe("b", "orders", pattern="ord.*")
    assert not members.are_alike
    members.subscribe("b", pattern="aud.*")
    assert not members.are_alike


@pytest.mark.parametrize("staying", [(("audit",), ""), ((), "orders?")])
def test_the_pattern_of_a_member_that_left_counts_once_more(
    staying: tuple[tuple[str, ...], str],
) -> None:
    members = Members()
    names, pattern = staying
    members.subscribe("a", *names, pattern=pattern)
    gone = members.subscribe("b", pattern="ord.*")
    members.subscriptions.resolve(TOPICS, 0.0)
    members.leave(gone)
    assert not members.subscriptions.are_alike
    assert members.are_alike


def test_members_are_compared_when_a_subscription_or_the_topics_have_changed():
    members = Members()
    members.subscribe("a", "orders")
    members.subscribe("b", "audit")
    members.subscriptions.refresh(TOPICS)
    members.subscriptions.update(TOPICS, has_changed=False)
    assert members.subscriptions.are_alike  # as long as nobody has looked
    members.subscriptions.update(LATER, has_changed=False)
    assert not members.subscriptions.are_alike


def test_topics_are_in_the_order_of_a_hash_map_of_their_names():
    members = Members()
    member = members.subscribe("a", "q", "b", "a")
    members.subscriptions.refresh(
        TopicsNow({"q": KnownTopic(T, 1), "b": KnownTopic(U, 1), "a": KnownTopic(V, 1)})
    )
    assert members.subscriptions.in_order(member) == (V, T, U)  # a and q are in one bucket


def test_bytes_of_partitions_are_held_as_long_as_they_are_subscribed_to():
    members = Members()
    gone = members.subscribe("a", "orders", "audit")
    members.subscribe("b", "audit")
    members.subscriptions.refresh(TOPICS)
    held = members.account.held
    members.leave(gone)
    assert 0 < members.account.held * 3 == held
    members.subscriptions.release()
    assert members.account.held == 0
