"""Classic groups go through rebalances as in Kafka's coordinator."""

from __future__ import annotations

import trio

from kafkafs.serve.coordinator.limits import GroupLimits
from tests.kafkafs.serve.coordinator.scripted import GROUP, Script, asked, scripted

ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL, UNKNOWN_MEMBER = 22, 23, 25
REBALANCING, MEMBER_ID_REQUIRED, GROUP_IS_FULL, FENCED_INSTANCE = 27, 79, 81, 82


@scripted
async def test_a_new_member_gets_its_id_first_and_joins_with_it(script: Script) -> None:
    first = await script.join()
    assert first["errorCode"] == MEMBER_ID_REQUIRED
    assert first["memberId"].startswith("client-")
    start = trio.current_time()
    joined = await script.join(first["memberId"])
    assert (joined["errorCode"], joined["generationId"], joined["memberId"]) == (
        0,
        1,
        first["memberId"],
    )
    assert (joined["leader"], joined["protocolName"]) == (first["memberId"], "range")
    assert [each["metadata"] for each in joined["members"]] == [b"topics"]
    assert trio.current_time() - start == 3


@scripted
async def test_an_old_client_joins_without_an_id(script: Script) -> None:
    joined = await script.join(version=3)
    assert (joined["errorCode"], joined["generationId"]) == (0, 1)


@scripted
async def test_an_id_with_which_nobody_comes_back_is_forgotten(script: Script) -> None:
    first = await script.join()
    await trio.sleep(10.1)
    assert (await script.join(first["memberId"]))["errorCode"] == UNKNOWN_MEMBER
    assert script.coordinator.table.account.held < 2000


@scripted
async def test_a_group_goes_on_from_the_generation_on_disk(script: Script) -> None:
    assert (await script.join(version=3, known=41))["generationId"] == 42


@scripted
async def test_an_unknown_member_of_an_unknown_group_is_refused(script: Script) -> None:
    assert (await script.join("ghost"))["errorCode"] == UNKNOWN_MEMBER
    assert script.heartbeat("ghost", 1) == UNKNOWN_MEMBER
    assert (await script.sync("ghost", 1))["errorCode"] == UNKNOWN_MEMBER
    assert script.leave(("ghost", None)) == [UNKNOWN_MEMBER]


@scripted
async def test_newcomers_put_off_the_first_rebalance(script: Script) -> None:
    start = trio.current_time()
    first = await script.enter()
    await trio.sleep(2)
    second = await script.enter()
    await trio.sleep(2)
    assert not first.is_answered
    await trio.sleep(2.1)
    assert first.is_answered
    assert second.is_answered
    assert trio.current_time() - start < 7
    assert first.answer["generationId"] == second.answer["generationId"] == 1
    assert len(first.answer["members"]) == 2
    assert second.answer["members"] == []


@scripted
async def test_followers_get_what_the_leader_assigns(script: Script) -> None:
    ids = await script.stable(3)
    for name in ids:
        again = await script.sync(name, 1)
        assert (again["errorCode"], again["assignment"]) == (0, name.encode())


@scripted
async def test_a_member_without_an_assignment_gets_an_empty_one(script: Script) -> None:
    joined = await script.join(version=3)
    synced = await script.sync(joined["memberId"], 1, assign={"ghost": b"x"})
    assert (synced["errorCode"], synced["assignment"]) == (0, b"")


@scripted
async def test_a_newcomer_makes_the_others_join_again(script: Script) -> None:
    leader, follower = await script.stable(2)
    third = await script.enter()
    assert script.heartbeat(leader, 1) == REBALANCING
    assert script.heartbeat(follower, 1) == REBALANCING
    assert (await script.sync(leader, 1))["errorCode"] == REBALANCING
    again = [await script.begin(script.join, name) for name in (leader, follower)]
    assert {each.answer["generationId"] for each in (*again, third)} == {2}
    assert {each.answer["leader"] for each in (*again, third)} == {leader}


@scripted
async def test_members_that_do_not_join_again_are_dropped(script: Script) -> None:
    leader, follower = await script.stable(2, rebalanceTimeoutMs=5000)
    third = await script.enter(rebalanceTimeoutMs=5000)
    again = await script.begin(script.join, follower, rebalanceTimeoutMs=5000)
    await trio.sleep(4)
    assert script.heartbeat(leader, 1) == REBALANCING
    await trio.sleep(1.1)
    assert again.answer["generationId"] == third.answer["generationId"] == 2
    assert again.answer["leader"] == follower
    assert script.heartbeat(leader, 1) == UNKNOWN_MEMBER


