"""Share groups as the records of __share_group_state leave them, and their rows."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from engine.budgets import DEFAULT_BUDGETS
from engine.errors import LimitExceededError
from engine.log.log_directory import LogSource, open_source
from engine.replay.groups import share_state as share_state_module
from engine.replay.groups.share_rows import ShareRow
from engine.replay.groups.share_state import ShareOffset, share_state
from engine.replay.groups.shares import replay_shares
from engine.replay.log_replay import LogReplay
from engine.replay.source_state import SourceState
from tests.builders import Producer, Rec, batch, values
from tests.replayed_bytes import (
    NOW,
    TOPIC_ID,
    flights,
    group_record,
    in_batches,
    metadata_record,
    share_group,
    share_snapshot,
    share_tombstone,
    share_update,
    topic_records,
    write_partition,
)

STATE = "__share_group_state-0"
OFFSETS = "__consumer_offsets-0"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def source_of(log_dir: Path, records: list[Rec]) -> LogSource:
    write_partition(log_dir, STATE, in_batches(records))
    return open_source(str(log_dir))


def state_of(source: LogSource, partition: int = 0) -> ShareOffset:
    state = replay_shares(source).image().offset("g", TOPIC_ID, partition)
    assert state is not None
    return state


def rows_of(source: LogSource, name: str = "g") -> list[ShareRow]:
    state = SourceState(source)
    known = state.known_groups()
    group = known.group(name)
    assert group is not None
    return list(state.share_rows(group, known))


# States


def test_a_snapshot_says_everything(tmp_path: Path) -> None:
    record = share_snapshot(
        "g", 3, snapshotEpoch=5, stateEpoch=2, leaderEpoch=7, startOffset=40,
        deliveryCompleteCount=4, createTimestamp=NOW - 2, writeTimestamp=NOW - 1,
        stateBatches=flights((41, 44, 2, 1)), timestamp=NOW + 9,
    )  # fmt: skip
    assert state_of(source_of(tmp_path, [record]), 3).facts() == {
        "startOffset": 40, "deliveryCompleteCount": 4, "stateEpoch": 2, "leaderEpoch": 7,
        "snapshotEpoch": 5, "createTimestamp": NOW - 2, "writeTimestamp": NOW - 1,
        "stateBatches": [
            {"firstOffset": 41, "lastOffset": 44, "deliveryState": "ACKNOWLEDGED",
             "deliveryCount": 1},
        ],
        "recordOffset": 0, "recordTimestamp": NOW + 9, "notes": [],
    }  # fmt: skip


def test_an_update_changes_what_it_tells_and_the_rest_stays(tmp_path: Path) -> None:
    records = [
        share_snapshot(
            "g", 0, stateEpoch=2, leaderEpoch=7, startOffset=40, deliveryCompleteCount=0
        ),
        share_update("g", 0, deliveryCompleteCount=2, stateBatches=flights((42, 43, 2, 1))),
        share_update("g", 0, startOffset=43, leaderEpoch=8, deliveryCompleteCount=1),
    ]
    source = source_of(tmp_path, records)
    state = state_of(source)
    assert (state.start_offset, state.state_epoch, state.leader_epoch) == (43, 2, 8)
    assert state.delivery_complete_count == 1
    assert state.batches == ((43, 43, 2, 1),)
    assert state.record_offset == 2


def test_a_newer_snapshot_replaces_all_before_it(tmp_path: Path) -> None:
    records = [
        share_snapshot("g", 0, startOffset=0, stateBatches=flights((0, 9, 2, 1))),
        share_update("g", 0, stateBatches=flights((20, 29, 4, 5))),
        share_snapshot("g", 0, startOffset=100, deliveryCompleteCount=0, stateEpoch=1),
        share_update("g", 0, stateBatches=flights((101, 101, 0, 1))),
    ]
    state = state_of(source_of(tmp_path, records))
    assert (state.start_offset, state.state_epoch) == (100, 1)
    assert state.batches == ((101, 101, 0, 1),)


def test_partitions_that_are_not_initialized_have_nothing_told(tmp_path: Path) -> None:
    state = state_of(source_of(tmp_path, [share_snapshot("g", 0)]))
    assert (state.start_offset, state.delivery_complete_count) == (None, None)
    assert (state.leader_epoch, state.state_epoch) == (0, 0)


def test_a_tombstone_takes_a_share_partition_and_the_last_its_group(tmp_path: Path) -> None:
    records = [
        share_snapshot("g", 0, startOffset=1), share_snapshot("g", 1, startOffset=2),
        share_update("g", 0, startOffset=3), share_tombstone("g", 0),
        share_snapshot("h", 0), share_tombstone("h", 0),
    ]  # fmt: skip
    image = replay_shares(source_of(tmp_path, records)).image()
    assert image.names == {"g"}
    assert image.partitions("g") == [(TOPIC_ID, 1)]
    assert image.offset("g", TOPIC_ID, 0) is None


def test_a_share_partition_comes_back_after_its_tombstone_without_what_was(tmp_path: Path) -> None:
    records = [
        share_snapshot("g", 0, startOffset=1, stateBatches=flights((1, 2, 2, 1))),
        share_tombstone("g", 0),
        share_snapshot("g", 0, startOffset=5),
        share_update("g", 0),
    ]
    assert state_of(source_of(tmp_path, records)).batches == ()


@pytest.mark.parametrize("count", [1, 15, 16, 49])
def test_many_updates_add_up_like_few(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_state_module, "MOST_UPDATES", 16)
    records = [share_snapshot("g", 0, startOffset=0, stateEpoch=4, deliveryCompleteCount=0)]
    records += [
        share_update(
            "g", 0, startOffset=number // 2, deliveryCompleteCount=number,
            stateBatches=flights((number * 2, number * 2, 2, 1 + number % 3)),
        )
        for number in range(count)
    ]  # fmt: skip
    state = state_of(source_of(tmp_path, records))
    last = count - 1
    assert (state.start_offset, state.delivery_complete_count) == (last // 2, last)
    assert (state.state_epoch, state.record_offset, state.notes) == (4, count, ())
    assert state.batches == tuple(
        (number * 2, number * 2, 2, 1 + number % 3)
        for number in range(count)
        if number * 2 >= last // 2
    )


def test_a_producer_of_records_does_not_matter_as_for_the_share_coordinator(tmp_path: Path) -> None:
    writer = Producer(id=7, epoch=0, sequence=0)
    record = share_snapshot("g", 0, startOffset=3)
    write_partition(tmp_path, STATE, [batch([record], 0, producer=writer, transactional=True)])
    assert state_of(open_source(str(tmp_path))).start_offset == 3


def test_a_group_is_known_from_all_partitions_of_the_topic(tmp_path: Path) -> None:
    write_partition(tmp_path, STATE, in_batches([share_snapshot("g", 0, startOffset=1)]))
    records = [share_snapshot("g", 1, startOffset=2)]
    write_partition(tmp_path, "__share_group_state-1", in_batches(records))
    image = replay_shares(open_source(str(tmp_path))).image()
    assert image.partitions("g") == [(TOPIC_ID, 0), (TOPIC_ID, 1)]
    assert [image.coordinator("g", TOPIC_ID, number) for number in (0, 1, 2)] == [0, 1, None]


# As of a time, and following


def test_a_new_update_shows_without_replaying_the_old_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = share_snapshot("g", 0, startOffset=1)
    path = write_partition(tmp_path, STATE, in_batches([first, share_snapshot("h", 0)]))
    replay = replay_shares(open_source(str(tmp_path)))
    before = replay.image()
    assert replay.image() is before
    starts = []
    real = share_state_module.replayed_records

    def spied(view: Any, start: int, *rest: Any) -> Any:
        starts.append(start)
        return real(view, start, *rest)

    monkeypatch.setattr(share_state_module, "replayed_records", spied)
    with open(path, "ab") as log:
        log.write(batch([share_update("g", 0, startOffset=5), share_tombstone("h", 0)], 2))
    time.sleep(0.3)
    after = replay.image()
    assert starts == [2]
    old, new = before.offset("g", TOPIC_ID, 0), after.offset("g", TOPIC_ID, 0)
    assert old is not None
    assert new is not None
    assert (old.start_offset, new.start_offset) == (1, 5)
    assert (before.names, after.names) == ({"g", "h"}, {"g"})


# Damage


def test_an_update_without_its_snapshot_is_noted_and_shows_what_it_tells(tmp_path: Path) -> None:
    records = [share_update("g", 0, startOffset=9, deliveryCompleteCount=1, leaderEpoch=2)]
    state = state_of(source_of(tmp_path, [*records, share_update("g", 0)]))
    assert (state.start_offset, state.leader_epoch, state.state_epoch) == (9, 2, None)
    assert state.notes == ("offset 0: an update without a snapshot",)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x63", b"\0\0short", b"\xff" * 60], ids=repr)
def test_a_value_that_cannot_be_read_is_a_note_and_the_rest_counts(
    tmp_path: Path, value: bytes
) -> None:
    bad = share_update("g", 0)._replace(value=value)
    lost = share_snapshot("g", 1)._replace(value=value)
    records = [
        share_snapshot("g", 0, startOffset=1),
        bad,
        share_update("g", 0, startOffset=2),
        lost,
    ]
    source = source_of(tmp_path, records)
    state = state_of(source)
    assert state.start_offset == 2
    [note] = state.notes
    assert note.startswith("offset 1: ")
    other = state_of(source, 1)
    assert other.start_offset is None
    assert other.notes[0].startswith("offset 3: ")


def test_batches_that_end_before_they_begin_are_noted(tmp_path: Path) -> None:
    record = share_snapshot("g", 0, stateBatches=flights((9, 3, 2, 1), (4, 4, 2, 1)))
    state = state_of(source_of(tmp_path, [record]))
    assert state.batches == ((4, 4, 2, 1),)
    assert state.notes == ("offset 0: 1 batches have a last offset below the first",)


def test_records_with_no_key_of_the_topic_are_named(tmp_path: Path) -> None:
    key = share_snapshot("g", 0).key
    assert key is not None
    wrong = [None, b"", b"\0", b"\0\7" + key[2:], key + b"\0", key[:-1]]
    records = [Rec(b"x", each) for each in wrong]
    no_value = share_update("g", 0)._replace(value=None)
    source = source_of(tmp_path, [*records, no_value, share_snapshot("g", 0, startOffset=4)])
    image = replay_shares(source).image()
    assert [each.first_offset for each in image.unreadable] == list(range(len(wrong) + 1))
    assert state_of(source).start_offset == 4


def test_a_damaged_batch_costs_its_records_only(tmp_path: Path) -> None:
    batches = in_batches(
        [share_snapshot("g", 0, startOffset=1), share_update("g", 0, startOffset=2),
         share_update("g", 0, startOffset=3)]
    )  # fmt: skip
    hurt = bytearray(batches[1])
    hurt[-1] ^= 0xFF
    write_partition(tmp_path, STATE, [batches[0], bytes(hurt), batches[2]])
    source = open_source(str(tmp_path))
    assert state_of(source).start_offset == 3
    [place] = replay_shares(source).image().unreadable
    assert (place.position, place.first_offset) == (len(batches[0]), 1)


def test_a_state_that_is_too_large_is_refused(tmp_path: Path) -> None:
    records = [share_snapshot("g", number) for number in range(100)]
    write_partition(tmp_path, STATE, in_batches(records))
    budgets = dataclasses.replace(DEFAULT_BUDGETS, replayed_bytes=50_000)
    source = open_source(str(tmp_path), budgets=budgets)
    with pytest.raises(LimitExceededError) as raised:
        replay_shares(source).image()
    assert raised.value.limit == "replayed_bytes"


def test_updates_become_one_state_before_the_budget_is_exceeded(tmp_path: Path) -> None:
    records = [share_snapshot("g", number, startOffset=0) for number in range(4)]
    records += [
        share_update("g", number % 4, startOffset=number, stateBatches=flights((200, 200, 2, 1)))
        for number in range(200)
    ]
    write_partition(tmp_path, STATE, in_batches(records))
    budgets = dataclasses.replace(DEFAULT_BUDGETS, replayed_bytes=10_000)
    image = replay_shares(open_source(str(tmp_path), budgets=budgets)).image()
    for number in range(4):
        state = image.offset("g", TOPIC_ID, number)
        assert state is not None
        assert (state.start_offset, state.batches) == (196 + number, ((200, 200, 2, 1),))


def test_the_cost_of_a_state_follows_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_state_module, "MOST_UPDATES", 16)
    many = flights(*((number, number, 2, 1) for number in range(0, 100, 2)))
    records = [share_snapshot("g", 0), share_snapshot("g", 1, stateBatches=many)]
    records += [share_update("g", 0, stateBatches=many)] * 32
    source = source_of(tmp_path, records)
    before = LogReplay(source.partitions()[STATE], share_state).state()
    assert 0 < before.cost < 20_000  # one state of 50 batches, and a snapshot of 50
    path = tmp_path / STATE / f"{0:020}.log"
    with open(path, "ab") as log:
        log.write(batch([share_tombstone("g", 0), share_tombstone("g", 1)], len(records)))
    after = LogReplay(open_source(str(tmp_path)).partitions()[STATE], share_state).state()
    assert (after.cost, dict(after.groups)) == (0, {})


# Rows


def written(tmp_path: Path, *, count: int = 10) -> LogSource:
    """Group g of topic t, partition 0 with two records done with behind its start offset."""
    write_partition(tmp_path, OFFSETS, in_batches([share_group("g", {TOPIC_ID: ("t", [0, 1])})]))
    write_partition(tmp_path, "__cluster_metadata-0", [batch(topic_records("t", TOPIC_ID, 2))])
    write_partition(tmp_path, "t-0", [batch([Rec(b"v", None, NOW + n) for n in range(count)])])
    records = [
        share_snapshot("g", 0, startOffset=3, leaderEpoch=1, deliveryCompleteCount=2),
        share_snapshot("g", 1),
    ]
    return source_of(tmp_path, records)


def test_lag_is_what_a_broker_reckons(tmp_path: Path) -> None:
    one, other = rows_of(written(tmp_path))
    facts = one.facts()
    assert (facts["topic"], facts["partition"], facts["topicId"]) == ("t", 0, TOPIC_ID)
    assert (facts["startOffset"], facts["logEndOffset"], facts["lag"]) == (3, 10, 5)
    assert (facts["leaderEpoch"], facts["stateEpoch"]) == (1, 0)
    assert facts["deliveryCompleteCount"] == 2
    assert facts["isInitialized"]
    assert (other.place.name, other.lag, other.facts()["startOffset"]) == ("t-1", None, None)


def test_a_lag_below_zero_is_none_as_clients_have_it(tmp_path: Path) -> None:
    assert [row.lag for row in rows_of(written(tmp_path, count=4))] == [None, None]


def test_members_that_have_a_partition_are_named(tmp_path: Path) -> None:
    source = written(tmp_path)
    assigned = {"assignedPartitions": [{"topicId": TOPIC_ID, "partitions": [0, 2]}]}
    records = [share_group("g", {TOPIC_ID: ("t", [0])})]
    for member in ("m1", "m2"):
        key = {"groupId": "g", "memberId": member}
        now = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, **assigned}
        records.append(group_record(14, key, now))
    write_partition(tmp_path, OFFSETS, in_batches(records))
    source = open_source(str(tmp_path))
    rows = {row.place.name: (row.members, row.is_initialized) for row in rows_of(source)}
    assert rows == {
        "t-0": (("m1", "m2"), True), "t-1": ((), False), "t-2": (("m1", "m2"), False),
    }  # fmt: skip


def test_a_topic_that_was_made_anew_and_the_old_one_stay_apart(tmp_path: Path) -> None:
    records = [
        share_group("g", {OTHER_ID: ("t", [0]), TOPIC_ID: ("t", [0])}),
    ]
    write_partition(tmp_path, OFFSETS, in_batches(records))
    write_partition(tmp_path, "__cluster_metadata-0", [
        batch([*topic_records("t", OTHER_ID), metadata_record("REMOVE_TOPIC_RECORD", topicId=OTHER_ID),
               *topic_records("t", TOPIC_ID)]),
    ])  # fmt: skip
    states = [share_snapshot("g", 0, startOffset=5), share_snapshot("g", 0, topic_id=OTHER_ID)]
    rows = rows_of(source_of(tmp_path, states))
    assert [(row.place.topic, row.place.topic_id) for row in rows] == [
        (OTHER_ID, OTHER_ID), ("t", TOPIC_ID),
    ]  # fmt: skip


def test_a_topic_has_the_name_that_its_folder_tells_or_else_the_group(tmp_path: Path) -> None:
    write_partition(tmp_path, "here-0", [batch(values("a"))])
    (tmp_path / "here-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    records = [share_group("g", {OTHER_ID: ("elsewhere", [0])})]
    write_partition(tmp_path, OFFSETS, in_batches(records))
    states = [share_snapshot("g", 0), share_snapshot("g", 0, topic_id=OTHER_ID)]
    rows = rows_of(source_of(tmp_path, states))
    assert [row.place.topic for row in rows] == ["elsewhere", "here"]


def test_a_group_that_only_the_share_coordinator_knows_is_shown(tmp_path: Path) -> None:
    state = SourceState(source_of(tmp_path, [share_snapshot("g", 2, startOffset=7)]))
    assert state.has_groups
    known = state.known_groups()
    group = known.group("g")
    assert group is not None
    assert (known.names, group.kind, group.state) == (("g",), "share", "Unknown")
    [row] = state.share_rows(group, known)
    assert (row.place.topic, row.place.partition, row.is_initialized) == (TOPIC_ID, 2, False)
    assert known.group("h") is None


def test_notes_of_a_group_say_which_partition_of_the_topic_they_are_from(tmp_path: Path) -> None:
    state = SourceState(source_of(tmp_path, [share_update("g", 2)]))
    known = state.known_groups()
    group = known.group("g")
    assert group is not None
    assert list(state.share_rows(group, known).notes()) == [
        f"{TOPIC_ID}-2: {STATE}, offset 0: an update without a snapshot"
    ]
