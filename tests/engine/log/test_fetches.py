"""A view is read as a broker answers a fetch: batches of one segment, up to a bound."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from random import Random

import pytest

from engine.errors import OffsetOutOfRangeError
from engine.log.segment.fetch import (
    FetchDataInfo,
    FetchIsolation,
    offset_metadata,
    read_up_to,
)
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.units import MAX_INT32
from tests.builders import CompressionType, Rec, batch, last_offset
from tests.engine.log.folders import LogWriter

IDS = [*range(50), *range(50, 200, 7)]


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path)


@pytest.fixture
def gapped(writer: LogWriter) -> LogView:
    """A view of a segment for each record: sequential offsets first, gaps of seven later."""
    for number in IDS:
        if writer.batches:
            writer.roll(number, index_interval=None)
        writer.append(batch([Rec(b"%d" % number)], number))
    return writer.view()


def offsets(fetched: FetchDataInfo) -> list[int]:
    return [record.offset for record in fetched.records.records()]


def base_of(view: LogView, offset: int) -> int:
    """The base offset of an offset's batch; at the log end, the log end."""
    found = view.batch(offset)
    return offset if found is None else found[1].base_offset


def assert_bounded(view: LogView, isolation: FetchIsolation, bound: int) -> None:
    for offset in range(view.log_start_offset, view.log_end_offset + 1):
        fetched = view.read(offset, MAX_INT32, isolation, min_one_message=True)
        assert fetched.fetch_offset_metadata.offset == base_of(view, offset)
        assert not fetched.first_entry_incomplete
        if offset < bound:
            assert max(offsets(fetched)) < bound
        else:
            assert fetched.records.size == 0


# Bounds


def test_a_fetch_up_to_the_log_end_returns_every_batch_from_the_first_that_reaches_its_offset(
    writer: LogWriter,
) -> None:
    writer.append_records(b"0", b"1", b"2")
    writer.append_records(b"3", b"4")
    assert_bounded(writer.view(), FetchIsolation.LOG_END, 5)


@pytest.mark.parametrize("high_watermark", [None, 3, 5])
def test_a_fetch_up_to_the_high_watermark_stops_at_the_checkpointed_one(
    writer: LogWriter, high_watermark: int | None
) -> None:
    writer.append_records(b"0", b"1", b"2")
    writer.append_records(b"3", b"4")
    if high_watermark is not None:
        writer.high_watermark(high_watermark)
    assert_bounded(writer.view(), FetchIsolation.HIGH_WATERMARK, high_watermark or 0)


def test_a_committed_fetch_stops_at_the_first_open_transaction(writer: LogWriter) -> None:
    writer.append_transactional(1, 5)
    writer.append_records(b"0", b"1", b"2")
    writer.append_transactional(2, 2)
    writer.append_transactional(1, 4)
    isolation = FetchIsolation.TXN_COMMITTED
    assert_bounded(writer.view(), isolation, 0)
    writer.append_end(1, commit=True)
    writer.high_watermark(14)
    assert_bounded(writer.view(), isolation, 0)  # the marker is above the high watermark
    writer.high_watermark(15)
    assert writer.view().last_stable_offset == 8
    assert_bounded(writer.view(), isolation, 8)
    writer.append_end(2, commit=False)
    writer.high_watermark(16)
    assert_bounded(writer.view(), isolation, 16)


def test_an_open_transaction_stays_hidden_while_the_high_watermark_moves(
    writer: LogWriter,
) -> None:
    stop = threading.Event()

    def follow_the_end() -> None:
        while not stop.is_set():
            writer.high_watermark(writer.next_offset)

    updates = threading.Thread(target=follow_the_end)
    updates.start()
    seen = []
    try:
        while writer.next_offset < 50:
            start = writer.append_transactional(15, 1)
            fetched = writer.view().read(start, MAX_INT32, FetchIsolation.TXN_COMMITTED)
            seen.append(fetched.records.size)
            writer.append_end(15, commit=False)
    finally:
        stop.set()
        updates.join()
    assert seen == [0] * 25


# Sizes and offsets


def test_any_offset_in_a_gap_gives_the_next_record_whatever_the_size(gapped: LogView) -> None:
    for offset in range(50, max(IDS)):
        expected = next(number for number in IDS if number >= offset)
        for size in (1, 100, 100_000):
            fetched = gapped.read(offset, size, min_one_message=True)
            record = next(iter(fetched.records.records()))
            assert (record.offset, record.value) == (expected, b"%d" % expected)


