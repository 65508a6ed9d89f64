"""Look-ups of single records: the batches that were looked at last, within a bound, never out of date."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS
from engine.log.log_directory import LogSource, open_source
from engine.log.view.log_view import LogView
from kafkafs.decode.damaged_record import DamagedRecordError
from kafkafs.decode.record_batches import WINDOW, BatchCache, RecordBatches
from kafkafs.decode.rendered_batch import RenderedBatch
from tests import builders
from tests.builders import Producer, Rec
from tests.kafkafs.built_logs import BuiltLog, after_a_tick, batches_of, text_batch

P7 = Producer(id=7, epoch=0, sequence=0)


class Looked:
    """A log's records by offset."""

    def __init__(self, source: LogSource) -> None:
        self.partition = next(iter(source.partitions().values()))
        self.cache = BatchCache(1 << 20)
        options = kernel.LineOptions("orders", 0)
        self.records = RecordBatches(self.cache, options, DEFAULT_BUDGETS)
        self.loads: list[tuple[int, int]] = []
        load = self.records._render

        def counted(
            view: LogView, found: object, low: int, high: int, **bounds: int
        ) -> RenderedBatch:
            batch = load(view, found, low, high, **bounds)  # type: ignore[arg-type]
            self.loads.append((low, len(batch.lines)))
            return batch

        self.records._render = counted  # type: ignore[assignment,method-assign]

    def view(self) -> LogView:
        return self.partition.view(0.0)

    def line(self, offset: int, view: LogView | None = None) -> dict[str, object] | None:
        batch = self.records.find(view or self.view(), offset)
        line = None if batch is None else batch.line(offset)
        return None if line is None else json.loads(line)


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    return BuiltLog(tmp_path / "data")


@pytest.fixture
def looked(log: BuiltLog) -> Iterator[Looked]:
    log.segment(batches_of(20), 0)
    source = open_source(str(log.log_dir))
    yield Looked(source)
    source.close()


def test_a_record_is_found_by_its_offset(looked: Looked) -> None:
    for offset in (0, 9, 10, 123, 199):
        line = looked.line(offset)
        assert line is not None
        assert (line["offset"], line["value"]) == (offset, f"{offset:020}")


@pytest.mark.parametrize("offset", [-1, 200, 10**6, 2**63 - 1])
def test_there_is_nothing_outside_the_log(looked: Looked, offset: int) -> None:
    assert looked.line(offset) is None


def test_the_first_look_up_in_a_batch_makes_one_line(looked: Looked) -> None:
    view = looked.view()
    for offset in (5, 15, 150):
        assert looked.line(offset, view)
    assert looked.loads == [(5, 1), (15, 1), (150, 1)]


def test_the_second_look_up_in_a_batch_makes_the_lines_of_its_neighbours(looked: Looked) -> None:
    view = looked.view()
    for offset in (10, *range(10, 20), 10):
        assert looked.line(offset, view)
    assert looked.loads == [(10, 1), (0, 10)]


def test_a_line_is_read_alone_and_its_window_when_it_is_asked_for_again(looked: Looked) -> None:
    view = looked.view()
    for offset in (5, 150, 7, 8, 150, 5):
        found = looked.records.line(view, offset)
        assert found is not None
        line = json.loads(found[0])
        assert (line["offset"], line["timestamp"]) == (offset, found[1])
    assert looked.loads == [(0, 10), (128, 10)]


def test_a_line_that_only_find_can_tell_is_left_to_it(looked: Looked, log: BuiltLog) -> None:
    broken(log, 3 * len(text_batch(0, 10)) + 100)
    view = looked.view()
    assert [looked.records.line(view, offset) for offset in (30, 31, 200, -1)] == [None] * 4


def test_of_a_large_batch_a_window_is_rendered(looked: Looked, log: BuiltLog) -> None:
    log.append(text_batch(200, 1000))
    view = looked.view()
    for offset in (700, 701, 640, 767, 768, 895, 896, 700):
        line = looked.line(offset, view)
        assert line is not None
        assert line["offset"] == offset
    assert looked.loads == [(700, 1), (640, WINDOW), (768, WINDOW), (896, WINDOW)]


