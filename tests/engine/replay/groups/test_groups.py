"""Groups as the records of __consumer_offsets leave them."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from engine.budgets import DEFAULT_BUDGETS
from engine.errors import LimitExceededError
from engine.log.log_directory import LogSource, open_source
from engine.replay import keyed_state
from engine.replay.groups.group import Group
from engine.replay.groups.groups import replay_groups
from engine.replay.log_replay import LogReplay
from engine.replay.source_state import SourceState
from tests.builders import Producer, Rec, batch, end_marker, values
from tests.fixtures_data import log_dir
from tests.replayed_bytes import (
    NOW,
    TOPIC_ID,
    commit,
    group_record,
    in_batches,
    topic_records,
    write_partition,
)

OFFSETS = "__consumer_offsets-0"


def source_of(log_dir: Path, batches: list[bytes]) -> LogSource:
    write_partition(log_dir, OFFSETS, batches)
    return open_source(str(log_dir))


def group_of(log_dir: Path, records: list[Rec], name: str = "g") -> Group:
    source = source_of(log_dir, in_batches(records))
    group = replay_groups(source).image().group(name)
    assert group is not None
    return group


def committed(source: LogSource) -> dict[tuple[str, str, int], int]:
    image = replay_groups(source).image()
    return {
        (name, *key): offset.offset
        for name in image.names
        if (group := image.group(name))
        for key, offset in group.offsets.items()
    }


def test_groups_of_a_broker_have_the_offsets_that_it_committed() -> None:
    source = open_source(str(log_dir("current")))
    assert committed(source) == {
        ("billing-0", "orders", 0): 50,
        ("billing-2", "orders", 2): 50,
    }


def test_the_last_commit_of_a_partition_counts_and_a_tombstone_takes_it(tmp_path: Path) -> None:
    records = [commit("g", "t", 0, 5), commit("g", "t", 1, 7), commit("h", "t", 0, 1)]
    records += [commit("g", "t", 0, 9), commit("g", "t", 1, None), commit("h", "t", 0, None)]
    source = source_of(tmp_path, in_batches(records))
    assert committed(source) == {("g", "t", 0): 9}
    assert replay_groups(source).image().names == ("g",)


def test_a_commit_has_all_that_its_record_says(tmp_path: Path) -> None:
    key = {"group": "g", "topic": "t", "partition": 3}
    value = {
        "offset": 12,
        "metadata": "näher",
        "commitTimestamp": NOW + 1,
        "expireTimestamp": NOW + 9,
    }
    group = group_of(tmp_path, [group_record(1, key, value, version=1, timestamp=NOW + 2)])
    assert group.offsets["t", 3].facts() == {
        "topic": "t", "partition": 3, "offset": 12, "leaderEpoch": None, "metadata": "näher",
        "commitTimestamp": NOW + 1, "expireTimestamp": NOW + 9, "topicId": None,
        "producerId": None, "recordOffset": 0, "recordTimestamp": NOW + 2,
    }  # fmt: skip
    assert (group.kind, group.state, group.protocol_type) == ("classic", "Empty", "")
    assert group.timestamp == NOW + 2


@pytest.mark.parametrize("type_id", [0, 1])
def test_both_types_of_keys_are_commits(tmp_path: Path, type_id: int) -> None:
    key = {"group": "g", "topic": "t", "partition": 0}
    value = {"offset": 3, "metadata": "", "commitTimestamp": NOW}
    group = group_of(tmp_path, [group_record(type_id, key, value)])
    assert group.offsets["t", 0].offset == 3


# Transactions


@pytest.mark.parametrize(("ending", "expected"), [(True, 20), (False, 10), (None, 10)])
def test_an_offset_in_a_transaction_counts_once_it_is_committed(
    tmp_path: Path, ending: bool | None, expected: int
) -> None:
    writer = Producer(id=7, epoch=0, sequence=0)
    batches = in_batches([commit("g", "t", 0, 10)])
    batches.append(batch([commit("g", "t", 0, 20)], 1, producer=writer, transactional=True))
    if ending is not None:
        batches.append(end_marker(2, writer, commit=ending))
    image = replay_groups(source_of(tmp_path, batches)).image()
    group = image.group("g")
    assert group is not None
    assert group.offsets["t", 0].offset == expected
    assert group.offsets["t", 0].producer_id == (7 if ending else None)
    assert [each.offset for each in group.pending] == ([20] if ending is None else [])


def test_a_commit_outside_that_is_newer_than_the_transactions_stays(tmp_path: Path) -> None:
    writer = Producer(id=7, epoch=0, sequence=0)
    batches = [
        batch([commit("g", "t", 0, 20)], 0, producer=writer, transactional=True),
        batch([commit("g", "t", 0, 30)], 1),
        end_marker(2, writer, commit=True),
    ]
    assert committed(source_of(tmp_path, batches)) == {("g", "t", 0): 30}


def test_a_tombstone_takes_what_waits_for_its_transaction_too(tmp_path: Path) -> None:
    writer = Producer(id=7, epoch=0, sequence=0)
    batches = [
        batch([commit("g", "t", 0, 20)], 0, producer=writer, transactional=True),
        batch([commit("g", "t", 0, None)], 1),
        end_marker(2, writer, commit=True),
    ]
    assert committed(source_of(tmp_path, batches)) == {}


def test_a_group_whose_first_offset_waits_is_there(tmp_path: Path) -> None:
    writer = Producer(id=7, epoch=0, sequence=0)
    waiting = batch([commit("g", "t", 0, 20)], 0, producer=writer, transactional=True)
    group = replay_groups(source_of(tmp_path, [waiting])).image().group("g")
    assert group is not None
    assert not group.offsets
    assert [each.offset for each in group.pending] == [20]


# Kinds of groups


def classic(members: list[dict[str, Any]], timestamp: int = NOW) -> Rec:
    value = {
        "protocolType": "consumer", "generation": 4, "protocol": "range", "leader": "m1",
        "currentStateTimestamp": NOW, "members": members,
    }  # fmt: skip
    return group_record(2, {"group": "g"}, value, version=3, timestamp=timestamp)


def test_a_classic_group_has_its_members_and_what_they_are_assigned(tmp_path: Path) -> None:
    assignment = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\0" + b"\0\0\0\2"
    assignment += b"\xff\xff\xff\xff"
    member = {
        "memberId": "m1", "clientId": "c", "clientHost": "/1.2.3.4", "rebalanceTimeout": 5,
        "sessionTimeout": 6, "subscription": b"", "assignment": assignment,
        "groupInstanceId": "static-1",
    }  # fmt: skip
    group = group_of(tmp_path, [classic([member])])
    assert (group.kind, group.state, group.epoch) == ("classic", "Stable", 4)
    [found] = group.members
    assert [(each.topic, each.partitions) for each in found.assignment] == [("t", (0, 2))]
    assert (found.instance_id, found.client_host) == ("static-1", "/1.2.3.4")


def test_a_classic_group_without_members_is_empty(tmp_path: Path) -> None:
    assert group_of(tmp_path, [classic([])]).state == "Empty"


def consumer_group(epoch: int, assigned: int, member: int, state: int = 0) -> list[Rec]:
    ids = {"groupId": "g", "memberId": "m1"}
    parts = [{"topicId": TOPIC_ID, "partitions": [1, 0]}]
    about = {
        "instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h",
        "subscribedTopicNames": ["t"], "subscribedTopicRegex": None, "serverAssignor": None,
    }  # fmt: skip
    now = {
        "memberEpoch": member, "previousMemberEpoch": 0, "state": state,
        "assignedPartitions": parts, "partitionsPendingRevocation": [],
    }  # fmt: skip
    return [
        group_record(5, ids, about),
        group_record(3, {"groupId": "g"}, {"epoch": epoch}),
        group_record(7, ids, {"topicPartitions": parts}),
        group_record(6, {"groupId": "g"}, {"assignmentEpoch": assigned}),
        group_record(8, ids, now),
    ]


@pytest.mark.parametrize(
    ("epochs", "state"),
    [
        ((3, 3, 3, 0), "Stable"),
        ((4, 3, 3, 0), "Assigning"),
        ((4, 4, 3, 0), "Reconciling"),
        ((4, 4, 4, 1), "Reconciling"),
    ],
)
def test_a_consumer_group_is_judged_by_its_epochs(
    tmp_path: Path, epochs: tuple[int, int, int, int], state: str
) -> None:
    group = group_of(tmp_path, consumer_group(*epochs))
    assert (group.kind, group.state, group.epoch) == ("consumer", state, epochs[0])


def test_a_consumer_group_that_was_left_is_empty(tmp_path: Path) -> None:
    ids = {"groupId": "g", "memberId": "m1"}
    left = [group_record(type_id, ids, None) for type_id in (8, 7, 5)]
    left.append(group_record(3, {"groupId": "g"}, {"epoch": 4}))
    group = group_of(tmp_path, consumer_group(3, 3, 3) + left)
    assert (group.state, group.members, group.epoch) == ("Empty", (), 4)


def test_a_group_that_changed_its_protocol_is_what_it_is_now(tmp_path: Path) -> None:
    records = [classic([]), *consumer_group(1, 1, 1)]
    assert group_of(tmp_path, records).kind == "consumer"
    again = tmp_path / "again"
    assert group_of(again, [*consumer_group(1, 1, 1), classic([])]).kind == "classic"


def test_rows_name_the_topics_of_ids_by_the_clusters_metadata(tmp_path: Path) -> None:
    records = [*consumer_group(1, 1, 1), commit("g", "t", 0, 4), commit("g", "other", 5, 6)]
    write_partition(tmp_path, "__cluster_metadata-0", in_batches(topic_records("t", TOPIC_ID, 2)))
    write_partition(tmp_path, "t-0", [batch(values("a", "b", "c", "d", "e", "f"))])
    state = SourceState(source_of(tmp_path, in_batches(records)))
    group = state.groups.image().group("g")
    assert group is not None
    rows = [
        (row.topic, row.partition, row.log_end, row.lag, row.member is not None)
        for row in state.rows(group)
    ]
    assert rows == [
        ("t", 0, 6, 2, True),
        ("t", 1, None, None, True),
        ("other", 5, None, None, False),
    ]


def test_rows_name_the_topics_of_ids_by_the_folders_else(tmp_path: Path) -> None:
    write_partition(tmp_path, "t-1", [batch(values("a"))])
    (tmp_path / "t-1" / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    state = SourceState(source_of(tmp_path, in_batches(consumer_group(1, 1, 1))))
    assert state.topic_name(TOPIC_ID) == "t"
    assert state.topic_name("AAAAAAAAAAAAAAAAAAAAAQ") is None


# Following


def test_a_new_commit_shows_without_replaying_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_partition(tmp_path, OFFSETS, in_batches([commit("g", "t", 0, 1)]))
    replay = replay_groups(open_source(str(tmp_path)))
    before = replay.image()
    assert replay.image() is before
    starts = []
    real = keyed_state.replayed_records

    def spied(view: Any, start: int, *rest: Any) -> Any:
        starts.append(start)
        return real(view, start, *rest)

    monkeypatch.setattr(keyed_state, "replayed_records", spied)
    with open(path, "ab") as log:
        log.write(batch([commit("g", "t", 0, 2), commit("h", "t", 0, 3)], 1))
    time.sleep(0.3)
    after = replay.image()
    assert starts == [1]
    group, old = after.group("g"), before.group("g")
    assert group is not None
    assert old is not None
    assert (group.offsets["t", 0].offset, old.offsets["t", 0].offset) == (2, 1)
    assert (after.names, before.names) == (("g", "h"), ("g",))


def test_a_log_that_was_written_anew_is_replayed_anew(tmp_path: Path) -> None:
    path = write_partition(tmp_path, OFFSETS, in_batches([commit("g", "t", 0, 1)]))
    replay = replay_groups(open_source(str(tmp_path)))
    assert replay.image().names == ("g",)
    path.unlink()
    write_partition(tmp_path, OFFSETS, in_batches([commit("other", "t", 0, 1)]))
    time.sleep(0.3)
    assert replay.image().names == ("other",)


# Damage and hostile bytes


def test_damage_is_named_and_the_rest_is_there(tmp_path: Path) -> None:
    batches = in_batches([commit("g", "t", number, number) for number in range(5)])
    broken = bytearray(batches[2])
    broken[70] ^= 1
    source = source_of(tmp_path, [*batches[:2], bytes(broken), *batches[3:]])
    assert set(committed(source)) == {("g", "t", number) for number in (0, 1, 3, 4)}
    [found] = replay_groups(source).image().unreadable
    assert found.partition == OFFSETS
    assert (found.position, found.length) == (sum(map(len, batches[:2])), len(broken))
    assert (found.first_offset, found.last_offset) == (2, 2)


@pytest.mark.parametrize(
    "key", [None, b"", b"\0\1", b"\0\1\0\5ab", b"\0\1\xff\xff", b"\0\1\x7f\xff" + b"x" * 9]
)
def test_a_record_whose_key_is_none_is_named(tmp_path: Path, key: bytes | None) -> None:
    source = source_of(tmp_path, in_batches([Rec(b"x", key), commit("g", "t", 0, 1)]))
    assert committed(source) == {("g", "t", 0): 1}
    [found] = replay_groups(source).image().unreadable
    assert (found.first_offset, found.last_offset) == (0, 0)


@pytest.mark.parametrize(
    "value", [b"", b"\0", b"\0\x63", b"\0\3short", b"\xff\xff" + b"\0" * 40], ids=repr
)
def test_a_value_that_cannot_be_read_is_a_note_of_its_group(tmp_path: Path, value: bytes) -> None:
    bad = commit("g", "t", 0, 1)._replace(value=value)
    group = group_of(tmp_path, [bad, commit("g", "t", 1, 2)])
    assert set(group.offsets) == {("t", 1)}
    [note] = group.notes
    assert note.startswith("offset 0: ")


def test_a_group_in_two_partitions_is_told_by_the_newer_one(tmp_path: Path) -> None:
    write_partition(tmp_path, OFFSETS, in_batches([commit("g", "t", 0, 1, NOW)]))
    newer = in_batches([commit("g", "t", 0, 2, NOW + 1)])
    write_partition(tmp_path, "__consumer_offsets-1", newer)
    source = open_source(str(tmp_path))
    assert committed(source) == {("g", "t", 0): 2}
    assert replay_groups(source).image().doubled == ("g",)


def test_names_that_are_not_utf_8_stay_apart(tmp_path: Path) -> None:
    records = []
    for raw in (b"a\xff", b"a\xfe"):
        record = commit("ab", "t", 0, 1)
        assert record.key is not None
        records.append(record._replace(key=record.key.replace(b"ab", raw)))
    image = replay_groups(source_of(tmp_path, in_batches(records))).image()
    assert image.names == ("a\udcfe", "a\udcff")
    assert all(image.group(name) for name in image.names)


def test_a_state_that_is_too_large_is_refused(tmp_path: Path) -> None:
    records = [commit("g", "t", number, number) for number in range(100)]
    write_partition(tmp_path, OFFSETS, in_batches(records))
    budgets = dataclasses.replace(DEFAULT_BUDGETS, replayed_bytes=20_000)
    source = open_source(str(tmp_path), budgets=budgets)
    with pytest.raises(LimitExceededError) as raised:
        replay_groups(source).image()
    assert raised.value.limit == "replayed_bytes"


def test_the_cost_of_a_state_follows_its_entries(tmp_path: Path) -> None:
    writer = Producer(id=7, epoch=0, sequence=0)
    batches = in_batches([commit("g", "t", 0, 1), commit("g", "t", 0, 2), commit("g", "t", 1, 2)])
    batches.append(batch([commit("g", "t", 2, 9)], 3, producer=writer, transactional=True))
    batches.append(end_marker(4, writer, commit=True))
    batches += in_batches([commit("g", "t", number, None) for number in range(3)], 5)
    source = source_of(tmp_path, batches)
    replay = LogReplay(source.partitions()[OFFSETS], keyed_state.carried_forward)
    state = replay.state()
    assert (state.cost, dict(state.owners), dict(state.pending)) == (0, {}, {})
