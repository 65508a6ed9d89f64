"""Members of groups get from `kafkafs serve` the answers of a real broker over the same directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures_data import log_dir
from tests.kafka.wire import directories
from tests.kafka.wire.directories import Both
from tests.kafka.wire.found_scenes import FOUND
from tests.kafka.wire.member import OTHER_ID, Member
from tests.kafka.wire.migration_scenes import MIGRATIONS
from tests.kafka.wire.scenes import Scene, Scenes


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    home = tmp_path_factory.mktemp("groups")
    directories.copied(log_dir("current"), home)
    with directories.both(home, 100, directories.MEMBERS_VERSION) as found:
        yield found


GROUPS = Scenes()


@GROUPS.scene
def every_version(me: Member) -> None:
    for version in range(10):
        me.group = f"every {version}"
        member = me.enter(version)
        me.sync(member, version=min(version, 5), assign={member: b"all"})
        me.beat(member, version=min(version, 4))
        me.commit(member, 1, version=max(version, 2))
        me.describe()
        me.leave((member, None), version=min(version, 5))
        me.beat(member, version=min(version, 4))
        me.describe()


@GROUPS.scene
def refused_joins(me: Member) -> None:
    me.join(groupId="")
    me.join("me", groupId="")
    me.join(sessionTimeoutMs=5999)
    me.join(sessionTimeoutMs=1_800_001)
    me.join(protocols={})
    me.join(protocolType="")
    me.join("ghost", groupId="refused never seen")
    me.enter()
    for version in (3, 9):
        me.join("ghost", version)
    me.join(protocols={"other": b""})
    me.join(protocolType="connect")
    me.join("ghost", groupInstanceId="none")
    me.describe()


@GROUPS.scene
def unknown_groups(me: Member) -> None:
    for group in ("", "unknown"):
        me.group = group
        me.sync("me")
        me.beat("me")
        me.leave(("me", None))
        me.leave(("me", None), ("", "one"))
        me.leave(("me", None), version=1)
        me.fetch()
        me.describe()
        for version in (2, 8, 9):
            me.commit("me", 1, version)


@GROUPS.scene
def generations_and_protocols(me: Member) -> None:
    member = me.enter()
    me.commit(member, 1)
    me.beat(member)
    me.join(member)
    me.sync(member, 0)
    me.sync(member, 2)
    me.sync("ghost")
    me.sync(member, protocolType="connect")
    me.sync(member, protocolName="sticky")
    me.sync(
        member,
        protocolType="consumer",
        protocolName="range",
        assign={member: b"all", "ghost": b"none"},
    )
    me.sync(member)
    me.beat(member, 0)
    me.beat(member, 2)
    me.beat("ghost")
    me.commit(member, 0)
    me.commit("ghost", 1)
    me.commit()
    me.commit("", -1, 2)
    me.join(member)
    me.sync(member, 2, assign={})
    me.describe()


@GROUPS.scene
def static_members(me: Member) -> None:
    first = str(me.join(groupInstanceId="one")["memberId"])
    me.sync(first, groupInstanceId="one", assign={first: b"all"})
    for version in (8, 9):
        again = str(me.join(version=version, groupInstanceId="one")["memberId"])
        me.beat(first, groupInstanceId="one")
        me.sync(first, groupInstanceId="one")
        me.commit(first, 1, groupInstanceId="one")
        me.join(first, groupInstanceId="one")
        me.beat(again, groupInstanceId="one")
        me.beat(again, groupInstanceId="two")
        me.sync(again, groupInstanceId="one")
        me.leave((first, "one"))
        first = again
    me.describe()
    me.leave(("", "two"), ("", "one"), ("ghost", None))
    me.describe()


@GROUPS.scene
def pending_ids(me: Member) -> None:
    given = str(me.join()["memberId"])
    me.beat(given, 0)
    me.leave((given, None))
    me.join(given)
    given = str(me.join()["memberId"])
    me.join(given)
    me.join(given)


@GROUPS.scene
def a_rebalance(me: Member) -> None:
    first = me.enter()
    me.sync(first, assign={first: b"all"})
    with Member(me.peer, me.group) as other:
        _rebalance(me, first, other)
    me.noted += other.noted


def _rebalance(me: Member, first: str, other: Member) -> None:
    given = str(other.join()["memberId"])
    joined = other.later(other.join, given)
    me.wait_for("PreparingRebalance")
    me.beat(first)
    me.sync(first)
    me.commit(first, 1)
    me.describe()
    me.join(first)
    assert joined()["generationId"] == 2
    me.commit(first, 2)
    me.beat(first, 2)
    synced = other.later(other.sync, given, 2)
    me.sync(first, 2, assign={first: b"half", given: b"other half"})
    synced()
    me.leave((first, None))
    other.beat(given, 2)
    other.join(given)
    other.sync(given, 3, assign={given: b"all"})


@GROUPS.scene
def strategies(me: Member) -> None:
    member = me.enter(protocols={"a": b"1", "b": b"2"})
    me.sync(member, assign={})
    me.join(member, protocols={"b": b"2", "a": b"1"})
    me.join(member, protocols={"b": b"3"})
    me.sync(member, 3)
    me.describe()


@GROUPS.scene
def commits(me: Member) -> None:
    for version in range(2, 10):
        me.commit("", -1, version, offset=version)
        me.fetch()
    for version in range(1, 10):
        me.fetch(version)
    me.commit(topic="unknown")
    me.commit(topic="")
    me.commit(version=10, topic_id=OTHER_ID)
    me.commit(version=10)
    me.commit(metadata="x" * 4096)
    me.commit(metadata="x" * 4097)
    me.commit(metadata=None)
    me.commit(offset=-1)
    me.commit(partition=99)
    me.commit(partition=-1)
    me.fetch(topics=None)
    me.fetch(topics=[])
    me.commit("me", 1)
    me.commit("me", -1)
    me.commit(groupInstanceId="one")
    me.fetch(memberId="me", memberEpoch=1)
    me.group = "billing-0"
    me.fetch(topics=None)
    me.commit("me", 1)
    me.describe()
    me.commit(offset=60)
    me.fetch(topics=None)


@GROUPS.scene
def consumer_requests(me: Member) -> None:
    me.become("")
    me.become("", version=0, groupId="consumer without id")
    me.become("me", groupId="")
    me.become("me", rebalanceTimeoutMs=-1)
    me.become("me", owned=None)
    me.become("me", owned={OTHER_ID: [0]})
    me.become("me", subscribedTopicNames=None)
    me.become("me", instanceId="")
    me.become("me", rackId="")
    me.become("me", serverAssignor="sticky")
    me.become("me", subscribedTopicNames=None, subscribedTopicRegex="(")
    me.live("me", -2)
    me.live("me", -3)
    me.live("me", -1)
    me.live("", 1, 0)
    me.live("", -1, 0)
    me.describe()


@GROUPS.scene
def a_consumer(me: Member) -> None:
    for version in (0, 1):
        me.group = f"a consumer {version}"
        answer = me.become("me", version=version)
        epoch = answer["memberEpoch"]
        (assigned,) = answer["assignment"]["topicPartitions"]
        owned = {assigned["topicId"]: assigned["partitions"]}
        me.live("me", epoch, version)
        me.live("me", epoch, version, owned=owned)
        whole = {"rebalanceTimeoutMs": 30_000, "subscribedTopicNames": ["orders"]}
        me.live("me", epoch, version, owned=owned, **whole)
        me.live("me", epoch + 1, version)
        me.live("ghost", epoch, version)
        me.commit("me", epoch)
        me.commit("me", epoch, 8)
        me.commit("me", epoch + 1)
        me.commit("ghost", epoch)
        me.commit()
        me.fetch(memberId="me", memberEpoch=epoch)
        me.fetch(memberId="me", memberEpoch=epoch + 1)
        me.fetch(memberId="ghost", memberEpoch=epoch)
        me.fetch()
        me.describe()
        me.live("me", -1, version)
        me.live("me", epoch, version)
        me.live("me", -1, version)
        me.describe()


@GROUPS.scene
def two_consumers(me: Member) -> None:
    epoch = me.become("a")["memberEpoch"]
    me.become("b")
    me.describe()
    answer = me.live("a", epoch)
    (kept,) = answer["assignment"]["topicPartitions"]
    owned = {kept["topicId"]: kept["partitions"]}
    me.live("a", epoch, owned={kept["topicId"]: [0, 1, 2]})
    me.live("b", epoch + 1, owned={})
    me.describe()
    me.live("a", epoch, owned=owned)
    me.live("b", epoch + 1, owned={})
    me.describe()
    for offset, member in enumerate("ab"):
        for partition in range(3):
            me.commit(member, epoch, partition=partition, offset=offset)
    me.live("b", epoch + 1, subscribedTopicNames=["orders", "codec-zstd", "unknown"])
    me.live("a", epoch + 1)
    me.describe()
    me.live("b", -1)
    me.live("a", epoch + 1)
    me.live("a", epoch + 2)
    me.live("a", epoch + 3)
    me.describe()


@GROUPS.scene
def static_consumers(me: Member) -> None:
    me.become("a", instanceId="one")
    me.become("b", instanceId="one")
    me.live("b", 1, instanceId="one")
    me.live("b", 1, instanceId="two")
    me.live("a", -2)
    me.live("b", -2, instanceId="one")
    me.live("b", -1, instanceId="one")
    me.live("a", -2, instanceId="one")
    me.live("a", 1, instanceId="one")
    me.describe()
    me.become("b", instanceId="one")
    me.live("a", -1, instanceId="one")
    me.live("b", -1, instanceId="one")
    me.describe()


@pytest.mark.parametrize("act", [*GROUPS, *MIGRATIONS, *FOUND], ids=lambda act: act.__name__)
def test_members_get_the_broker_s_answers(both: Both, act: Scene) -> None:
    with Member(both.broker, act.__name__) as theirs, Member(both.ours, act.__name__) as ours:
        act(theirs)
        act(ours)
    assert len(theirs.noted) == len(ours.noted)
    different = [(a, b) for a, b in zip(theirs.noted, ours.noted, strict=True) if a != b]
    assert different == [], "\n".join(f"- {a}\n+ {b}" for a, b in different)