@scripted
async def test_the_end_of_a_session_gives_the_partitions_to_the_others(script: Script) -> None:
    leader, follower = await script.stable(2)
    for _ in range(3):
        await trio.sleep(4)
        answer = script.heartbeat(follower, 1)
    assert answer == REBALANCING
    joined = await script.join(follower)
    assert (joined["generationId"], joined["leader"]) == (2, follower)
    assert [each["memberId"] for each in joined["members"]] == [follower]
    assert script.heartbeat(leader, 2) == UNKNOWN_MEMBER


@scripted
async def test_heartbeats_and_commits_keep_a_session(script: Script) -> None:
    (member,) = await script.stable(1)
    for _ in range(5):
        await trio.sleep(9)
        assert script.heartbeat(member, 1) == 0
        await trio.sleep(9)
        assert script.coordinator.why_no_commit(GROUP, member, None, 1, 9, []) == 0
    await trio.sleep(10.1)
    assert script.heartbeat(member, 1) == UNKNOWN_MEMBER
    assert script.group.state_name == "Empty"


@scripted
async def test_a_member_that_waits_needs_no_heartbeats(script: Script) -> None:
    leader, follower = await script.stable(2)
    third = await script.enter()
    again = await script.begin(script.join, follower)
    for _ in range(5):
        await trio.sleep(9)
        assert script.heartbeat(leader, 1) == REBALANCING
    assert not again.is_answered
    await script.begin(script.join, leader)
    assert again.answer["errorCode"] == third.answer["errorCode"] == 0


@scripted
async def test_a_new_member_waits_five_minutes_at_most(script: Script) -> None:
    (leader,) = await script.stable(1, rebalanceTimeoutMs=3_600_000)
    third = await script.enter(rebalanceTimeoutMs=3_600_000)
    for _ in range(40):
        await trio.sleep(8)
        script.heartbeat(leader, 1)
    assert third.answer["errorCode"] == UNKNOWN_MEMBER


@scripted
async def test_a_member_that_leaves_is_replaced_at_once(script: Script) -> None:
    leader, follower = await script.stable(2)
    assert script.leave((leader, None)) == [0]
    assert script.heartbeat(follower, 1) == REBALANCING
    assert (await script.join(follower))["leader"] == follower
    assert script.leave((follower, None), ("ghost", None)) == [0, UNKNOWN_MEMBER]
    assert script.group.state_name == "Empty"


@scripted
async def test_members_that_never_sync_are_dropped(script: Script) -> None:
    waiting = [await script.enter(rebalanceTimeoutMs=5000) for _ in range(2)]
    await trio.sleep(7)
    names = [each.answer["memberId"] for each in waiting]
    leader = waiting[0].answer["leader"]
    follower = next(name for name in names if name != leader)
    synced = await script.begin(script.sync, follower, 1)
    await trio.sleep(5.1)
    assert synced.answer["errorCode"] == REBALANCING
    assert script.heartbeat(leader, 1) == UNKNOWN_MEMBER
    assert script.heartbeat(follower, 1) == REBALANCING


@scripted
async def test_an_old_generation_is_fenced(script: Script) -> None:
    leader, _ = await script.stable(2)
    assert script.heartbeat(leader, 0) == ILLEGAL_GENERATION
    assert (await script.sync(leader, 2))["errorCode"] == ILLEGAL_GENERATION
    assert script.coordinator.why_no_commit(GROUP, leader, None, 0, 9, []) == ILLEGAL_GENERATION
    assert (await script.sync(leader, 1, protocolName="sticky"))[
        "errorCode"
    ] == INCONSISTENT_PROTOCOL
    assert (await script.sync(leader, 1, protocolType="connect"))[
        "errorCode"
    ] == INCONSISTENT_PROTOCOL


