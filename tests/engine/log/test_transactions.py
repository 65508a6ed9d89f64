from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.log.view.transactions import (
    FateFinder,
    MarkerCache,
    OngoingTxn,
    TransactionState,
    events,
)
from engine.record.fate import Fate
from tests.builders import (
    Aborted,
    CompressionType,
    ControlRecordType,
    Producer,
    Rec,
    SnapshotEntry,
    batch,
    control_batch,
    empty_batch,
    end_marker,
    producer_snapshot,
    transaction_index,
)
from tests.engine.log.folders import LogWriter

COMMITTED, ABORTED, OPEN = Fate.COMMITTED, Fate.ABORTED, Fate.OPEN


def fates_of(view: LogView) -> dict[int, int]:
    """The fate of each transactional data batch by its base offset."""
    found = {}
    for segment, item in view.runs():
        assert isinstance(item, BatchRun)
        fates = view.fates(segment, item)
        for row in range(len(item.table)) if fates is not None else ():
            if fates[row]:
                found[int(item.table["base_offset"][row])] = int(fates[row])
    return found


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path)


def test_the_next_marker_of_the_producer_decides(writer: LogWriter) -> None:
    a = writer.append_transactional(1, 2)
    b = writer.append_transactional(2, 1)
    writer.append_records(b"plain")
    writer.append_end(2, commit=False)
    c = writer.append_transactional(1, 1)
    writer.append_end(1, commit=True)
    d = writer.append_transactional(1, 1)
    writer.append_end(1, commit=False)
    e = writer.append_transactional(2, 1)
    view = writer.view()
    assert fates_of(view) == {a: COMMITTED, b: ABORTED, c: COMMITTED, d: ABORTED, e: OPEN}
    assert view.open_transactions == (OngoingTxn(2, 0, e),)
    assert view.last_stable_offset == e


def test_a_marker_in_a_later_segment_decides(writer: LogWriter) -> None:
    a = writer.append_transactional(1, 3)
    b = writer.append_transactional(2, 3)
    for _ in range(3):
        writer.roll()
        writer.append_records(b"plain", b"plain")
    c = writer.append_transactional(2, 1)
    writer.append_end(1, commit=False)
    writer.roll()
    writer.append_end(2, commit=True)
    view = writer.view()
    assert fates_of(view) == {a: ABORTED, b: COMMITTED, c: COMMITTED}
    assert view.last_stable_offset == view.log_end_offset


def test_a_log_without_transactions_has_no_fates(writer: LogWriter) -> None:
    writer.append_records(b"a", b"b")
    writer.append_records(b"idempotent", producer=Producer(id=4, epoch=0, sequence=0))
    view = writer.view()
    for segment, item in view.runs():
        assert isinstance(item, BatchRun)
        assert view.fates(segment, item) is None
    assert view.open_transactions == ()


def test_long_transactions_are_decided_without_reading_the_rest_for_each_run(
    writer: LogWriter,
) -> None:
    """One transaction under way for many chunks, and one that never ends."""
    filler = batch([Rec(b"x" * 200_000)], 0)
    a = writer.append_transactional(1, 1)
    b = writer.append_transactional(2, 1)
    for _ in range(30):
        writer.append(batch([Rec(b"x" * 200_000)], writer.next_offset))
    writer.append_end(1, commit=False)
    assert len(filler) * 30 > 4 << 20
    view = writer.view()
    assert fates_of(view) == {a: ABORTED, b: OPEN}
    assert view.last_stable_offset == b


def test_an_empty_batch_that_compaction_left_opens_nothing(writer: LogWriter) -> None:
    producer = Producer(id=1, epoch=0, sequence=0)
    writer.append(empty_batch(0, 4, producer=producer, transactional=True))
    writer.append(empty_batch(5, 5, producer=producer, transactional=True, control=True))
    writer.append_records(b"after")
    view = writer.view()
    assert view.open_transactions == ()
    assert view.last_stable_offset == 7


