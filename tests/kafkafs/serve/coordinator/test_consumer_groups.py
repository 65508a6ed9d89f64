"""Groups of the consumer protocol (KIP-848) reconcile as in Kafka's coordinator."""

from __future__ import annotations

from typing import Any

import trio

from kafkafs.serve.coordinator.limits import GroupLimits
from kafkafs.serve.coordinator.topics_now import KnownTopic, TopicsNow
from tests.kafkafs.serve.coordinator.scripted import (
    GROUP,
    TOPICS,
    Answer,
    Script,
    T,
    U,
    asked,
    scripted,
)

UNKNOWN_MEMBER, INVALID_REQUEST, GROUP_NOT_FOUND, GROUP_IS_FULL, FENCED_INSTANCE = (
    25,
    42,
    69,
    81,
    82,
)
FENCED_EPOCH, UNRELEASED_INSTANCE, UNSUPPORTED_ASSIGNOR, STALE_EPOCH, BAD_PATTERN = (
    110,
    111,
    112,
    113,
    128,
)


def beat(
    script: Script,
    member: str,
    epoch: int,
    *,
    now: TopicsNow = TOPICS,
    known: int | None = None,
    **fields: Any,
) -> Answer:
    """ConsumerGroupHeartbeat that states nothing but what the test says."""
    owned = fields.pop("owned", None)
    given = {
        "groupId": GROUP, "memberId": member, "memberEpoch": epoch, "instanceId": None, "rackId": None,
        "rebalanceTimeoutMs": -1, "subscribedTopicNames": None, "subscribedTopicRegex": None, "serverAssignor": None,
        "topicPartitions": None if owned is None else
        [{"topicId": topic, "partitions": sorted(numbers)} for topic, numbers in owned.items()],
    }  # fmt: skip
    version = fields.pop("version", 1)
    return script.coordinator.consumer.heartbeat(asked(version, given | fields), now, known)


def enter(script: Script, member: str, *topics: str, **fields: Any) -> Answer:
    """The first heartbeat of a member."""
    first: Answer = {
        "rebalanceTimeoutMs": 30_000,
        "owned": {},
        "subscribedTopicNames": list(topics or ("orders",)),
    }
    return beat(script, member, 0, **first | fields)


def places(answer: Answer) -> dict[str, list[int]] | None:
    """What an answer assigns; None if it says nothing of that."""
    assert answer["errorCode"] == 0, answer
    if answer["assignment"] is None:
        return None
    return {each["topicId"]: each["partitions"] for each in answer["assignment"]["topicPartitions"]}


@scripted
async def test_the_first_member_gets_everything_at_once(script: Script) -> None:
    answer = enter(script, "a")
    assert (answer["memberId"], answer["memberEpoch"], answer["heartbeatIntervalMs"]) == (
        "a",
        2,
        2000,
    )
    assert places(answer) == {T: [0, 1, 2, 3]}
    assert places(beat(script, "a", 2)) is None


@scripted
async def test_a_group_goes_on_from_the_epoch_on_disk(script: Script) -> None:
    assert enter(script, "a", known=9)["memberEpoch"] == 10
    assert enter(script, "a", known=0, groupId="other")["memberEpoch"] == 2  # 1 is the least


@scripted
async def test_a_member_gives_up_partitions_before_another_gets_them(script: Script) -> None:
    enter(script, "a")
    second = enter(script, "b")
    assert (second["memberEpoch"], places(second)) == (3, {})
    told = beat(script, "a", 2)
    assert told["memberEpoch"] == 2
    kept = places(told)[T]
    assert len(kept) == 2
    assert places(beat(script, "b", 3)) is None
    # It still has the others, so it stays where it is.
    assert beat(script, "a", 2, owned={T: [0, 1, 2, 3]})["memberEpoch"] == 2
    assert places(beat(script, "b", 3)) is None
    moved = beat(script, "a", 2, owned={T: kept})
    assert moved["memberEpoch"] == 3
    assert places(beat(script, "b", 3)) == {T: sorted({0, 1, 2, 3} - set(kept))}
    assert script.coordinator.table.get(GROUP).state_name == "Stable"