@scripted
async def test_a_group_in_use_takes_commits_of_its_members_alone(script: Script) -> None:
    (member,) = await script.stable(1)
    why = script.coordinator.why_no_commit
    assert why(GROUP, "", None, -1, 9, []) == UNKNOWN_MEMBER
    assert why(GROUP, "ghost", None, 1, 9, []) == UNKNOWN_MEMBER
    assert why(GROUP, member, None, 1, 9, []) == 0
    script.leave((member, None))
    assert why(GROUP, "", None, -1, 9, []) == 0


@scripted
async def test_a_commit_before_the_assignment_is_put_off(script: Script) -> None:
    joined = await script.join(version=3)
    why = script.coordinator.why_no_commit
    assert why(GROUP, joined["memberId"], None, 1, 9, []) == REBALANCING


@scripted
async def test_the_strategy_that_all_have_and_most_prefer_is_chosen(script: Script) -> None:
    mine = {"sticky": b"", "range": b""}
    waiting = [
        await script.enter(protocols={"range": b"", "sticky": b""}),
        await script.enter(protocols=mine),
        await script.enter(protocols={"other": b"", **mine}),
    ]
    await trio.sleep(10)
    assert {each.answer["protocolName"] for each in waiting} == {"sticky"}
    refused = await script.join(protocols={"other": b""})
    assert refused["errorCode"] == INCONSISTENT_PROTOCOL
    assert (await script.join(protocolType="connect"))["errorCode"] == INCONSISTENT_PROTOCOL


@scripted
async def test_only_a_change_or_the_leader_begins_a_rebalance(script: Script) -> None:
    leader, follower = await script.stable(2)
    same = await script.join(follower)
    assert (same["generationId"], same["members"]) == (1, [])
    assert script.group.state_name == "Stable"
    waiting = await script.begin(script.join, follower, protocols={"range": b"more topics"})
    assert script.group.state_name == "PreparingRebalance"
    await script.begin(script.join, leader)
    assert waiting.answer["generationId"] == 2


# Static members


@scripted
async def test_a_static_member_comes_back_without_a_rebalance(script: Script) -> None:
    first = await script.join(groupInstanceId="one")
    assert first["memberId"].startswith("one-")
    await script.sync(first["memberId"], 1, assign={first["memberId"]: b"mine"})
    again = await script.join(groupInstanceId="one")
    assert (again["errorCode"], again["generationId"], again["skipAssignment"]) == (0, 1, True)
    assert again["memberId"] != first["memberId"]
    assert (await script.sync(again["memberId"], 1))["assignment"] == b"mine"
    assert script.heartbeat(first["memberId"], 1, "one") == FENCED_INSTANCE
    assert script.heartbeat(again["memberId"], 1, "one") == 0
    assert (await script.join(first["memberId"], groupInstanceId="one"))[
        "errorCode"
    ] == FENCED_INSTANCE


@scripted
async def test_an_older_static_leader_comes_back_as_a_follower(script: Script) -> None:
    first = await script.join(groupInstanceId="one", version=8)
    await script.sync(first["memberId"], 1, assign={first["memberId"]: b"mine"})
    again = await script.join(groupInstanceId="one", version=8)
    assert (again["leader"], again["members"]) == (first["memberId"], [])


@scripted
async def test_a_static_member_that_waits_is_fenced_by_its_successor(script: Script) -> None:
    first = await script.begin(script.join, groupInstanceId="one")
    second = await script.begin(script.join, groupInstanceId="one")
    assert first.answer["errorCode"] == FENCED_INSTANCE
    await trio.sleep(4)
    assert second.answer["errorCode"] == 0


@scripted
async def test_a_static_member_leaves_by_its_instance_id(script: Script) -> None:
    await script.join(groupInstanceId="one")
    assert script.leave(("", "two"), ("", "one")) == [UNKNOWN_MEMBER, 0]
    assert script.group.state_name == "Empty"


@scripted
async def test_a_static_member_keeps_its_place_until_its_session_ends(script: Script) -> None:
    leader = await script.join(groupInstanceId="one", rebalanceTimeoutMs=5000)
    third = await script.begin(script.join, groupInstanceId="two", rebalanceTimeoutMs=5000)
    await trio.sleep(5.1)
    assert third.answer["generationId"] == 2
    assert {each["groupInstanceId"] for each in third.answer["members"]} == {"one", "two"}
    assert script.heartbeat(leader["memberId"], 2, "one") == 0


# Limits