def test_control_records_that_end_nothing_leave_transactions_open(writer: LogWriter) -> None:
    producer = Producer(id=1, epoch=0)
    writer.append_transactional(1, 1)
    for kind in (ControlRecordType.LEADER_CHANGE, 99, -1):
        writer.append(
            control_batch(int(kind), b"", writer.next_offset, producer=producer, transactional=True)
        )
    assert [txn.producer_id for txn in writer.view().open_transactions] == [1]


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_marker_is_understood_however_it_is_written(
    writer: LogWriter, codec: CompressionType
) -> None:
    """Kafka writes markers plain and short; the format allows more."""
    first = writer.append_transactional(1, 1)
    marker = [Rec(b"\0\0\0\0\0\1", b"\0\0\0\1", timestamp=2**40)]
    writer.append(
        batch(
            marker,
            1,
            codec,
            producer=Producer(id=1),
            transactional=True,
            control=True,
            base_timestamp=0,
        )
    )
    assert fates_of(writer.view()) == {first: COMMITTED}


def test_messages_of_old_formats_are_never_transactional(writer: LogWriter) -> None:
    from tests.builders import message

    writer.append(message(0, None, b"v", attributes=0x10), message(1, None, b"v", attributes=0x30))
    ((_, item),) = writer.view().runs()
    assert isinstance(item, BatchRun)
    assert events(item) == []


# The last stable offset


def test_a_snapshot_saves_reading_what_lies_before_it(writer: LogWriter) -> None:
    first = writer.append_transactional(1, 2)
    writer.append_records(b"plain")
    (writer.folder / f"{writer.next_offset:020}.snapshot").write_bytes(
        producer_snapshot([SnapshotEntry(1, current_transaction_first_offset=first)])
    )
    writer.append_transactional(2, 1)
    view = writer.view()
    assert view.open_transactions == (OngoingTxn(1, 0, 0), OngoingTxn(2, 0, 3))
    assert view.problems == []


@pytest.mark.parametrize(
    "entry",
    [
        SnapshotEntry(1, current_transaction_first_offset=1),  # inside the batch
        SnapshotEntry(1, current_transaction_first_offset=2),  # not transactional
        SnapshotEntry(9, current_transaction_first_offset=0),  # another producer
        SnapshotEntry(1, current_transaction_first_offset=3),  # the snapshot's own offset
        SnapshotEntry(1, current_transaction_first_offset=2**62),
    ],
)
def test_a_snapshot_that_the_log_contradicts_is_not_believed(
    writer: LogWriter, entry: SnapshotEntry
) -> None:
    writer.append_transactional(1, 2)
    writer.append_records(b"plain")
    (writer.folder / f"{3:020}.snapshot").write_bytes(producer_snapshot([entry]))
    view = writer.view()
    assert view.open_transactions == (OngoingTxn(1, 0, 0),)
    assert [problem["kind"] for problem in view.problems] == ["producer_snapshot"]


def test_an_older_snapshot_is_used_when_the_newest_is_broken(writer: LogWriter) -> None:
    first = writer.append_transactional(1, 2)
    good = producer_snapshot([SnapshotEntry(1, current_transaction_first_offset=first)])
    (writer.folder / f"{2:020}.snapshot").write_bytes(good)
    writer.append_end(1, commit=True)
    (writer.folder / f"{3:020}.snapshot").write_bytes(good[:-1])
    assert writer.view().open_transactions == ()


def test_a_snapshot_past_the_log_end_is_of_another_log(writer: LogWriter) -> None:
    writer.append_transactional(1, 2)
    (writer.folder / f"{3:020}.snapshot").write_bytes(producer_snapshot([]))
    assert writer.view().last_stable_offset == 0


