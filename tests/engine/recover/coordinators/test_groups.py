"""Groups of all kinds keep their offsets and their state inside the logs, and lose their members as Kafka drops them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from engine.rebuild.assembly.pieces import Piece
from engine.recover.coordinators.coordinator_log import (
    CoordinatorMessage,
    KeyedValue,
    appended_batch,
)
from engine.recover.coordinators.group_offsets import GroupRecords, GroupState
from engine.recover.coordinators.share_states import clamped, share_rows
from engine.replay.groups.share_state import ShareOffset
from engine.units import TopicPartition

NOW = 1_800_000_000_000
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = base64.urlsafe_b64encode(bytes(15) + b"\x07").decode().rstrip("=")


def record(
    file: str, name: str, kind: int, key: dict[str, Any], value: dict[str, Any]
) -> KeyedValue:
    keys = CoordinatorMessage(f"{file}.txt", f"{name}Key")
    values = CoordinatorMessage(f"{file}.txt", f"{name}Value")
    return KeyedValue(keys.write_key(key, kind), values.write(value, b"\0\0"))


def pieces(records: Sequence[KeyedValue]) -> list[Piece]:
    data = appended_batch(records, 0, 3, NOW)
    return [Piece(None, 0, len(data), 0, len(records), 3, 1, len(records), data=data)]


def ended(records: Sequence[KeyedValue]) -> GroupRecords:
    state = GroupState(pieces(records), "__consumer_offsets-0", {})
    return state.records(state.offsets(), {ORDERS: 100}, lambda _: None, NOW)


def offset(group: str, committed: int) -> KeyedValue:
    key = {"group": group, "topic": "orders", "partition": 0}
    value = {"offset": committed, "metadata": "", "commitTimestamp": 1}
    return record("consumer_offsets", "OffsetCommit", 1, key, value)


def test_members_of_the_consumer_protocol_go_in_the_order_that_a_coordinator_takes() -> None:
    file, group, member = "consumer_groups", {"groupId": "g"}, {"groupId": "g", "memberId": "m"}
    nobody = {"clientId": "", "clientHost": "", "subscribedTopicNames": ["orders"]}
    here = {"memberEpoch": 4, "previousMemberEpoch": 3, "state": 0}
    here |= {"assignedPartitions": [], "partitionsPendingRevocation": []}
    made = ended(
        [
            record(file, "ConsumerGroupMetadata", 3, group, {"epoch": 4}),
            record(file, "ConsumerGroupMemberMetadata", 5, member, nobody),
            record(file, "ConsumerGroupTargetAssignmentMember", 7, member, {"topicPartitions": []}),
            record(file, "ConsumerGroupCurrentMemberAssignment", 8, member, here),
            offset("g", 90),
        ]
    )
    assert made.moved == []
    *tombstones, group_record = made.records
    assert [(each.key[1], each.value) for each in tombstones] == [(8, None), (7, None), (5, None)]
    fields = CoordinatorMessage(f"{file}.txt", "ConsumerGroupMetadataValue").read(
        group_record.value or b""
    )
    assert fields is not None
    assert (group_record.key[1], fields["epoch"]) == (3, 5)
    assert (made.dropped.classic, made.dropped.others) == ([], ["g"])


def test_a_group_without_members_is_left_as_it_is() -> None:
    made = ended(
        [
            record(
                "share_groups",
                "ShareGroupMetadata",
                11,
                {"groupId": "s"},
                {"epoch": 2, "metadataHash": 0},
            )
        ]
    )
    assert made.records == []


def test_share_and_streams_groups_lose_their_members_too() -> None:
    member = {"groupId": "s", "memberId": "m"}
    share = {"clientId": "", "clientHost": "", "subscribedTopicNames": []}
    streams = {
        "clientId": "",
        "clientHost": "",
        "topologyEpoch": 0,
        "processId": "",
        "clientTags": [],
    }
    made = ended(
        [
            record("share_groups", "ShareGroupMemberMetadata", 10, member, share),
            record(
                "streams_groups",
                "StreamsGroupMemberMetadata",
                19,
                member | {"groupId": "t"},
                streams,
            ),
        ]
    )
    assert [(each.key[1], each.value) for each in made.records] == [(10, None), (19, None)]
    assert made.dropped.others == ["s", "t"]


def test_a_classic_group_loses_its_members_now_so_that_its_offsets_age_from_now_on() -> None:
    one = {"memberId": "m", "clientId": "", "clientHost": "", "sessionTimeout": 1}
    one |= {"subscription": b"", "assignment": b""}
    value = {
        "protocolType": "consumer",
        "generation": 7,
        "protocol": "range",
        "leader": "m",
        "members": [one],
    }
    values = CoordinatorMessage("consumer_offsets.txt", "GroupMetadataValue")
    key = record(
        "consumer_offsets", "GroupMetadata", 2, {"group": "c"}, value | {"members": []}
    ).key
    made = ended([KeyedValue(key, values.write(value, b"\0\3"))])
    [emptied] = made.records
    fields = values.read(emptied.value or b"")
    assert fields is not None
    assert (fields["members"], fields["generation"]) == ([], 7)
    assert fields["currentStateTimestamp"] == NOW


def shared(start: int, *batches: tuple[int, int, int]) -> list[KeyedValue]:
    """A snapshot, and an update with batches: first and last offset, delivery state."""
    key = {"groupId": "s", "topicId": TOPIC_ID, "partition": 0}
    state = {"snapshotEpoch": 3, "stateEpoch": 2, "leaderEpoch": 9, "startOffset": 0}
    state |= {"createTimestamp": 5, "writeTimestamp": 5, "stateBatches": []}
    rows = [
        {"firstOffset": first, "lastOffset": last, "deliveryState": kind, "deliveryCount": 1}
        for first, last, kind in batches
    ]
    update = {"snapshotEpoch": 3, "leaderEpoch": 9, "startOffset": start, "stateBatches": rows}
    return [
        record("share_group_state", "ShareSnapshot", 0, key, state),
        record("share_group_state", "ShareUpdate", 1, key, update),
    ]


def cut_at(end: int, records: list[KeyedValue]) -> ShareOffset | None:
    """The state after a cut; None if it stays as it is."""
    rows = list(share_rows(pieces(records), "__share_group_state-0"))
    made, moved = clamped(rows, lambda *_: (ORDERS, end), NOW)
    assert [(each.group, each.after) for each in moved] == [("s", end)] * len(made)
    if not made:
        return None
    [after] = share_rows(pieces([*records, *made]), "__share_group_state-0")
    return after.state


def test_share_state_inside_the_log_stays() -> None:
    assert cut_at(100, shared(40, (50, 59, 2), (60, 99, 0))) is None


def test_records_that_will_get_the_offsets_of_lost_ones_do_not_count_as_delivered() -> None:
    after = cut_at(55, shared(40, (50, 59, 2), (60, 99, 0)))
    assert after is not None
    assert [(each.first_offset, each.last_offset) for each in after.batches] == [(50, 54)]
    assert (after.start_offset, after.snapshot_epoch, after.state_epoch) == (40, 4, 2)


def test_a_share_partition_that_begins_past_the_end_begins_at_it() -> None:
    after = cut_at(30, shared(40, (50, 59, 2)))
    assert after is not None
    assert (after.start_offset, after.batches) == (30, ())


def test_share_state_of_a_topic_that_is_not_there_stays() -> None:
    rows = list(share_rows(pieces(shared(40)), "x"))
    assert [(each.group, each.topic_id, each.number) for each in rows] == [("s", TOPIC_ID, 0)]
    assert clamped(rows, lambda *_: None, NOW) == ([], [])