@scripted
async def test_a_full_group_takes_no_more_members(script: Script) -> None:
    await script.stable(4)
    assert (await script.join())["errorCode"] == GROUP_IS_FULL


@scripted
async def test_ids_that_were_given_count_as_members(script: Script) -> None:
    answers = [(await script.join())["errorCode"] for _ in range(6)]
    assert answers == [MEMBER_ID_REQUIRED] * 4 + [GROUP_IS_FULL] * 2


@scripted
async def test_subscriptions_and_assignments_have_a_limit_together(script: Script) -> None:
    big = {"range": b"x" * 60_000}
    first = await script.join(version=3, protocols=big)
    assert (await script.join(version=3, protocols=big))["errorCode"] == GROUP_IS_FULL
    member = first["memberId"]
    refused = await script.sync(member, 1, assign={member: b"x" * 60_000})
    assert refused["errorCode"] == -1
    assert script.leave((member, None)) == [0]
    assert script.coordinator.table.account.held < 2000


@scripted
async def test_requests_that_wait_have_a_limit_together(script: Script) -> None:
    size = script.coordinator.limits.waiting_bytes
    first = await script.begin(script.join, version=3, size=size)
    assert (await script.join(version=3))["errorCode"] == GROUP_IS_FULL
    await trio.sleep(3.1)
    assert first.answer["errorCode"] == 0
    assert (await script.join())["errorCode"] == MEMBER_ID_REQUIRED


@scripted
async def test_a_member_has_a_limit_of_strategies(script: Script) -> None:
    many = {str(number): b"" for number in range(101)}
    assert (await script.join(protocols=many))["errorCode"] == INCONSISTENT_PROTOCOL


def test_unused_groups_make_room_for_others():
    async def many(script: Script) -> None:
        await trio.sleep(1)
        for name in ("a", "b"):
            joined = await script.join(version=3, groupId=name)
            assert joined["errorCode"] == 0
            heartbeat(script, name, joined["memberId"])
        assert (await script.join(version=3, groupId="c"))["errorCode"] == GROUP_IS_FULL
        fields = {"groupId": "a", "memberId": joined["memberId"]}
        assert script.coordinator.classic.leave(asked(0, fields))["errorCode"] == UNKNOWN_MEMBER
        fields["groupId"] = "b"
        assert script.coordinator.classic.leave(asked(0, fields))["errorCode"] == 0
        await trio.sleep(1.1)  # a search for room that was in vain is not repeated at once
        assert (await script.join(version=3, groupId="c"))["errorCode"] == 0
        assert script.coordinator.table.get("b") is None

    scripted(many, GroupLimits(groups=2, first_rebalance_seconds=0))()


def heartbeat(script: Script, group: str, member_id: str) -> int:
    fields = {"groupId": group, "memberId": member_id, "groupInstanceId": None, "generationId": 1}
    return int(script.coordinator.classic.heartbeat(asked(4, fields))["errorCode"])


def test_members_that_never_come_back_make_room_for_others_first():
    async def many(script: Script) -> None:
        await trio.sleep(1)
        joined = await script.join(version=3, groupId="at work")
        heartbeat(script, "at work", joined["memberId"])
        table = script.coordinator.table
        for number in range(50):  # half of them only promised
            await script.join(version=3 + number % 2 * 6, groupId=str(number))
            assert (table.get(str(number)) is None, table.get("at work") is None) == (False, False)
        assert len(table.all()) == 10
        assert table.account.held < 25_000
        assert len(script.coordinator.table.timers) < 60
        await trio.sleep(11)  # without a heartbeat
        for number in range(50, 70):
            await script.join(version=3, groupId=str(number))
            heartbeat(script, str(number), "")
        assert table.get("at work") is None
        assert heartbeat(script, "at work", joined["memberId"]) == UNKNOWN_MEMBER

    scripted(many, GroupLimits(groups=10, first_rebalance_seconds=0))()


# The account of bytes


@scripted
async def test_an_empty_group_holds_no_bytes_of_its_members(script: Script) -> None:
    before = script.coordinator.table.account.held
    ids = await script.stable(3)
    await script.join(groupInstanceId="one")
    await script.begin(script.join, ids[0], protocols={"range": b"other topics"})
    await trio.sleep(200)
    assert script.group.state_name == "Empty"
    assert script.coordinator.table.account.held - before == 1024 + len(GROUP)