@scripted
async def test_partitions_of_a_member_that_leaves_go_to_the_others(script: Script) -> None:
    enter(script, "a")
    enter(script, "b")
    kept = places(beat(script, "a", 2))[T]
    beat(script, "a", 2, owned={T: kept})
    beat(script, "b", 3)
    left = beat(script, "a", -1)
    assert (left["errorCode"], left["memberEpoch"]) == (0, -1)
    answer = beat(script, "b", 3)
    assert (answer["memberEpoch"], places(answer)) == (4, {T: [0, 1, 2, 3]})
    assert beat(script, "a", 3)["errorCode"] == UNKNOWN_MEMBER
    beat(script, "b", -1)
    assert script.coordinator.table.get(GROUP).state_name == "Empty"


@scripted
async def test_the_end_of_a_session_gives_the_partitions_to_the_others(script: Script) -> None:
    enter(script, "a")
    enter(script, "b")
    for _ in range(5):
        await trio.sleep(10)
        answer = beat(script, "b", 3)
        if answer["memberEpoch"] == 4:
            break
    assert places(answer) == {T: [0, 1, 2, 3]}
    assert trio.current_time() < 51


@scripted
async def test_a_member_that_does_not_give_up_partitions_in_time_is_dropped(script: Script) -> None:
    enter(script, "a")
    enter(script, "b")
    for _ in range(4):
        answer = beat(script, "a", 2, owned={T: [0, 1, 2, 3]})
        assert answer["errorCode"] == 0
        beat(script, "b", 3)
        await trio.sleep(9)
    assert beat(script, "a", 2)["errorCode"] == UNKNOWN_MEMBER
    assert places(beat(script, "b", 3)) == {T: [0, 1, 2, 3]}


@scripted
async def test_epochs_fence_a_member_that_is_behind_or_ahead(script: Script) -> None:
    enter(script, "a")
    enter(script, "b")
    kept = places(beat(script, "a", 2))[T]
    beat(script, "a", 2, owned={T: kept})  # its answer, with epoch 3, is lost
    assert beat(script, "a", 2, owned={T: kept})["memberEpoch"] == 3
    assert beat(script, "a", 2)["errorCode"] == FENCED_EPOCH
    assert beat(script, "a", 2, owned={T: [0, 1, 2, 3]})["errorCode"] == FENCED_EPOCH
    assert beat(script, "a", 4)["errorCode"] == FENCED_EPOCH
    again = enter(script, "a")
    assert (again["memberEpoch"], places(again)) == (3, {T: kept})


@scripted
async def test_an_answer_to_a_full_request_states_the_assignment_again(script: Script) -> None:
    enter(script, "a")
    answer = beat(
        script,
        "a",
        2,
        owned={T: [0, 1, 2, 3]},
        rebalanceTimeoutMs=30_000,
        subscribedTopicNames=["orders"],
    )
    assert (answer["memberEpoch"], places(answer)) == (2, {T: [0, 1, 2, 3]})


@scripted
async def test_a_changed_subscription_moves_a_member(script: Script) -> None:
    enter(script, "a")
    told = beat(script, "a", 2, subscribedTopicNames=["audit"], owned={T: [0, 1, 2, 3]})
    assert (told["memberEpoch"], places(told)) == (2, {})
    moved = beat(script, "a", 2, owned={})
    assert (moved["memberEpoch"], places(moved)) == (3, {U: [0, 1]})


@scripted
async def test_new_topics_and_partitions_are_assigned_when_they_appear(script: Script) -> None:
    enter(script, "a", "orders", "later")
    later = TopicsNow({"orders": KnownTopic(T, 5), "later": KnownTopic(U, 1)})
    answer = beat(script, "a", 2, now=later)
    assert (answer["memberEpoch"], places(answer)) == (3, {T: [0, 1, 2, 3, 4], U: [0]})
    same = TopicsNow({"orders": KnownTopic(T, 5), "later": KnownTopic(U, 1)})
    assert beat(script, "a", 3, now=same)["memberEpoch"] == 3


@scripted
async def test_the_assignor_that_most_members_ask_for_assigns(script: Script) -> None:
    enter(script, "a", "orders", "audit", serverAssignor="range")
    assert script.coordinator.table.get(GROUP).assignor == "range"
    enter(script, "b", "orders", "audit", serverAssignor="range")
    enter(script, "c", "orders", "audit", serverAssignor="uniform")
    group = script.coordinator.table.get(GROUP)
    assert group.assignor == "range"
    assert group.target["a"] == {(T, 0), (T, 1), (U, 0)}
    assert enter(script, "d", serverAssignor="sticky")["errorCode"] == UNSUPPORTED_ASSIGNOR