def test_the_state_is_carried_forward_as_the_log_grows(writer: LogWriter) -> None:
    writer.append_records(b"plain")
    view = writer.next_view()
    assert view.open_transactions == ()
    first = writer.append_transactional(1, 1)
    grown = writer.next_view()
    known = grown.known_transactions
    assert known is not None
    assert known.ongoing == (OngoingTxn(1, 0, first),)
    assert view.open_transactions == ()
    writer.append_end(1, commit=True)
    assert writer.next_view().open_transactions == ()
    assert grown.open_transactions == (OngoingTxn(1, 0, first),)


def test_the_stable_offset_is_never_below_the_log_start(writer: LogWriter) -> None:
    writer.append_transactional(1, 5)
    writer.append_records(b"plain")
    writer.log_start(3)
    assert writer.view().last_stable_offset == 3


# Against a model


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    steps = st.tuples(
        st.sampled_from(["data", "data", "plain", "commit", "abort", "roll"]), st.integers(1, 4)
    )
    return draw(st.lists(steps, max_size=40))


def model(history: list[tuple[str, int]]) -> tuple[dict[int, int], int | None]:
    """Fates by base offset, and the first open offset."""
    fates: dict[int, int] = {}
    pending: dict[int, list[int]] = {}
    offset = 0
    for step, producer in history:
        if step == "roll":
            continue
        if step == "data":
            pending.setdefault(producer, []).append(offset)
        elif step != "plain":
            for each in pending.pop(producer, []):
                fates[each] = COMMITTED if step == "commit" else ABORTED
        offset += 1
    still = [each for offsets in pending.values() for each in offsets]
    return fates | dict.fromkeys(still, OPEN), min(still, default=None)


@given(histories())
def test_fates_are_those_of_a_model(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, int]]
) -> None:
    writer = LogWriter(tmp_path_factory.mktemp("log"))
    for step, producer in history:
        if step == "roll" and writer.batches:
            writer.roll()
        elif step == "data":
            writer.append_transactional(producer, 1)
        elif step == "plain":
            writer.append_records(b"plain")
        elif step != "roll":
            writer.append_end(producer, commit=step == "commit")
    view = writer.view()
    fates, first_open = model(history)
    assert fates_of(view) == fates
    assert view.last_stable_offset == (view.log_end_offset if first_open is None else first_open)


# Parts


class FakeSegment:
    """A segment whose scans are counted."""

    identity = (1, 1)

    def __init__(self, runs: list[BatchRun]) -> None:
        self.runs = runs
        self.tail_end = runs[-1].end_position
        self.scanned = 0

    def scan(self, start: int, end: int | None = None, *, chunk: int = 0) -> Iterator[BatchRun]:
        self.scanned += 1
        stop = self.tail_end if end is None else end
        return (run for run in self.runs if start <= run.position < stop)


def test_markers_that_were_read_are_not_read_again(writer: LogWriter) -> None:
    for producer in range(1, 4):
        writer.append_transactional(producer, 1)
        writer.append_end(producer, commit=True)
        writer.append(batch([Rec(b"x" * 600_000)], writer.next_offset))
    runs = [item for _, item in writer.view().runs() if isinstance(item, BatchRun)]
    segment = FakeSegment(runs)
    cache = MarkerCache()
    first = cache.chunk_at(segment, 0)
    again = cache.chunk_at(segment, 0)
    assert (again is first, segment.scanned) == (True, 1)
    assert cache.chunk_at(segment, first.end - 1) is first
    assert first.markers[1] == [(1, COMMITTED)]


def test_the_marker_cache_is_bounded(writer: LogWriter) -> None:
    writer.append_transactional(1, 1)
    writer.append_end(1, commit=True)
    writer.append(batch([Rec(b"x" * 700_000)], 2), batch([Rec(b"x" * 700_000)], 3))
    runs = [item for _, item in writer.view().runs() if isinstance(item, BatchRun)]
    cache = MarkerCache(most_markers=4)
    for number in range(20):
        segment = FakeSegment(runs)
        segment.identity = (1, number)
        segment.tail_end += 1
        cache.chunk_at(segment, 0)
    assert cache._count <= 4