def test_a_size_below_the_first_batch_gives_that_many_bytes_and_says_so(gapped: LogView) -> None:
    assert gapped.read(50, 0).records.size == 0
    fetched = gapped.read(50, 1)
    assert (fetched.first_entry_incomplete, fetched.records.size) == (True, 1)
    with pytest.raises(ValueError, match="cannot read -1 bytes"):
        gapped.read(50, -1)


def test_an_offset_inside_a_compressed_batch_gives_the_whole_batch(writer: LogWriter) -> None:
    writer.append_records(b"hello", b"there", codec=CompressionType.GZIP)
    writer.roll()
    writer.append_records(b"alpha", b"beta", codec=CompressionType.GZIP)
    view = writer.view()
    assert [offsets(view.read(offset, 4096)) for offset in range(4)] == [[0, 1]] * 2 + [[2, 3]] * 2


def test_an_offset_outside_the_log_is_refused_and_the_log_end_is_empty(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, base_offset=1024)
    writer.append_records(b"42")
    view = writer.view()
    assert view.read(1025, 1000).records.size == 0
    for offset in (1023, 1026):
        with pytest.raises(OffsetOutOfRangeError):
            view.read(offset, 1000)


# A replica that truncates


def test_a_bound_that_was_cut_off_since_the_look_lets_nothing_above_it_through(
    writer: LogWriter,
) -> None:
    """The batch of the high watermark is gone when its position is asked for, and there again when it is read."""
    writer.append_records(b"0", b"1", b"2")
    cut = writer.records_file.stat().st_size
    writer.append_records(b"3", b"4")
    writer.high_watermark(3)
    view = writer.view()
    data = writer.records_file.read_bytes()
    os.truncate(writer.records_file, cut)
    bound = offset_metadata(view.segments_from, view.end_metadata, 3)
    writer.records_file.write_bytes(data)
    for start in range(6):
        found, _ = read_up_to(view.segments_from, view.end_metadata, start, MAX_INT32, bound)
        assert all(offset < 3 for offset in offsets(found))


class Replica:
    """Leads and follows in turn; as a follower it cuts off what was not replicated."""

    def __init__(self, writer: LogWriter) -> None:
        self.writer = writer
        self.random = Random(7)
        self.high_watermark = 0
        self.epoch = 1
        self.is_leader = True

    def run(self) -> None:
        while self.high_watermark < 1000:
            if self.random.randrange(2):
                self.append()
            else:
                self.is_leader = not self.is_leader
                self.epoch += 1
                if not self.is_leader:
                    self.truncate()

    def append(self) -> None:
        end = self.writer.next_offset
        values = [b"%d" % number for number in range(self.random.randrange(2, 11))]
        if self.writer.records_file.stat().st_size > 237:
            self.writer.roll(index_interval=None)
        self.writer.append_records(*values, leader_epoch=self.epoch)
        self.high_watermark = end
        self.writer.high_watermark(end)

    def truncate(self) -> None:
        """Down to the high watermark, which is where a batch starts, perhaps in the segment before."""
        writer = self.writer
        while writer.base_offset > self.high_watermark:
            writer.records_file.unlink()
            bases = sorted(int(path.stem) for path in writer.folder.glob("*.log"))
            writer.base_offset = bases[-1]
            writer.batches = []
        data = writer.records_file.read_bytes()
        at = 0
        while at < len(data) and last_offset(data[at : at + 61]) < self.high_watermark:
            at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
        os.truncate(writer.records_file, at)
        writer.next_offset = self.high_watermark


def test_a_fetch_up_to_the_high_watermark_returns_nothing_that_is_truncated_later(
    writer: LogWriter,
) -> None:
    log = writer.log
    appender = threading.Thread(target=Replica(writer).run)
    consumed: list[tuple[int, int]] = []
    is_over = False
    appender.start()
    try:
        while not is_over:
            is_over = not appender.is_alive()
            try:
                fetched = log.view(max_age=0).read(
                    consumed[-1][0] if consumed else 0,
                    1,
                    FetchIsolation.HIGH_WATERMARK,
                    min_one_message=True,
                )
            except FileNotFoundError:
                continue  # a segment that was cut off between the listing and the look
            found = [
                (each.last_offset + 1, each.leader_epoch) for each in fetched.records.batches()
            ]
            consumed += found
            is_over = is_over and not found
    finally:
        appender.join()
    final = [
        (int(row["last_offset"]) + 1, int(row["leader_epoch"]))
        for _, item in writer.view().runs()
        if isinstance(item, BatchRun)
        for row in item.table
    ]
    assert consumed
    assert consumed == final[: len(consumed)]
