"""With --at a source is served as a consumer would have seen it at that time, by the timestamps of its records."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.log.view.listed_offset import LATEST_TIMESTAMP, MAX_TIMESTAMP, listed_offset
from engine.record.attributes import CONTROL_MASK
from kafkafs.serve.error_codes import ErrorCode
from tests.fixtures_data import copy_of, log_dir, logs, truth_partitions, truth_records
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.consumed import Consumer
from tests.kafkafs.serve.serving import serving

LIST_OFFSETS, OFFSET_FETCH = 2, 9
PARTITIONS = [
    (kind, name)
    for kind in ("current", "legacy")
    for name in truth_partitions(kind)
    if truth_records(kind, name) and not name.startswith("__")
]


def batches_of(kind: str, name: str) -> list[tuple[int, int, int, bool]]:
    """Base offset, next offset, largest timestamp of each batch from the log start on, and whether it is a marker."""
    source = open_source(str(log_dir(kind)))
    view = source.partitions()[name].view()
    found = []
    for _, item in view.runs():
        for row in item.table:
            is_marker = row["magic"] == 2 and bool(row["attributes"] & CONTROL_MASK)
            base, last, newest = (
                int(row[field]) for field in ("base_offset", "last_offset", "max_timestamp")
            )
            found.append((base, last + 1, newest, is_marker))
    return found


def times_of(kind: str, name: str) -> list[int]:
    """Some times: those of records, and around them."""
    stamps = sorted({each.timestamp for each in truth_records(kind, name)})
    chosen = {stamps[0], stamps[len(stamps) // 3], stamps[len(stamps) // 2], stamps[-1]}
    return sorted({stamp + more for stamp in chosen for more in (0, 1)} | {stamps[0] - 1, 0})


@pytest.mark.parametrize(("kind", "name"), PARTITIONS)
def test_a_log_ends_before_its_first_batch_with_a_record_at_or_after_the_time(kind, name):
    batches = batches_of(kind, name)
    whole = Consumer(log_dir(kind)).records(name)
    for time in times_of(kind, name):
        absent = next((base for base, _, newest, _ in batches if newest >= time), None)
        consumer = Consumer(log_dir(kind), before=time)
        view = consumer.log(name).view()
        got = consumer.records(name)
        shown = [each for each in whole if each.offset < view.log_end_offset]
        assert [each.offset for each in got] == [each.offset for each in shown], time
        older = [each for each in whole if absent is None or each.offset < absent]
        is_wrapped = kind == "legacy"  # the header of a compressed batch has its last offset
        data = [each.offset for each in got]
        if not is_wrapped:
            assert data == [each.offset for each in older], time
        assert all(each.timestamp < max(time, 0) for each in got), time
        assert consumer.fetch(name, view.log_end_offset).size == 0
        after = consumer.fetch(name, view.log_end_offset + 1)
        assert after.error == ErrorCode.OFFSET_OUT_OF_RANGE
        assert listed_offset(view, LATEST_TIMESTAMP, committed=False).offset == view.log_end_offset
        newest = listed_offset(view, MAX_TIMESTAMP, committed=False)
        has_markers = any(marker for *_, marker in batches)  # with another clock
        assert has_markers or newest is None or newest.timestamp < time


def test_a_transaction_is_aborted_until_its_marker_was_written():
    """The markers have the broker's clock, which is long after the timestamps of the records."""
    batches = batches_of("current", "txn-0")
    base, end, time, is_marker = batches[-1]
    assert is_marker
    before = Consumer(log_dir("current"), before=time).log("txn-0").view()
    after = Consumer(log_dir("current"), before=time + 1).log("txn-0").view()
    assert before.log_end_offset <= base
    assert before.last_stable_offset == before.log_end_offset
    assert (after.log_end_offset, after.last_stable_offset) == (end, end)


def test_a_time_after_all_records_hides_nothing():
    whole = Consumer(log_dir("current"))
    later = Consumer(log_dir("current"), before=2**62)
    for name in truth_partitions("current"):
        assert later.log(name).view().log_end_offset == whole.log(name).view().log_end_offset


def test_a_growing_log_stays_as_it_was_first_seen(tmp_path: Path):
    copy = copy_of("current", tmp_path, ["orders-0"])
    path = copy / "orders-0" / logs("current", "orders-0")[-1].name
    data = path.read_bytes()
    batches = batches_of("current", "orders-0")
    time = batches[-1][2] + 1
    path.write_bytes(data[: len(data) // 2])
    consumer = Consumer(copy, before=time)
    log = consumer.log("orders-0")
    early = log.view(max_age=0).log_end_offset
    path.write_bytes(data)
    assert early == log.view(max_age=0).log_end_offset < batches[-1][1]
    at_first = Consumer(copy, before=batches[0][2] + 1)
    first = at_first.log("orders-0").view(max_age=0).log_end_offset
    with path.open("ab") as file:
        file.write(data[:0])
    assert at_first.log("orders-0").view(max_age=0).log_end_offset == first


def committed(folder: Path, before: int | None) -> dict[str, int]:
    """The committed offsets of orders-0 by group."""
    options = () if before is None else ("--at", f"@{before - 1}")
    with serving(log_dir("current"), folder, *options) as served, Connection(served) as connection:
        groups = [each["groupId"] for each in connection.ask(16, 4, statesFilter=[])["groups"]]
        found = {}
        for group in groups:
            wanted = [{"name": "orders", "partitionIndexes": [0]}]
            answer = connection.ask(OFFSET_FETCH, 5, groupId=group, topics=wanted)
            offset = answer["topics"][0]["partitions"][0]["committedOffset"]
            if offset >= 0:
                found[group] = offset
    return found


def test_groups_are_those_of_the_time(tmp_path):
    now = committed(tmp_path, None)
    assert now
    consumer = Consumer(log_dir("current"))
    commits = [
        record.timestamp
        for number in consumer.cluster.topics()["__consumer_offsets"].logs
        for record in consumer.records(f"__consumer_offsets-{number}")
        if record.key and b"billing-0" in record.key and b"orders" in record.key
    ]
    assert now["billing-0"] == 50
    assert "billing-0" not in committed(tmp_path, min(commits))
    assert committed(tmp_path, max(commits) + 1)["billing-0"] == 50


def test_offsets_by_time_and_ends_are_those_of_the_time(tmp_path):
    batches = batches_of("current", "orders-0")
    time = batches[len(batches) // 2][2]
    with (
        serving(log_dir("current"), tmp_path, "--at", f"@{time - 1}") as served,
        Connection(served) as connection,
    ):

        def listed(stamp: int) -> dict:
            wanted = [{"name": "orders", "partitions": [{"partitionIndex": 0, "timestamp": stamp}]}]
            answer = connection.ask(LIST_OFFSETS, 7, replicaId=-1, topics=wanted)
            return answer["topics"][0]["partitions"][0]

        end = listed(-1)["offset"]
        assert 0 < end < batches[-1][1]
        assert listed(time)["offset"] == -1
        assert listed(batches[0][2])["offset"] >= 0
        epochs = connection.ask(
            23, 3, replicaId=-2,
            topics=[{"topic": "orders", "partitions": [{"partition": 0, "leaderEpoch": 0}]}],
        )  # fmt: skip
        assert epochs["topics"][0]["partitions"][0]["endOffset"] == end