# Patterns


@scripted
async def test_a_pattern_subscribes_to_the_topics_that_it_matches_as_a_whole(
    script: Script,
) -> None:
    answer = enter(script, "a", subscribedTopicNames=None, subscribedTopicRegex="ord.*|aud")
    assert (answer["memberEpoch"], places(answer)) == (1, {})  # it is looked up afterwards
    assert places(beat(script, "a", 1)) == {T: [0, 1, 2, 3]}
    both = enter(script, "b", "audit", subscribedTopicRegex="none")
    assert places(both) == {U: [0, 1]}


@scripted
async def test_another_pattern_is_looked_up_after_ten_seconds(script: Script) -> None:
    enter(script, "a", subscribedTopicNames=None, subscribedTopicRegex="ord.*")
    assert places(beat(script, "a", 1)) == {T: [0, 1, 2, 3]}
    enter(script, "b", subscribedTopicNames=None, subscribedTopicRegex="aud.*")
    assert places(beat(script, "b", 2)) is None
    await trio.sleep(10.1)
    assert places(beat(script, "b", 2)) is None
    assert places(beat(script, "b", 2)) == {U: [0, 1]}


@scripted
async def test_a_pattern_that_takes_the_place_of_the_only_one_is_looked_up_at_the_next_heartbeat(
    script: Script,
) -> None:
    enter(script, "a", subscribedTopicNames=None, subscribedTopicRegex="ord.*")
    beat(script, "a", 1)
    told = beat(script, "a", 2, subscribedTopicRegex="aud.*", owned={T: [0, 1, 2, 3]})
    assert places(told) == {}
    beat(script, "a", 2, owned={})
    assert places(beat(script, "a", 2, owned={})) == {U: [0, 1]}


@scripted
async def test_a_pattern_that_re2_does_not_take_is_refused(script: Script) -> None:
    for pattern in ("(", "(?=a)b", "((a{100}){100}){100}"):
        answer = enter(script, "a", subscribedTopicNames=None, subscribedTopicRegex=pattern)
        assert answer["errorCode"] == BAD_PATTERN
        assert pattern in answer["errorMessage"]
    assert script.coordinator.table.get(GROUP) is None


@scripted
async def test_a_pattern_that_would_hold_up_others_takes_linear_time(script: Script) -> None:
    long = TopicsNow({"a" * 249: KnownTopic(T, 1)})
    answer = enter(
        script, "a", now=long, subscribedTopicNames=None, subscribedTopicRegex="(a*)*" * 30 + "b"
    )
    assert places(answer) == {}


# Static members


@scripted
async def test_a_static_member_that_left_for_now_comes_back_to_its_partitions(
    script: Script,
) -> None:
    enter(script, "a", instanceId="one")
    left = beat(script, "a", -2, instanceId="one")
    assert (left["errorCode"], left["memberEpoch"]) == (0, -2)
    answer = enter(script, "b", instanceId="one")
    assert (answer["memberId"], answer["memberEpoch"], places(answer)) == (
        "b",
        2,
        {T: [0, 1, 2, 3]},
    )
    assert beat(script, "a", 2, instanceId="one")["errorCode"] == FENCED_INSTANCE
    assert beat(script, "a", -1, instanceId="one")["errorCode"] == FENCED_INSTANCE


@scripted
async def test_a_static_member_in_use_is_not_replaced(script: Script) -> None:
    enter(script, "a", instanceId="one")
    assert enter(script, "b", instanceId="one")["errorCode"] == UNRELEASED_INSTANCE
    assert beat(script, "b", 2, instanceId="two")["errorCode"] == UNKNOWN_MEMBER


@scripted
async def test_a_static_member_that_comes_back_as_another_member_leaves_nothing_of_that_one(
    script: Script,
) -> None:
    enter(script, "a", instanceId="one")
    enter(script, "b")
    beat(script, "a", -2, instanceId="one")
    assert enter(script, "b", instanceId="one")["errorCode"] == 0
    group = script.coordinator.table.get(GROUP)
    assert list(group.members) == ["b"]
    assert set(group.owners.values()) == {"b"}
    beat(script, "b", -1)
    assert not group.owners
    assert script.coordinator.table.account.held == 1024 + len(GROUP)


@scripted
async def test_a_static_member_that_does_not_come_back_is_dropped(script: Script) -> None:
    enter(script, "a", instanceId="one")
    beat(script, "a", -2, instanceId="one")
    await trio.sleep(45.1)
    assert script.coordinator.table.get(GROUP).is_empty


