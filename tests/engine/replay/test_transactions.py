"""Transactional ids as their records leave them, and open transactions in the logs."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from engine.log.log_directory import LogSource, open_source
from engine.replay.source_state import SourceState
from engine.replay.transactions import Transaction, replay_transactions
from engine.topics.transaction_states import STATES
from engine.units import TopicPartition
from tests.builders import Producer, Rec, batch, end_marker, values
from tests.fixtures_data import log_dir
from tests.replayed_bytes import (
    NOW,
    TOPIC_ID,
    in_batches,
    topic_records,
    transaction_record,
    write_partition,
)

TOPIC = "__transaction_state-0"
ONGOING = {
    "producerId": 7, "producerEpoch": 2, "transactionTimeoutMs": 60_000, "transactionStatus": 1,
    "transactionPartitions": [{"topic": "t", "partitionIds": [0, 3]}],
    "transactionLastUpdateTimestampMs": NOW + 5, "transactionStartTimestampMs": NOW + 4,
}  # fmt: skip


def source_of(folder: Path, records: list[Rec]) -> LogSource:
    write_partition(folder, TOPIC, in_batches(records))
    return open_source(str(folder))


def one_of(folder: Path, *records: Rec) -> Transaction | None:
    return replay_transactions(source_of(folder, list(records))).image().transaction("tx")


def test_an_id_has_all_that_its_newest_record_says(tmp_path: Path) -> None:
    older: dict[str, Any] = ONGOING | {"transactionStatus": 0, "transactionPartitions": None}
    found = one_of(
        tmp_path, transaction_record("tx", **older), transaction_record("tx", NOW + 6, **ONGOING)
    )
    assert found is not None
    assert found.facts() == {
        "transactionalId": "tx", "producerId": 7, "producerEpoch": 2, "previousProducerId": None,
        "nextProducerId": None, "state": "Ongoing", "timeoutMs": 60_000,
        "partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 3}],
        "startTimestamp": NOW + 4, "lastUpdateTimestamp": NOW + 5, "clientTransactionVersion": 0,
        "coordinatorPartition": 0, "recordOffset": 1, "recordTimestamp": NOW + 6, "note": None,
    }  # fmt: skip


@pytest.mark.parametrize(("number", "name"), [*STATES.items(), (99, "99")])
def test_states_have_kafkas_names(tmp_path: Path, number: int, name: str) -> None:
    found = one_of(tmp_path, transaction_record("tx", **{**ONGOING, "transactionStatus": number}))
    assert found is not None
    assert found.state == name


def test_an_id_with_a_tombstone_is_gone(tmp_path: Path) -> None:
    records = [transaction_record("tx", **ONGOING), transaction_record("tx", NOW + 10)]
    replay = replay_transactions(source_of(tmp_path, records))
    assert replay.image().names == ()


def test_a_record_that_cannot_be_read_is_an_id_with_a_note(tmp_path: Path) -> None:
    found = one_of(tmp_path, transaction_record("tx", **ONGOING)._replace(value=b"\0\x63"))
    assert found is not None
    assert found.producer_id is None
    assert found.note


def test_a_brokers_open_transaction_is_known_to_its_coordinator(tmp_path: Path) -> None:
    source = open_source(str(log_dir("current")))
    found = {each.partition: each for each in SourceState(source).open_transactions()}
    one = found[TopicPartition("open-txn", 0)]
    assert (one.first_offset, one.producer_id) == (50, 0)
    alone = tmp_path / "alone"
    shutil.copytree(log_dir("current") / "open-txn-0", alone / "open-txn-0")
    [unknown] = SourceState(open_source(str(alone))).open_transactions()
    assert unknown.hangs is None


WRITER = Producer(id=7, epoch=2, sequence=0)


def with_open(folder: Path, partition: int, *, ended: bool = False) -> None:
    batches = [batch(values("a", timestamp=NOW)), batch(values("b", timestamp=NOW + 1), 1,
               producer=WRITER, transactional=True)]  # fmt: skip
    if ended:
        batches.append(end_marker(2, WRITER, commit=True, timestamp=NOW + 9))
    write_partition(folder, f"t-{partition}", batches)


def test_a_transaction_hangs_when_its_coordinator_does_not_list_the_partition(
    tmp_path: Path,
) -> None:
    for partition in (0, 1, 3):
        with_open(tmp_path, partition)
    with_open(tmp_path, 2, ended=True)
    state = SourceState(source_of(tmp_path, [transaction_record("tx", **ONGOING)]))
    found = {each.partition.partition: each for each in state.open_transactions()}
    assert {number: each.hangs for number, each in found.items()} == {0: False, 1: True, 3: False}
    assert found[1].facts() == {
        "topic": "t", "partition": 1, "producerId": 7, "producerEpoch": 2, "firstOffset": 1,
        "firstTimestamp": NOW + 1, "newestTimestamp": NOW + 1, "transactionalId": "tx",
        "coordinatorState": "Ongoing", "hangs": True,
        "reason": "the coordinator's transaction (Ongoing) does not include this partition",
    }  # fmt: skip


def test_a_transaction_whose_producer_nobody_knows_hangs(tmp_path: Path) -> None:
    with_open(tmp_path, 0)
    state = SourceState(
        source_of(tmp_path, [transaction_record("tx", **{**ONGOING, "producerId": 8})])
    )
    [found] = state.open_transactions()
    assert (found.hangs, found.transactional_id) == (True, None)


@pytest.mark.parametrize("has_metadata", [False, True])
def test_nobody_can_tell_where_partitions_of_the_coordinators_are_missing(
    tmp_path: Path, has_metadata: bool
) -> None:
    with_open(tmp_path, 0)
    number = 1
    if has_metadata:
        number = 0
        records = topic_records("__transaction_state", TOPIC_ID, 2)
        write_partition(tmp_path, "__cluster_metadata-0", in_batches(records))
    write_partition(tmp_path, f"__transaction_state-{number}", [])
    state = SourceState(open_source(str(tmp_path)))
    [found] = state.open_transactions()
    assert found.hangs is None
    assert found.reason == "not all of __transaction_state is in the source and can be read"
    write_partition(tmp_path, f"__transaction_state-{1 - number}", [])
    time.sleep(0.3)
    assert [each.hangs for each in state.open_transactions()] == [True]


def test_a_producer_id_that_was_replaced_still_belongs_to_its_id(tmp_path: Path) -> None:
    with_open(tmp_path, 0)
    record = transaction_record("tx", **{**ONGOING, "producerId": 8, "previousProducerId": 7})
    [found] = SourceState(source_of(tmp_path, [record])).open_transactions()
    assert (found.hangs, found.transactional_id) == (False, "tx")
