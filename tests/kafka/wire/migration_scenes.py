"""Scenes of groups that change their protocol, and of classic members of consumer groups."""

from __future__ import annotations

from typing import Any

from tests.kafka.wire.embedded import assignment, subscription
from tests.kafka.wire.member import Fields, Member
from tests.kafka.wire.scenes import Scenes

MIGRATIONS = Scenes()
REBALANCING = 27


ORDERS = subscription(["orders"], version=1)
ALL = assignment({"orders": [0, 1, 2]})


def having(*numbers: int) -> dict[str, bytes]:
    """The strategy of a member that has partitions."""
    return {"range": subscription(["orders"], {"orders": numbers}, version=1)}


def _settled(me: Member, **fields: Any) -> str:
    """The only member of a stable classic group, which has all partitions."""
    member = me.enter(**fields)
    me.sync(member, assign={member: ALL})
    return member


def _sync(me: Member, member: str, answer: Fields, **fields: Any) -> Fields:
    return me.sync(member, answer["generationId"], **fields)


@MIGRATIONS.scene
def an_empty_group_takes_either_protocol(me: Member) -> None:
    member = _settled(me)
    me.commit(member, 1)
    me.live("a", -1)
    me.leave((member, None))
    me.live("a", 1)
    me.live("a", -1)
    me.become("a")
    me.describe()
    me.fetch()
    me.live("a", -1)
    me.describe()
    member = _settled(me)
    me.describe()
    me.fetch()


@MIGRATIONS.scene
def a_consumer_upgrades_a_group_and_its_leave_downgrades_it(me: Member) -> None:
    member = _settled(me, rebalanceTimeoutMs=20_000)
    me.live("a", 1)
    me.live("a", -1)
    joined = me.become("a")
    me.describe()
    me.beat(member, 1)
    me.sync(member, 1)
    me.commit(member, 1)
    me.commit(member, 1, 5)
    me.commit(member, 2)
    me.fetch(memberId=member, memberEpoch=1)
    me.fetch(memberId=member, memberEpoch=2)
    again = me.join(member, protocols=having(0, 1, 2))
    me.describe()
    _sync(me, member, again)
    me.beat(member, again["generationId"])
    told = me.live("a", joined["memberEpoch"])
    assert told["assignment"] is None or told["assignment"]["topicPartitions"] == []
    kept = me.join(member, protocols=having(0, 1))
    _sync(me, member, kept)
    me.beat(member, kept["generationId"])
    me.describe()
    me.live("a", joined["memberEpoch"], owned={})
    me.describe()
    me.live("a", -1)
    me.describe()
    me.beat(member, kept["generationId"])
    again = me.join(member)
    _sync(me, member, again, assign={member: ALL})
    me.describe()


@MIGRATIONS.scene
def a_group_is_upgraded_while_it_rebalances(me: Member) -> None:
    member = _settled(me)
    with Member(me.peer, me.group) as other:
        given = str(other.join()["memberId"])
        joined = other.later(other.join, given)
        me.wait_for("PreparingRebalance")
        me.become("a", serverAssignor="range", subscribedTopicNames=[])
        assert joined()["errorCode"] == REBALANCING
        me.describe()
        me.beat(member)
        again = other.join(given)
        _sync(other, given, again)
        again = me.join(member, protocols=having(0, 1, 2))
        me.beat(member, again["generationId"])
        _sync(me, member, again)
        me.live("a", 1)
        me.describe()
    me.noted += other.noted


@MIGRATIONS.scene
def groups_that_cannot_be_upgraded(me: Member) -> None:
    for name, fields, assigned in (
        ("connect", {"protocolType": "connect"}, assignment({"orders": [0]})),
        ("data", {}, assignment({"orders": [0]}, b"mine")),
        ("malformed", {}, b"all"),
        ("short", {}, b"\0"),
        ("unknown topic", {}, assignment({"gone": [0]})),
        ("nothing", {}, b""),
    ):
        me.group = f"not upgraded: {name}"
        member = me.enter(**fields)
        me.sync(member, assign={member: assigned}, **fields)
        me.become("a", serverAssignor="range")
        me.beat(member)
        me.describe()