def test_a_state_takes_only_what_lies_below_an_offset(writer: LogWriter) -> None:
    writer.append_transactional(1, 1)
    writer.append_transactional(2, 1)
    ((_, item),) = writer.view().runs()
    assert isinstance(item, BatchRun)
    state = TransactionState()
    state.apply(item, until=1)
    assert [txn.producer_id for txn in state.ongoing] == [1]
    assert isinstance(item.table["attributes"], np.ndarray)


@pytest.mark.parametrize("chunk", [61, 300, 1 << 20])
def test_fates_do_not_depend_on_how_much_is_read_at_a_time(writer: LogWriter, chunk: int) -> None:
    """A producer's markers before its batch do not decide the batch."""
    expected = {}
    for number in range(12):
        for producer in (1, 2):
            base = writer.append_transactional(producer, 1)
            expected[base] = COMMITTED if (number + producer) % 3 else ABORTED
        for producer in (2, 1):
            writer.append_end(producer, commit=(number + producer) % 3 != 0)
        if number == 6:
            writer.roll()
    expected[writer.append_transactional(2, 1)] = OPEN
    view = writer.view()
    found = {}
    for segment in reversed([view.segment_at(place) for place in range(len(view))]):
        for run in segment.scan(chunk=chunk):
            assert isinstance(run, BatchRun)
            fates = view.fates(segment, run)
            for row in range(len(run.table)) if fates is not None else ():
                if fates[row]:
                    found[int(run.table["base_offset"][row])] = int(fates[row])
    assert found == expected


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_a_control_record_that_cannot_be_read_ends_nothing(
    writer: LogWriter, codec: CompressionType
) -> None:
    producer = Producer(id=1)
    writer.append_transactional(1, 1)
    short_key = [Rec(b"", b"\0")]
    writer.append(batch(short_key, 1, codec, producer=producer, transactional=True, control=True))
    garbage = {"section": b"\x7f" * 8, "record_count": 1}
    writer.append(
        batch(short_key, 2, codec, producer=producer, transactional=True, control=True, **garbage)
    )
    assert writer.view().open_transactions == (OngoingTxn(1, 0, 0),)


def test_a_marker_of_a_later_version_ends_a_transaction_and_one_below_zero_does_not(
    writer: LogWriter,
) -> None:
    for producer, version in ((1, 0), (2, 5), (3, -1)):
        writer.append_transactional(producer, 1)
        writer.append(
            control_batch(
                int(ControlRecordType.COMMIT),
                b"\0\0\0\0\0\1",
                writer.next_offset,
                producer=Producer(id=producer),
                transactional=True,
                key_version=version,
            )
        )
    assert [txn.producer_id for txn in writer.view().open_transactions] == [3]


@pytest.mark.parametrize(
    ("time_delta", "offset_delta", "value"),
    [
        (0, 0, 0),
        (63, 0, 0),
        (64, 4, 0),  # two bytes of time; the fifth byte is 8, as if it were the size of the key
        (0, 63, 0),
        (0, 64, 0),
        (0, 520, 0),  # two bytes of offset, the second of them 8
        (0, 4, 200),  # two bytes of length
        (64, 64, 200),
        (2**40, 600, 20_000),
    ],
)
@pytest.mark.parametrize(("kind", "fate"), [(0, ABORTED), (1, COMMITTED)])
def test_a_marker_is_read_at_the_right_place_whatever_its_sizes(
    writer: LogWriter, time_delta: int, offset_delta: int, value: int, kind: int, fate: int
) -> None:
    first = writer.append_transactional(1, 1)
    key = bytes([0, 0, 0, kind])
    made = Rec(b"\0" * value, key, 1000 + time_delta, offset=1 + offset_delta)
    writer.append(
        batch(
            [made],
            1,
            producer=Producer(id=1),
            transactional=True,
            control=True,
            base_timestamp=1000,
        )
    )
    assert fates_of(writer.view()) == {first: fate}


