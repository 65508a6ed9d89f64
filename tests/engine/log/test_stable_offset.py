"""What side files say of a log's transactions and leader epochs, where the log contradicts or lacks it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from engine.log.segment.log_segment import LogSegment
from engine.log.view.stable_offset import transaction_state
from engine.log.view.transactions import OngoingTxn
from tests.builders import Producer, Rec, SnapshotEntry, batch, producer_snapshot
from tests.engine.log.folders import LogWriter


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path)


def write_snapshot(writer: LogWriter, offset: int, *entries: SnapshotEntry) -> None:
    (writer.folder / f"{offset:020}.snapshot").write_bytes(producer_snapshot(entries))


def write_epochs(writer: LogWriter, *entries: tuple[int, int]) -> None:
    lines = "".join(f"{epoch} {start}\n" for epoch, start in entries)
    (writer.folder / "leader-epoch-checkpoint").write_text(f"0\n{len(entries)}\n{lines}")


# Producer snapshots


def test_a_snapshot_inside_a_batch_counts_that_batch_as_after_it(writer: LogWriter) -> None:
    writer.append_transactional(1, 1)
    writer.append_end(1, commit=True)
    first = writer.append_transactional(2, 3)
    write_snapshot(writer, first + 1)
    assert writer.view().open_transactions == (OngoingTxn(2, 0, first),)


def test_batches_before_a_snapshot_count_once_although_offsets_go_back(writer: LogWriter) -> None:
    """Where offsets go back the whole segment is read."""
    writer.append_transactional(1, 1)
    writer.append_end(1, commit=True)
    writer.append_transactional(2, 1)  # the snapshot after it says that it is not open
    writer.append(batch([Rec(b"v")], 9), batch([Rec(b"v")], 4), batch([Rec(b"v")], 5))
    write_snapshot(writer, 3)
    writer.append(batch([Rec(b"v")], 10, producer=Producer(id=7, sequence=0), transactional=True))
    assert writer.view().open_transactions == (OngoingTxn(7, 0, 10),)


def test_a_snapshot_with_a_transaction_from_before_the_first_segment_is_not_believed(
    tmp_path: Path,
) -> None:
    writer = LogWriter(tmp_path, base_offset=10)
    first = writer.append_transactional(1, 1)
    writer.append_records(b"plain")
    write_snapshot(writer, 12, SnapshotEntry(5, current_transaction_first_offset=3))
    view = writer.view()
    assert view.open_transactions == (OngoingTxn(1, 0, first),)
    (problem,) = view.problems
    assert (problem["kind"], problem["file"]) == ("producer_snapshot", f"{12:020}.snapshot")
    assert problem["reason"] == "no transaction of producer 5 begins at offset 3"


def test_a_snapshot_with_a_transaction_from_a_gap_or_from_damage_is_not_believed(
    writer: LogWriter,
) -> None:
    writer.append_transactional(1, 1)
    at = writer.records_file.stat().st_size
    writer.append(batch([Rec(b"damaged")], 5), batch([Rec(b"v")], 6))
    with writer.records_file.open("r+b") as file:
        file.seek(at + 70)
        file.write(b"\xff")
    for first in (3, 5):
        write_snapshot(writer, 7, SnapshotEntry(8, current_transaction_first_offset=first))
        view = writer.view()
        # Damage may have taken the marker of producer 1.
        assert view.open_transactions == ()
        assert "producer_snapshot" in {problem["kind"] for problem in view.problems}


def test_a_snapshot_of_the_log_end_is_used_and_one_of_the_log_start_is_not(
    writer: LogWriter,
) -> None:
    first = writer.append_transactional(1, 1)
    write_snapshot(writer, 1)
    assert writer.view().open_transactions == ()
    (writer.folder / f"{1:020}.snapshot").unlink()
    write_snapshot(writer, 0, SnapshotEntry(9, current_transaction_first_offset=0))
    view = writer.view()
    assert view.open_transactions == (OngoingTxn(1, 0, first),)
    assert view.problems == []


@pytest.mark.parametrize(
    ("options", "is_begin"),
    [
        ({}, True),
        ({"base": 1}, False),
        ({"producer": 2}, False),
        ({"transactional": False}, False),
        ({"control": True}, False),
    ],
)
def test_a_transaction_begins_with_a_data_batch_of_its_producer(
    writer: LogWriter, options: dict[str, int], is_begin: bool
) -> None:
    facts = {"base": 0, "producer": 1, "transactional": True, "control": False} | options
    begins = batch(
        [Rec(b"\0\0\0\2", b"\0\0\0\2")] * 2,
        0,
        producer=Producer(id=facts["producer"], sequence=0),
        transactional=bool(facts["transactional"]),
        control=bool(facts["control"]),
    )
    writer.append(begins, batch([Rec(b"v")], 2))
    first = int(facts["base"])
    write_snapshot(writer, 3, SnapshotEntry(1, current_transaction_first_offset=first))
    view = writer.view()
    assert isinstance(view.last_stable_offset, int)
    assert (view.problems == []) is is_begin


def test_a_producer_without_a_transaction_hides_none_behind_it_in_a_snapshot(
    writer: LogWriter,
) -> None:
    first = writer.append_transactional(7, 1)
    entries = SnapshotEntry(6), SnapshotEntry(7, current_transaction_first_offset=first)
    write_snapshot(writer, 1, *entries)
    assert [each.producer_id for each in writer.view().open_transactions] == [7]


def test_the_epoch_of_an_open_transaction_is_the_snapshots(writer: LogWriter) -> None:
    first = writer.append_transactional(1, 1, epoch=4)
    write_snapshot(writer, 1, SnapshotEntry(1, 4, current_transaction_first_offset=first))
    assert writer.view().open_transactions == (OngoingTxn(1, 4, first),)


# Leader epochs


def test_epochs_that_begin_past_the_log_end_are_left_out_and_noted(writer: LogWriter) -> None:
    writer.append_records(b"a", b"b", leader_epoch=1)
    write_epochs(writer, (1, 0), (2, 2), (5, 3), (6, 9))
    view = writer.view()
    assert [entry.epoch for entry in view.leader_epochs] == [1, 2]
    (problem,) = view.problems
    assert (problem["kind"], problem["file"]) == ("leader_epochs", "leader-epoch-checkpoint")
    assert (problem["expected"], problem["found"]) == ("at most 2", 9)


@pytest.mark.parametrize("data", [None, b"rubbish", b"0\n1\n1\n"])
def test_without_a_good_checkpoint_the_epochs_are_those_of_the_batches(
    writer: LogWriter, data: bytes | None
) -> None:
    for epoch in (0, 0, 2, 2):
        writer.append_records(b"v", leader_epoch=epoch)
    writer.roll()
    writer.append_records(b"v", leader_epoch=2)
    writer.roll()
    for epoch in (2, 3, 3, 1, 7):
        writer.append_records(b"v", leader_epoch=epoch)
    writer.roll()
    if data is not None:
        (writer.folder / "leader-epoch-checkpoint").write_bytes(data)
    view = writer.view()
    assert [(entry.epoch, entry.start_offset) for entry in view.leader_epochs] == [
        *((0, 0), (2, 2), (3, 6), (7, 9))
    ]
    kinds = [problem["kind"] for problem in view.problems]
    assert kinds == ([] if data is None else ["leader_epochs"])


def test_a_segment_that_begins_and_ends_in_one_epoch_is_read_only_at_its_start(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        writer.append_records(b"v", leader_epoch=4)
        writer.append_records(b"v", leader_epoch=4)
        writer.roll()
    view = writer.view()
    scanned = []
    scan = LogSegment.scan

    def noted(self: LogSegment, *args: object, **options: object) -> object:
        scanned.append(self.base_offset)
        return scan(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(LogSegment, "scan", noted)
    assert [entry.epoch for entry in view.leader_epochs] == [4]
    assert scanned == [0, 2, 4, 6, 4]  # the last records may have a later epoch


def test_a_topic_id_that_cannot_be_read_is_none_and_a_problem(writer: LogWriter) -> None:
    writer.append_records(b"v")
    assert writer.view().topic_id is None
    assert writer.view().problems == []
    (writer.folder / "partition.metadata").write_text("version: 0\n")
    view = writer.view()
    assert view.topic_id is None
    (problem,) = view.problems
    assert (problem["kind"], problem["file"]) == ("partition_metadata", "partition.metadata")


def test_the_epochs_of_batches_go_on_behind_an_empty_segment(writer: LogWriter) -> None:
    for epoch in (1, 1):
        writer.append_records(b"v", leader_epoch=epoch)
    writer.roll()
    writer.roll(base_offset=5)
    writer.append_records(b"v", leader_epoch=3)
    view = writer.view()
    assert view.base_offsets == (0, 2, 5)
    assert [(entry.epoch, entry.start_offset) for entry in view.leader_epochs] == [(1, 0), (3, 5)]


def test_the_search_for_open_transactions_has_one_large_batch_in_memory_at_a_time(
    writer: LogWriter,
) -> None:
    size = 8 << 20
    writer.append_transactional(1, 1)
    for number in range(3):
        writer.append_records(bytes([number]) * size)
    writer.batches.clear()
    view = writer.view()
    tracemalloc.start()
    try:
        ongoing = transaction_state(view, view.log_end_offset).ongoing
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [txn.first_offset for txn in ongoing] == [0]
    assert size < peak < 1.5 * size