def test_a_record_that_no_window_has_room_for_is_rendered_alone(
    looked: Looked, log: BuiltLog
) -> None:
    looked.cache.max_bytes = 16 << 20
    log.append(builders.batch([Rec(b"x" * 700_000)] * 5, 200))
    view = looked.view()
    for offset in (200, 201, 204):
        line = looked.line(offset, view)
        assert line is not None
        assert line["offset"] == offset
    assert looked.loads == [(200, 1), (128, 3), (204, 1)]


def test_what_is_kept_stays_within_the_bound(looked: Looked) -> None:
    looked.cache.max_bytes = 12_000
    view = looked.view()
    for offset in range(200):
        assert looked.line(offset, view)
    assert 0 < looked.cache.bytes <= 12_000
    assert len(looked.records._by_window) == len(looked.cache._batches)
    assert looked.line(0, view)


def test_a_batch_larger_than_the_bound_is_shown_and_not_kept(looked: Looked) -> None:
    looked.cache.max_bytes = 10
    assert looked.line(5)
    assert looked.cache.bytes == 0
    assert looked.records._by_window == {}


def test_offsets_that_compaction_took_are_not_there(looked: Looked, log: BuiltLog) -> None:
    records = [Rec(b"a", offset=202), Rec(b"b", offset=207)]
    log.append(builders.batch(records, 200, last_offset_delta=9), text_batch(215, 2))
    log.cleaned_to(215)
    found = {offset for offset in range(200, 217) if looked.line(offset)}
    assert found == {202, 207, 215, 216}
    line = looked.line(207)
    assert line is not None
    assert line["value"] == "b"


def test_of_two_records_with_one_offset_the_first_counts(looked: Looked, log: BuiltLog) -> None:
    records = [Rec(b"first", offset=200), Rec(b"second", offset=200), Rec(b"x", offset=201)]
    log.append(builders.batch(records, 200))
    line = looked.line(200)
    assert line is not None
    assert line["value"] == "first"


def test_records_out_of_order_in_their_batch_are_found(looked: Looked, log: BuiltLog) -> None:
    records = [Rec(b"%d" % offset, offset=offset) for offset in (200, 202, 201, 203)]
    log.append(builders.batch(records, 200))
    for offset in range(200, 204):
        line = looked.line(offset)
        assert line is not None
        assert line["value"] == str(offset)


def test_records_below_the_log_start_are_not_found(looked: Looked, log: BuiltLog) -> None:
    log.start_at(15)
    after_a_tick()
    view = looked.partition.view(0.0)
    while view.log_start_offset == 0:  # the checkpoint is read again after a while
        after_a_tick()
        view = looked.partition.view(0.0)
    assert looked.line(15, view)
    assert looked.line(14, view) is None
    assert looked.line(10, view) is None
    assert [looked.records.line(view, offset) is None for offset in (16, 17, 14, 10, 18)] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_columns_give_the_exact_bytes(looked: Looked, log: BuiltLog) -> None:
    log.append(builders.batch([Rec(b"\x00\xff", b""), Rec(None, None)], 200))
    batch = looked.records.find(looked.view(), 200)
    assert batch is not None
    columns = batch.columns()
    number = batch.number_of(columns, 200)
    assert number is not None
    assert (columns.key(number), columns.value(number)) == (b"", b"\x00\xff")
    assert batch.number_of(columns, 205) is None
    assert batch.raw() == builders.batch([Rec(b"\x00\xff", b""), Rec(None, None)], 200)


# -- a log that changes ----------------------------------------------------------------------------


def test_what_is_known_of_a_log_that_only_grows_stays_known(looked: Looked, log: BuiltLog) -> None:
    assert looked.line(5)
    log.append(text_batch(200, 5))
    assert looked.line(204)
    assert looked.line(6)
    assert looked.loads == [(5, 1), (204, 1), (0, 10)]