def test_the_cache_forgets_the_file_that_it_read_first(writer: LogWriter) -> None:
    writer.append_transactional(1, 1)
    writer.append_end(1, commit=True)
    writer.append(batch([Rec(b"x" * 700_000)], 2), batch([Rec(b"x" * 700_000)], 3))
    runs = [item for _, item in writer.view().runs() if isinstance(item, BatchRun)]
    cache = MarkerCache(most_markers=6)
    segments = []
    for number in range(20):
        segment = FakeSegment(runs)
        segment.identity = (1, number)
        segment.tail_end += 1
        segments.append(segment)
        cache.chunk_at(segment, 0)
    for segment in reversed(segments):  # a chunk with a marker counts two
        cache.chunk_at(segment, 0)
        if segment.scanned == 2:
            break
    assert [segment.scanned for segment in segments[-5:]] == [1, 2, 1, 1, 1]


def test_a_marker_close_behind_decides_without_a_look_at_the_rest_or_at_indexes(
    writer: LogWriter,
) -> None:
    first = writer.append_transactional(1, 1)
    writer.append_records(b"x" * 600_000)
    writer.append_end(1, commit=True)
    for _ in range(4):
        writer.append_records(b"x" * 600_000)
    view = writer.view()
    finder = FateFinder(
        view.segments_from,
        lambda: pytest.fail("the marker is in the second part of the log"),
        MarkerCache(),
        lambda: pytest.fail("there is no damage"),
    )
    segment = view.segment_at(0)
    run = next(iter(segment.scan(chunk=1000)))
    assert isinstance(run, BatchRun)
    assert run.base_offset == first
    fates = finder.fates(segment, run)
    assert fates is not None
    assert fates.tolist() == [COMMITTED]


def test_a_transactional_batch_without_a_producer_opens_nothing(writer: LogWriter) -> None:
    writer.append(batch([Rec(b"v")], 0, producer=Producer(id=-1), transactional=True))
    writer.append_transactional(0, 1)
    view = writer.view()
    assert view.open_transactions == (OngoingTxn(0, 0, 1),)
    assert fates_of(view) == {1: OPEN}


# Markers that damage took


FIRST_ABORTED = Aborted(1, 0, 1, 2)


@pytest.mark.parametrize(
    ("later", "index", "fate"),
    [
        (None, [], OPEN),
        (None, [FIRST_ABORTED], ABORTED),
        (True, [], COMMITTED),
        (True, [FIRST_ABORTED], ABORTED),
        (True, [Aborted(2, 0, 1, 2)], COMMITTED),  # of another producer
        (True, [Aborted(1, 1, 1, 2)], COMMITTED),  # begins after the batch
        (True, [Aborted(1, 0, 0, 2)], COMMITTED),  # ends at the batch
        (True, [Aborted(1, 0, 3, 4)], COMMITTED),  # ends where nothing is damaged
        (True, [Aborted(1, 2, 4, 5), FIRST_ABORTED], ABORTED),
        (False, [], ABORTED),
        (False, [FIRST_ABORTED], ABORTED),
        (False, [Aborted(1, 3, 4, 5)], COMMITTED),  # the marker is of a transaction after the batch
        (False, [Aborted(1, 0, 4, 5)], ABORTED),  # the marker is of the batch's own transaction
        (True, None, COMMITTED),
        (True, [FIRST_ABORTED._replace(version=9)], COMMITTED),
    ],
)
def test_an_index_of_aborted_transactions_tells_of_a_marker_that_damage_took(
    writer: LogWriter, later: bool | None, index: list[Aborted] | None, fate: int
) -> None:
    """The batch is at offset 0, the damaged marker at 1, a later transaction at 3 with its marker at 4."""
    writer.append_transactional(1, 1)
    marker = end_marker(1, Producer(id=1), commit=False)
    writer.append(marker[:-1] + bytes([marker[-1] ^ 0xFF]))
    writer.append_records(b"plain")
    if later is not None:
        assert writer.append_transactional(1, 1) == 3
        assert writer.append_end(1, commit=later) == 4
    data = b"\0" * 7 if index is None else transaction_index(index)
    (writer.folder / f"{0:020}.txnindex").write_bytes(data)
    view = writer.view()
    segment = view.segment_at(0)
    first = next(item for item in segment.scan() if isinstance(item, BatchRun))
    fates = view.fates(segment, first)
    assert fates is not None
    assert int(fates[0]) == fate


