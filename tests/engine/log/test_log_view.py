"""A view of a log: look-ups at its edges, parts of it, and records that cannot be decoded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.budgets import Budgets
from engine.coding.compression import CompressionType
from engine.errors import (
    CorruptRecordError,
    InvalidRecordError,
    LimitExceededError,
)
from engine.files.file_names import parse_folder_name
from engine.lines.record_line import LineOptions
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view import stable_offset
from engine.log.view.log_view import LogView
from engine.log.view.stable_offset import transaction_state
from engine.log.view.transactions import TransactionState
from engine.units import MAX_INT64, LogOffsetMetadata
from tests.builders import Producer, Rec, batch, end_marker, offset_index, values
from tests.engine.log.folders import LogWriter, offsets_of

GZIP = CompressionType.GZIP
TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path)


# Look-ups by offset


def test_an_offset_outside_the_log_is_found_by_no_look_up(writer: LogWriter) -> None:
    writer.append_records(b"a", b"b")
    writer.roll()
    writer.append_records(b"c")
    writer.log_start(1)
    view = writer.view()
    options = LineOptions("topic", 0)
    for outside in (-1, 0, 3, MAX_INT64):
        assert view.locate(outside) is None
        assert view.batch(outside) is None
        assert view.record(outside) is None
        assert view.line(outside, options) is None
    for inside, base in ((1, 0), (2, 2)):
        found, run, record = view.locate(inside), view.batch(inside), view.record(inside)
        assert found is not None
        assert run is not None
        assert record is not None
        columns, row = record
        assert (found[1].base_offset, run[1].base_offset) == (base, base)
        assert (row, columns.offset[row], len(columns)) == (0, inside, 1)
        assert view.line(inside, options) is not None


def test_an_offset_in_a_gap_between_segments_is_located_in_the_next_segment(
    writer: LogWriter,
) -> None:
    writer.append_records(b"a", b"b")
    writer.roll(base_offset=10)
    writer.append_records(b"c")
    view = writer.view()
    found = view.locate(5)
    assert found is not None
    assert (found[0].base_offset, found[1].base_offset) == (10, 10)
    assert view.batch(5) is view.record(5) is None


def test_a_log_that_was_cut_off_after_the_view_was_made_has_no_batch_to_locate(
    writer: LogWriter,
) -> None:
    writer.append_records(b"a", b"b")
    view = writer.view()
    os.truncate(writer.records_file, 0)
    assert view.locate(1) is None


def view_with_limit(writer: LogWriter, budgets: Budgets) -> LogView:
    source = open_source(str(writer.log_dir), budgets=budgets)
    return source.partitions()["topic-0"].view()


def test_a_record_above_the_limit_is_refused_with_the_place_of_its_batch(
    writer: LogWriter,
) -> None:
    writer.append_records(b"small")
    at = writer.records_file.stat().st_size
    writer.append_records(b"x" * 200_000, codec=GZIP)
    view = view_with_limit(writer, Budgets(inflated_bytes=100_000))
    with pytest.raises(LimitExceededError) as refused:
        view.record(1)
    assert (refused.value.position, refused.value.limit) == (at, "inflated_bytes")
    assert str(refused.value.path).endswith(".log")
    assert view.record(0) is not None


def test_a_record_in_bytes_that_do_not_inflate_is_corrupt(writer: LogWriter) -> None:
    writer.append_records(b"small")
    at = writer.records_file.stat().st_size
    writer.append(batch(values("a"), 1, GZIP, section=b"no gzip"))
    with pytest.raises(CorruptRecordError) as refused:
        writer.view().record(1)
    assert refused.value.position == at


def test_a_record_whose_fields_contradict_its_length_is_invalid(writer: LogWriter) -> None:
    writer.append(batch(values("a", "b"), 0, section=b"\x0e\x00\x00\x00\x01\x02a\x00\x7f"))
    with pytest.raises(InvalidRecordError) as refused:
        writer.view().record(1)
    assert (refused.value.position, refused.value.index) == (0, 1)


# Look-ups by time


def test_a_record_found_by_time_is_not_found_any_more_once_retention_took_it(
    writer: LogWriter,
) -> None:
    for timestamp in (5_000, 1_000, 3_000):
        writer.append_records(Rec(b"v", timestamp=timestamp))
        writer.roll()
    before = writer.next_view()
    oldest = before.offset_for_time(4_000)
    assert oldest is not None
    assert (oldest.offset, oldest.timestamp) == (0, 5_000)
    for file in writer.folder.glob(f"{0:020}.*"):
        file.unlink()
    after = writer.next_view()
    assert after.offset_for_time(4_000) is None
    third = after.offset_for_time(2_000)
    assert third is not None
    assert (third.offset, third.timestamp) == (2, 3_000)


# Parts


def test_a_log_without_segments_has_no_end_to_read_from(tmp_path: Path) -> None:
    folder = tmp_path / "topic-0"
    folder.mkdir()
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    view = open_source(str(tmp_path)).partitions()["topic-0"].view()
    assert view.active_segment is view.lost_segment is view.unread_end is None
    assert view.end_metadata == LogOffsetMetadata(0)
    assert (view.end_position, view.size, list(view.runs())) == (0, 0, [])
    assert view.topic_id == TOPIC_ID


def test_the_log_end_is_in_the_active_segment(writer: LogWriter) -> None:
    writer.append_records(b"a")
    writer.roll()
    writer.append_records(b"b", b"c")
    view = writer.view()
    size = writer.records_file.stat().st_size
    assert view.end_metadata == LogOffsetMetadata(3, 1, size)
    assert view.end_position == size
    assert view.lost_segment is None


def test_a_last_segment_without_a_good_batch_belongs_to_reads_up_to_the_log_end(
    writer: LogWriter,
) -> None:
    writer.append_records(b"a")
    writer.append_records(b"b")
    writer.roll()
    writer.records_file.write_bytes(b"rubbish " * 20)
    view = writer.view()

    def kinds(start: int | None, stop: int | None) -> list[type]:
        return [type(item) for _, item in view.runs(start, stop)]

    assert view.lost_segment is view.active_segment
    assert kinds(None, None) == kinds(0, 2) == [BatchRun, Damage]
    assert kinds(2, 2) == kinds(2, 9) == [Damage]
    assert kinds(0, 1) == [BatchRun]
    assert kinds(1, 1) == []


def test_an_empty_range_of_a_good_log_has_no_batches(writer: LogWriter) -> None:
    writer.append_records(b"a")
    writer.append_records(b"b")
    view = writer.view()
    assert list(view.runs(1, 1)) == list(view.runs(2, 2)) == list(view.runs(2, 1)) == []
    assert offsets_of(view, 1, 2) == [1]


@pytest.mark.parametrize(
    ("name", "is_current"),
    [
        ("topic-0", True),
        ("a copy of topic-0 from Monday", True),
        (f"topic-0.{'0' * 32}-delete", False),
        (f"topic-0.{'0' * 32}-stray", False),
    ],
)
def test_checkpoints_are_not_about_a_folder_that_a_broker_set_aside(
    tmp_path: Path, name: str, is_current: bool
) -> None:
    writer = LogWriter(tmp_path, "topic-0")
    writer.append_records(b"a")
    writer.folder.rename(tmp_path / name)
    view = next(iter(open_source(str(tmp_path / name)).partitions().values())).view()
    assert view.log.is_current() is is_current
    if is_current and name != "topic-0":
        assert view.partition == (name.replace(" ", "_"), 0)
    else:
        assert view.partition == parse_folder_name(name).topic_partition


def test_one_records_file_has_the_side_files_of_its_folder(writer: LogWriter) -> None:
    writer.append_records(b"a", leader_epoch=4)
    (writer.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    (writer.folder / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    source = open_source(str(writer.records_file))
    view = next(iter(source.partitions().values())).view()
    assert view.topic_id == TOPIC_ID
    assert [entry.epoch for entry in view.leader_epochs] == [3]
    assert source.meta_properties == (None,)


def test_a_name_that_the_listing_lacks_is_not_there_and_a_folder_is_no_file(
    writer: LogWriter,
) -> None:
    writer.append_records(b"a")
    (writer.folder / "backup").mkdir()
    view = writer.view()
    assert view.is_listed_file(writer.records_file.name)
    assert not view.is_listed_file("backup")
    with pytest.raises(FileNotFoundError) as refused:
        view.is_listed_file("partition.metadata")
    assert refused.value.filename == str(writer.folder / "partition.metadata")


def test_an_entry_of_a_large_offset_index_below_zero_is_no_hint(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for _ in range(6):
        writer.append_records(b"x" * 50)
    writer.roll(index_interval=None)
    entries = [(number, -1 if number < 9000 else 0) for number in range(1, 9001)]
    (writer.folder / f"{0:020}.index").write_bytes(offset_index(entries))
    segment = writer.view().segment_at(0)
    hints = segment.files.ensure_open().hints
    assert (hints.floor(5), hints.position(5)) == ((0, 0), 0)
    run = segment.batch(5)
    assert run is not None
    assert run.base_offset == 5


def test_the_stable_offset_of_a_shorter_log_is_that_of_its_own_transactions(
    writer: LogWriter,
) -> None:
    first = writer.append_transactional(1, 2)
    writer.append_end(1, commit=True)
    second = writer.append_transactional(2, 1)
    view = writer.view()
    for _ in range(2):
        for until, unstable in ((4, second), (3, 3), (2, first), (3, 3), (0, 0)):
            assert view.first_unstable_offset(until) == unstable


def test_the_transactions_of_a_shorter_log_are_looked_for_once(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = writer.append_transactional(1, 2)
    writer.append_end(1, commit=True)
    view = writer.view()
    asked: list[int] = []

    def counted(view: LogView, until: int) -> TransactionState:
        asked.append(until)
        return transaction_state(view, until)

    monkeypatch.setattr(stable_offset, "transaction_state", counted)
    assert [view.first_unstable_offset(until) for until in (2, 2, 1, 2)] == [first] * 4
    assert asked == [2, 1, 2]


def test_a_look_up_by_time_counts_markers_unless_records_alone_are_asked_for(
    writer: LogWriter,
) -> None:
    writer.append(batch([Rec(b"v", timestamp=5)], 0))
    writer.append(end_marker(1, Producer(id=1), commit=True, timestamp=9))
    view = writer.view()
    found = view.offset_for_time(6)
    assert found is not None
    assert found.offset == 1
    assert view.offset_for_time(6, records_only=True) is None