def test_after_a_log_was_cut_and_written_on_nothing_old_is_shown(
    looked: Looked, log: BuiltLog
) -> None:
    assert looked.line(199)
    data = log.active.read_bytes()[: -len(text_batch(190, 10))]
    log.active.write_bytes(data + builders.batch([Rec(b"new" * 30)] * 10, 190))
    line = looked.line(199)
    assert line is not None
    assert line["value"] == "new" * 30


def test_an_open_transaction_is_looked_at_again_when_the_log_has_grown(
    looked: Looked, log: BuiltLog
) -> None:
    log.append(builders.batch([Rec(b"v")], 200, producer=P7, transactional=True))
    line = looked.line(200)
    assert line is not None
    assert line["transaction"] == {"producerId": 7, "producerEpoch": 0, "state": "open"}
    log.append(builders.end_marker(201, P7, commit=True))
    line = looked.line(200)
    assert line is not None
    assert line["transaction"] == {"producerId": 7, "producerEpoch": 0, "state": "committed"}


# -- damage ----------------------------------------------------------------------------------------


def broken(log: BuiltLog, position: int) -> None:
    data = bytearray(log.active.read_bytes())
    data[position] ^= 1
    log.active.write_bytes(data)


def test_a_record_of_a_damaged_batch_raises_with_the_whole_story(
    looked: Looked, log: BuiltLog
) -> None:
    size = len(text_batch(0, 10))
    broken(log, 3 * size + 100)
    for offset in (30, 35, 39):
        with pytest.raises(DamagedRecordError) as raised:
            looked.line(offset)
        facts = raised.value.damage
        assert (facts["position"], facts["length"]) == (3 * size, size)
        assert (facts["firstOffset"], facts["lastOffset"]) == (30, 39)
        assert facts["kind"] == "crc_mismatch"
    assert looked.line(29)
    assert looked.line(40)


def test_records_before_the_place_where_a_batch_breaks_off_are_served(
    looked: Looked, log: BuiltLog
) -> None:
    section = builders.records_section([Rec(b"x")] * 3, 200, 1_700_000_000_000)
    log.append(builders.batch([Rec()] * 5, 200, section=section), text_batch(205, 1))
    assert looked.line(202)
    with pytest.raises(DamagedRecordError, match="states 5 records and holds 3"):
        looked.line(203)
    assert looked.line(205)


def test_bytes_behind_the_last_record_cost_no_record(looked: Looked, log: BuiltLog) -> None:
    section = builders.records_section([Rec(b"x")] * 3, 200, 1_700_000_000_000) + b"rest"
    log.append(builders.batch([Rec()] * 3, 200, section=section, last_offset_delta=4))
    assert looked.line(202)
    assert looked.line(203) is None


def test_an_unknown_codec_is_damage_of_all_its_records(looked: Looked, log: BuiltLog) -> None:
    log.append(builders.batch([Rec(b"x")] * 3, 200, attributes=7))
    with pytest.raises(DamagedRecordError, match="codec"):
        looked.line(201)


# -- records near an offset ------------------------------------------------------------------------


def test_the_first_record_at_or_after_an_offset(looked: Looked, log: BuiltLog) -> None:
    log.append(builders.empty_batch(200, 204), builders.batch([Rec(b"a", offset=207)], 205))
    view = looked.view()
    records = looked.records
    assert records.first_at(view, 0) == 0
    assert records.first_at(view, 200) == 207
    assert records.first_at(view, 200, 207) is None
    assert records.first_at(view, 208) is None


def test_the_last_record_of_a_batch_below_an_offset(looked: Looked) -> None:
    view = looked.view()
    batch = looked.records.locate(view, 15)
    assert batch is not None
    assert looked.records.last_in(batch, 1000) == 19
    assert looked.records.last_in(batch, 15) == 14
    assert looked.records.last_in(batch, 10) is None