def test_damage_before_a_batch_or_after_its_marker_took_no_marker_of_it(writer: LogWriter) -> None:
    spoiled = batch([Rec(b"damaged")], 0)
    writer.append(spoiled[:-1] + bytes([spoiled[-1] ^ 0xFF]))
    writer.next_offset = 1
    first = writer.append_transactional(1, 1)
    writer.append_end(1, commit=True)
    spoiled = batch([Rec(b"damaged")], 3)
    writer.append(spoiled[:-1] + bytes([spoiled[-1] ^ 0xFF]), batch([Rec(b"v")], 4))
    entries = [Aborted(1, first, 0, 1), Aborted(1, first, 3, 4)]
    (writer.folder / f"{0:020}.txnindex").write_bytes(transaction_index(entries))
    view = writer.view()
    found = {}
    for segment, item in view.runs():
        fates = view.fates(segment, item) if isinstance(item, BatchRun) else None
        if fates is not None:
            assert isinstance(item, BatchRun)
            rows = item.table["base_offset"].tolist()
            found |= {base: int(each) for base, each in zip(rows, fates, strict=True) if each}
    assert found == {first: COMMITTED}


def test_a_marker_counts_for_its_own_batch_wherever_the_read_began(writer: LogWriter) -> None:
    for number in range(8):
        writer.append_end(number, commit=number % 3 != 0)
    size = writer.records_file.stat().st_size // 8
    segment = writer.view().segment_at(0)
    for skipped in range(8):
        found = []
        for item in segment.scan(skipped * size):
            assert isinstance(item, BatchRun)
            found += [(event.producer_id, event.ended) for event in events(item)]
        assert found == [(n, COMMITTED if n % 3 else ABORTED) for n in range(skipped, 8)]


def test_a_part_of_a_file_before_a_known_one_ends_where_that_begins(writer: LogWriter) -> None:
    for producer in range(1, 5):
        writer.append_end(producer, commit=True)
        writer.append(batch([Rec(b"x" * 600_000)], writer.next_offset))
    segment = writer.view().segment_at(0)
    cache = MarkerCache()
    at = segment.tail_end // 4
    second = cache.chunk_at(segment, 2 * at)
    assert min(second.markers) == 3
    first = cache.chunk_at(segment, at)
    assert (list(first.markers), first.end) == ([2], 2 * at)
    assert cache.chunk_at(segment, 0).end == at
    assert cache.chunk_at(segment, 2 * at) is second


@pytest.mark.parametrize(("begins", "is_read_on"), [(0, False), (1, True)])
def test_behind_two_parts_of_the_log_only_transactions_that_ended_are_looked_for(
    writer: LogWriter, begins: int, is_read_on: bool
) -> None:
    """An open transaction of the producer that begins after the batch is another one."""
    writer.append_transactional(1, 1)
    for _ in range(9):
        writer.append_records(b"x" * 600_000)
    view = writer.view()
    segment = view.segment_at(0)
    asked: list[int] = []

    def ongoing() -> list[OngoingTxn]:
        asked.append(begins)
        return [OngoingTxn(1, 0, begins)]

    cache = MarkerCache()
    finder = FateFinder(view.segments_from, ongoing, cache, dict)
    run = next(iter(segment.scan(chunk=1000)))
    assert isinstance(run, BatchRun)
    fates = finder.fates(segment, run)
    assert fates is not None
    assert fates.tolist() == [OPEN]
    assert asked == [begins]
    ((starts, _),) = cache._files.values()
    assert (len(starts) > 2) is is_read_on