@MIGRATIONS.scene
def classic_members_join_a_consumer_group(me: Member) -> None:
    epoch = me.become("a")["memberEpoch"]
    for version in (0, 3, 4, 9):
        me.join("", version)
        me.join(f"own {version}", version)
    me.describe()
    me.join("own 3", protocols={"sticky": ORDERS})
    me.join("own 3", protocols={})
    me.join("own 3", protocolType="connect")
    me.join("own 3", protocols={"range": b""})
    me.join("own 3", sessionTimeoutMs=1)
    me.join("own 3", protocols={"range": ORDERS, "sticky": ORDERS})
    me.join("own 3", protocols={"sticky": ORDERS, "range": ORDERS})
    me.join("", 9, groupInstanceId="one")
    me.join("own 3", 9, groupInstanceId="one")
    me.join("own 3", 9, groupInstanceId="two")
    me.describe()
    me.live("own 3", epoch)
    me.sync("a", epoch)
    me.beat("a", epoch)
    me.beat("ghost", epoch)
    me.sync("ghost", epoch)
    me.leave(("ghost", None), ("", "one"), ("own 3", "three"), ("own 4", None), ("", None))
    me.leave(("own 9", None), version=1)
    me.describe()


@MIGRATIONS.scene
def generations_of_classic_members(me: Member) -> None:
    me.become("a", subscribedTopicNames=[])
    joined = me.join("own", protocols={"range": subscription(["orders"], rack="r")})
    generation = joined["generationId"]
    me.sync("own", generation - 1)
    me.sync("own", generation + 1)
    me.sync("own", generation, protocolName="sticky")
    me.sync("own", generation, protocolType="connect")
    me.sync("own", generation)
    me.sync("own", generation, version=2)
    me.beat("own", generation - 1)
    me.beat("own", generation)
    for version in (5, 9):
        for epoch in (generation - 1, generation, generation + 1, -1):
            me.commit("own", epoch, version)
    me.fetch(memberId="own", memberEpoch=generation)
    me.fetch(memberId="own", memberEpoch=generation + 1)
    me.live("a", -1)
    me.describe()


@MIGRATIONS.scene
def a_static_member_changes_its_protocol(me: Member) -> None:
    first = me.join("", groupInstanceId="one", protocols={"range": ORDERS})
    member = str(first["memberId"])
    _sync(me, member, first, groupInstanceId="one", assign={member: ALL})
    me.become("a", instanceId="one")
    me.describe()
    me.beat(member, first["generationId"], groupInstanceId="one")
    me.become("b", instanceId="one")
    again = me.join("", groupInstanceId="one", protocols={"range": ORDERS})
    me.describe()
    member = str(again["memberId"])
    me.beat(member, again["generationId"], groupInstanceId="one")
    me.become("c", instanceId="one", subscribedTopicNames=["codec-zstd"])
    me.join("", groupInstanceId="one", protocols={"range": ORDERS})
    me.describe()


@MIGRATIONS.scene
def a_static_member_with_a_pattern_that_cannot_be_read(me: Member) -> None:
    first = me.join("", groupInstanceId="one", protocols={"range": ORDERS})
    member = str(first["memberId"])
    _sync(me, member, first, groupInstanceId="one", assign={member: ALL})
    bad: Fields = {"instanceId": "one", "subscribedTopicNames": None, "subscribedTopicRegex": "("}
    me.become("a", **bad)
    me.describe()
    me.beat(member, first["generationId"], groupInstanceId="one")
    me.become("a", instanceId="one")
    me.live("a", -2, instanceId="one")
    me.become("b", **bad)
    me.describe()


@MIGRATIONS.scene
def members_of_both_protocols_leave_together(me: Member) -> None:
    me.become("a")
    me.join("own", protocols={"range": ORDERS})
    me.join("other", protocols={"range": ORDERS})
    me.describe()
    me.leave(("a", None), ("other", None))
    me.describe()
    me.leave(("own", None))
    me.describe()
    me.become("a")
    me.join("own", protocols={"range": ORDERS})
    me.leave(("a", None), ("own", None))
    me.describe()


@MIGRATIONS.scene
def a_consumer_becomes_a_classic_member_without_leaving(me: Member) -> None:
    me.become("a")
    me.join("a", protocols={"range": ORDERS})
    me.describe()
    me.join("b", protocols={"range": ORDERS})
    me.describe()
    me.become("b")
    me.describe()
    me.leave(("b", None))
    me.describe()