# Requests that are refused


@scripted
async def test_requests_that_no_client_sends_are_refused(script: Script) -> None:
    for answer in (
        enter(script, ""),
        enter(script, "a", groupId=""),
        enter(script, "a", rebalanceTimeoutMs=-1),
        enter(script, "a", owned={T: [0]}),
        enter(script, "a", subscribedTopicNames=None),
        enter(script, "a", instanceId=""),
        enter(script, "a", rackId=""),
        beat(script, "a", -2),
        beat(script, "a", -3),
        beat(script, "", 2, version=0),
    ):
        assert answer["errorCode"] == INVALID_REQUEST
    assert len(enter(script, "", version=0)["memberId"]) == 22


@scripted
async def test_members_of_groups_that_the_server_does_not_know_join_again(script: Script) -> None:
    assert beat(script, "a", 8)["errorCode"] == UNKNOWN_MEMBER
    assert beat(script, "a", -1)["errorCode"] == GROUP_NOT_FOUND


# Commits and offsets


@scripted
async def test_commits_are_fenced_by_epochs_and_partitions(script: Script) -> None:
    why = script.coordinator.why_no_commit
    enter(script, "a")
    assert why(GROUP, "a", None, 2, 9, [("orders", 0)]) == 0
    assert why(GROUP, "a", None, 2, 8, [("orders", 0)]) == 35
    assert why(GROUP, "a", None, 3, 9, [("orders", 0)]) == STALE_EPOCH
    assert why(GROUP, "ghost", None, 2, 9, []) == UNKNOWN_MEMBER
    assert why(GROUP, "", None, -1, 9, []) == UNKNOWN_MEMBER
    enter(script, "b")
    kept = places(beat(script, "a", 2))[T]
    beat(script, "a", 2, owned={T: kept})
    assert why(GROUP, "a", None, 2, 9, [("orders", kept[0])]) == 0
    (lost, _) = sorted({0, 1, 2, 3} - set(kept))
    assert why(GROUP, "a", None, 2, 9, [("orders", lost)]) == STALE_EPOCH


@scripted
async def test_offsets_are_told_to_members_of_the_present_epoch(script: Script) -> None:
    why = script.coordinator.why_no_fetch
    enter(script, "a")
    assert why(GROUP, None, -1) == why(GROUP, "a", 2) == why("other", "a", 2) == 0
    assert why(GROUP, "a", 3) == STALE_EPOCH
    assert why(GROUP, "ghost", 2) == UNKNOWN_MEMBER


# Limits


@scripted
async def test_a_full_group_takes_no_more_members(script: Script) -> None:
    for name in "abcd":
        assert enter(script, name)["errorCode"] == 0
    assert enter(script, "e")["errorCode"] == GROUP_IS_FULL


@scripted
async def test_partitions_to_assign_have_a_limit_over_all_groups(script: Script) -> None:
    before = script.coordinator.table.account.held
    many = TopicsNow({"orders": KnownTopic(T, 200)})
    assert enter(script, "a", now=many)["errorCode"] == 0
    assert enter(script, "a", now=many, groupId="other")["errorCode"] == GROUP_IS_FULL
    assert script.coordinator.table.get("other").is_empty
    beat(script, "a", -1, now=many)
    assert script.coordinator.table.account.held - before < 2200


def test_members_that_come_and_go_leave_nothing_behind():
    async def many(script: Script) -> None:
        for number in range(300):
            name = f"member {number}"
            assert enter(script, name)["errorCode"] == 0
            if number % 3:
                beat(script, name, -1)
            await trio.sleep(20)
        await trio.sleep(100)
        group = script.coordinator.table.get(GROUP)
        assert not group.members
        assert not group.owners
        assert not group.target
        assert script.coordinator.table.account.held == 1024 + len(GROUP)
        assert len(script.coordinator.table.timers) == 0

    scripted(many, GroupLimits())()


@scripted
async def test_a_member_that_leaves_a_group_on_disk_is_unknown_to_it(script: Script) -> None:
    assert beat(script, "stranger", -1, known=5)["errorCode"] == UNKNOWN_MEMBER
    assert beat(script, "stranger", -1)["errorCode"] == GROUP_NOT_FOUND
    assert script.coordinator.table.get(GROUP) is None
