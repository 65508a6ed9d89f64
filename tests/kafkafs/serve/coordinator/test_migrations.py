"""Groups change their protocol with their members, and classic members live in consumer groups."""

from __future__ import annotations

import trio

from engine.topics.message.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
)
from tests.kafkafs.serve.coordinator.scripted import GROUP, Script, T, scripted
from tests.kafkafs.serve.coordinator.test_consumer_groups import beat, enter, places
from tests.messages import encode

ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, GROUP_NOT_FOUND = 22, 25, 27, 69
GROUP_IS_FULL, BAD_PATTERN = 81, 128


def subscription(*owned: int) -> dict[str, bytes]:
    """The strategies of a classic consumer."""
    mine = [{"topic": "orders", "partitions": list(owned)}] if owned else []
    fields = {"topics": ["orders"], "userData": None, "ownedPartitions": mine}
    return {"range": b"\0\1" + encode(CONSUMER_PROTOCOL_SUBSCRIPTION, 1, fields)}


def assignment(*numbers: int) -> bytes:
    """The bytes of an assignment."""
    fields = {
        "assignedPartitions": [{"topic": "orders", "partitions": list(numbers)}],
        "userData": None,
    }
    return b"\0\1" + encode(CONSUMER_PROTOCOL_ASSIGNMENT, 1, fields)


async def settled(script: Script, **fields: object) -> str:
    """The only member of a stable classic group, which has all partitions."""
    waiting = await script.enter(protocols=subscription(), **fields)
    await waiting.answered.wait()
    member = str(waiting.answer["memberId"])
    await script.sync(member, 1, assign={member: assignment(0, 1, 2, 3)})
    return member


@scripted
async def test_an_empty_group_takes_either_protocol(script: Script) -> None:
    member = await settled(script)
    script.leave((member, None))
    assert places(enter(script, "a")) == {T: [0, 1, 2, 3]}
    beat(script, "a", -1)
    assert (await script.join(version=3))["generationId"] == 1


@scripted
async def test_a_consumer_takes_over_from_a_classic_member_partition_by_partition(
    script: Script,
) -> None:
    member = await settled(script)
    joined = enter(script, "a")
    assert (joined["memberEpoch"], places(joined)) == (2, {})
    assert script.heartbeat(member, 1) == REBALANCING
    again = await script.join(member, protocols=subscription(0, 1, 2, 3))
    assert (again["generationId"], again["protocolName"]) == (1, "range")
    kept = (await script.sync(member, 1))["assignment"]
    assert kept == assignment(0, 1)
    assert places(beat(script, "a", 2)) is None
    assert script.heartbeat(member, 1) == REBALANCING
    again = await script.join(member, protocols=subscription(0, 1))
    assert again["generationId"] == 2
    assert places(beat(script, "a", 2)) == {T: [2, 3]}
    assert script.heartbeat(member, 2) == 0


@scripted
async def test_the_last_consumer_leaves_a_classic_group_behind(script: Script) -> None:
    member = await settled(script)
    enter(script, "a")
    beat(script, "a", -1)
    assert script.group.state_name == "PreparingRebalance"
    assert script.heartbeat(member, 2) == REBALANCING
    answer = await script.join(member, protocols=subscription())
    assert (answer["generationId"], answer["leader"]) == (3, member)


@scripted
async def test_a_group_that_cannot_be_converted_stays_as_it_is(script: Script) -> None:
    member = await settled(script)
    held = script.coordinator.table.account.held
    refused = enter(script, "a", subscribedTopicRegex="(", subscribedTopicNames=None)
    assert refused["errorCode"] == BAD_PATTERN
    assert script.heartbeat(member, 1) == 0
    assert script.coordinator.table.account.held == held
    await script.join(member, protocols={"range": b"\0"}, version=9, sessionTimeoutMs=10_000)
    await script.sync(member, 2, assign={member: assignment(0)})
    assert enter(script, "a")["errorCode"] == GROUP_NOT_FOUND
    assert script.coordinator.table.account.held > 0
    assert script.heartbeat(member, 2) == 0


@scripted
async def test_a_classic_member_that_does_not_join_again_in_time_is_dropped(script: Script) -> None:
    member = await settled(script, rebalanceTimeoutMs=5_000)
    enter(script, "a")
    assert script.heartbeat(member, 1) == REBALANCING
    await trio.sleep(5.1)
    assert script.heartbeat(member, 1) == UNKNOWN_MEMBER
    assert places(beat(script, "a", 2)) == {T: [0, 1, 2, 3]}


@scripted
async def test_a_classic_member_that_never_syncs_is_dropped(script: Script) -> None:
    enter(script, "a")
    joined = await script.join("own", protocols=subscription(), rebalanceTimeoutMs=5_000)
    await trio.sleep(5.1)
    assert script.heartbeat("own", joined["generationId"]) == UNKNOWN_MEMBER


@scripted
async def test_the_session_of_a_classic_member_is_its_own(script: Script) -> None:
    enter(script, "a", subscribedTopicNames=["audit"])
    joined = await script.join("own", protocols=subscription(), sessionTimeoutMs=6_000)
    generation = joined["generationId"]
    await script.sync("own", generation)
    await trio.sleep(5)
    assert script.heartbeat("own", generation) == 0
    await trio.sleep(6.1)
    assert script.heartbeat("own", generation) == UNKNOWN_MEMBER


@scripted
async def test_a_static_classic_member_brings_the_group_back_to_its_protocol(
    script: Script,
) -> None:
    enter(script, "a", instanceId="one")
    joined = await script.join("", protocols=subscription(), groupInstanceId="one")
    assert joined["errorCode"] == 0
    assert script.group.state_name == "Stable"
    assert [each.assignment for each in script.group.members.values()] == [assignment(0, 1, 2, 3)]


@scripted
async def test_commits_of_classic_members_are_fenced_by_generations(script: Script) -> None:
    why = script.coordinator.why_no_commit
    enter(script, "a", subscribedTopicNames=["audit"])
    generation = (await script.join("own", protocols=subscription()))["generationId"]
    assert why(GROUP, "own", None, generation, 5, [("orders", 0)]) == 0
    assert why(GROUP, "own", None, generation + 1, 9, [("orders", 0)]) == ILLEGAL_GENERATION
    assert why(GROUP, "own", None, generation - 1, 9, [("orders", 0)]) == ILLEGAL_GENERATION
    assert script.coordinator.why_no_fetch(GROUP, "own", generation + 1) == ILLEGAL_GENERATION


@scripted
async def test_a_classic_member_of_a_consumer_group_counts_against_the_limit(
    script: Script,
) -> None:
    enter(script, "a")
    held = script.coordinator.table.account.held
    many = subscription() | {"sticky": bytes(100_000)}
    answer = await script.join("own", protocols=many)
    assert answer["errorCode"] == GROUP_IS_FULL
    assert script.coordinator.table.account.held == held
    assert (await script.join("own", protocols=subscription()))["errorCode"] == 0


@scripted
async def test_conversions_there_and_back_hold_no_bytes(script: Script) -> None:
    for _ in range(3):
        member = await settled(script)
        enter(script, "a")
        beat(script, "a", -1)
        await script.join(member, protocols=subscription())
        script.leave((member, None))
        enter(script, "b")
        beat(script, "b", -1)
    await trio.sleep(400)
    assert script.coordinator.table.account.held == 1024 + len(GROUP)
    assert len(script.coordinator.table.timers) == 0
