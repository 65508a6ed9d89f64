"""Decoded streams: exact sizes, any position, damage in its place, growth at the end, nothing else moving."""

import json
import random
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS
from engine.log.log_directory import LogSource, open_source
from engine.log.view.log_view import LogView
from kafkafs.decode import batch_lines, line_chunks, line_measuring, line_stream
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.failures import Cancelled, ChangedFileError
from kafkafs.decode.line_chunks import TextChunk
from kafkafs.decode.line_rendering import Rendering
from kafkafs.decode.line_stream import Growth, LineReader, LineStream, StreamPart
from tests import builders
from tests.builders import Producer, Rec
from tests.kafkafs.built_logs import BuiltLog, after_a_tick, batches_of, text_batch

P7 = Producer(id=7, epoch=0, sequence=0)


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    return BuiltLog(tmp_path / "data")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that a large log would do, on a small one."""
    monkeypatch.setattr(line_measuring, "CHUNK_TEXT", 3000)
    monkeypatch.setattr(line_measuring, "GROUP_TEXT", 1500)
    monkeypatch.setattr(line_measuring, "LARGE_TEXT", 6000)
    monkeypatch.setattr(line_measuring, "PIECE_TEXT", 2500)
    monkeypatch.setattr(batch_lines, "PIECE_TEXT", 500)
    monkeypatch.setattr(line_measuring, "JOINED_TEXT", 500)
    monkeypatch.setattr(line_stream, "KEPT_TEXT", 0)


class Opened:
    """A log's view, and streams over it."""

    def __init__(self, source: LogSource) -> None:
        self.source = source
        self.partition = next(iter(source.partitions().values()))
        self.cache = ChunkCache(50_000)

    def view(self) -> LogView:
        return self.partition.view(0.0)

    def parts(self, view: LogView) -> list[StreamPart]:
        segments = [view.segment_at(place) for place in range(len(view))]
        return [StreamPart(segment, 0, segment.tail_end) for segment in segments]

    def stream(self, view: LogView | None = None, **options: object) -> LineStream:
        view = view or self.view()
        lines = kernel.LineOptions("orders", 0, **options)  # type: ignore[arg-type]
        rendering = Rendering(lines, DEFAULT_BUDGETS)
        return LineStream(view, rendering, self.parts(view), self.cache)

    def text(self, **options: object) -> bytes:
        """The whole text, made in one go by the kernel."""
        view = self.view()
        lines = kernel.LineOptions("orders", 0, **options)  # type: ignore[arg-type]
        out = []
        for segment, item in view.runs(0, view.log_end_offset):
            result = kernel.lines(
                item.buffer, item.table, 0, len(item.table), start_position=item.start_position,
                options=lines, fates=view.fates(segment, item),
            )  # fmt: skip
            out.append(result.text)
        return b"".join(out)


@pytest.fixture
def opened(log: BuiltLog) -> Iterator[Opened]:
    log.segment(batches_of(1), 0)
    source = open_source(str(log.log_dir))
    yield Opened(source)
    source.close()


def whole(stream: LineStream) -> bytes:
    stream.measure()
    return stream.read(0, stream.size)


def errors_in(text: bytes) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [line["error"] for line in lines if "error" in line]


def offsets_in(text: bytes) -> list[int]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [line["offset"] for line in lines if "offset" in line]


# -- size and positions ----------------------------------------------------------------------------


def test_nothing_is_read_before_it_is_measured(opened: Opened) -> None:
    stream = opened.stream()
    assert (stream.size, stream.unmeasured_bytes) == (0, opened.view().end_position)
    assert stream.read(0, 100) == b""


def test_the_size_is_that_of_the_text(log: BuiltLog, opened: Opened) -> None:
    log.append(*batches_of(5, first=10))
    stream = opened.stream()
    assert stream.measure() == len(opened.text())
    assert whole(stream) == opened.text()
    assert stream.unmeasured_bytes == 0


@pytest.mark.usefixtures("small_chunks")
def test_any_piece_of_the_text_is_the_same_from_many_chunks(log: BuiltLog, opened: Opened) -> None:
    log.append(*batches_of(60, first=10))
    log.segment(batches_of(60, first=610), 610)
    text = opened.text()
    stream = opened.stream()
    stream.measure()
    assert len(list(stream.chunks())) > 10
    pick = random.Random(1)
    for _ in range(300):
        start = pick.randrange(len(text) + 10)
        size = pick.choice([1, 10, 4096, 10_000])
        assert stream.read(start, size) == text[start : start + size]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("magic", "codec"),
    [(2, codec) for codec in builders.CODECS]
    + [(magic, codec) for magic in (0, 1) for codec in builders.CODECS if codec.name != "ZSTD"],
    ids=lambda value: getattr(value, "name", f"magic{value}"),
)
def test_chunks_come_out_the_same_for_every_format(
    log: BuiltLog, opened: Opened, magic: int, codec: builders.CompressionType
) -> None:
    first = 10
    for _ in range(40):
        records = [Rec(b"v%d" % (first + i), b"k") for i in range(9)]
        log.append(builders.any_batch(records, first, codec, magic=magic))
        first += 9
    stream = opened.stream()
    assert whole(stream) == opened.text()
    assert offsets_in(whole(stream)) == list(range(first))


@pytest.mark.usefixtures("small_chunks")
def test_the_text_of_one_large_batch_is_cut_into_chunks(log: BuiltLog, opened: Opened) -> None:
    log.append(text_batch(10, 500, size=50), text_batch(510, 5))
    stream = opened.stream()
    text = whole(stream)
    assert text == opened.text()
    sizes = [chunk.text_size for chunk in stream.chunks()]
    assert max(sizes) < len(text) / 4


@pytest.mark.usefixtures("small_chunks")
def test_a_large_batch_that_breaks_off_tells_so_once_after_its_records(
    log: BuiltLog, opened: Opened
) -> None:
    section = builders.records_section([Rec(b"x" * 50)] * 300, 10, 1_700_000_000_000)
    log.append(builders.batch([Rec()] * 310, 10, section=section), text_batch(320, 5))
    text = whole(opened.stream())
    assert offsets_in(text) == [*range(310), *range(320, 325)]
    assert [error["kind"] for error in errors_in(text)] == ["record_count"]
    lines = text.splitlines()
    assert b"error" in lines[310]


def test_options_choose_records_and_their_form(log: BuiltLog, opened: Opened) -> None:
    log.append(*batches_of(3, first=10))
    text = whole(opened.stream(from_offset=5, to_offset=15, values="hex", log_start_offset=7))
    assert offsets_in(text) == list(range(5, 15))
    first = json.loads(text.splitlines()[0])
    assert first["valueEncoding"] == "hex"
    assert first["belowLogStart"] is True


def test_a_small_text_is_in_the_cache_once_it_is_measured(opened: Opened) -> None:
    stream = opened.stream()
    assert LineReader(stream).read_now(0, 10) == b""
    stream.measure()
    assert LineReader(stream).read_now(0, stream.size) == opened.text()


@pytest.mark.usefixtures("small_chunks")
def test_what_is_not_in_the_cache_is_not_there_now_and_is_later(
    log: BuiltLog, opened: Opened
) -> None:
    log.append(*batches_of(60, first=10))
    stream = opened.stream()
    stream.measure()
    reader = LineReader(stream)
    assert reader.read_now(0, 10) is None
    text = reader.read(0, 10)
    assert text == stream.read(0, 10)
    assert reader.read_now(0, 10) == text


@pytest.mark.usefixtures("small_chunks")
def test_the_cache_stays_within_its_bytes_however_much_is_read(
    log: BuiltLog, opened: Opened
) -> None:
    opened.cache.max_bytes = 10_000
    log.append(*batches_of(100, first=10))
    stream = opened.stream()
    assert whole(stream) == opened.text()
    assert 0 < opened.cache.bytes <= 10_000


class Ahead:
    """Work for the background, done when the test says so."""

    def __init__(self) -> None:
        self.work: list[Callable[[], object]] = []

    def soon(self, work: Callable[[], object]) -> None:
        self.work.append(work)

    def do(self) -> int:
        """Do the work; return how much there was."""
        work, self.work = self.work, []
        for piece in work:
            piece()
        return len(work)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch, small_chunks: None) -> Ahead:
    """Small stretches, decoded ahead at the test's word."""
    made = Ahead()
    monkeypatch.setattr(line_stream, "_ahead", made)
    for module in (line_chunks, line_stream):
        monkeypatch.setattr(module, "STRETCH_TEXT", 10_000)
    return made


@pytest.fixture
def measured(log: BuiltLog, opened: Opened, ahead: Ahead) -> LineStream:
    """A stream of many stretches."""
    log.append(*batches_of(300, first=10))
    stream = opened.stream()
    stream.measure()
    return stream


def test_a_reader_that_goes_straight_on_has_the_next_stretches_decoded(
    measured: LineStream, ahead: Ahead
) -> None:
    reader = LineReader(measured)
    reader.read_now(0, 100)
    assert ahead.do() == 0
    reader.read_now(100, 100)
    assert ahead.do() == line_stream.STRETCHES_AHEAD
    stretch = measured.chunk_at(0, joined=True)
    reader.read_now(200, stretch.text_end - 200)
    assert reader.read_now(stretch.text_end, 8000) == measured.read(stretch.text_end, 8000)
    assert ahead.do() == 1
    LineReader(measured).read_now(stretch.text_end, 10)
    assert ahead.do() == 0


def test_a_stretch_is_one_call_of_the_kernel_for_several_chunks(
    measured: LineStream, monkeypatch: pytest.MonkeyPatch, ahead: Ahead
) -> None:
    calls = []
    read_lines = kernel.read_lines
    monkeypatch.setattr(
        kernel, "read_lines", lambda *args, **more: calls.append(args) or read_lines(*args, **more)
    )
    stretch = measured.chunk_at(0, joined=True)
    chunks = [chunk for chunk in measured.chunks() if chunk.text_start < stretch.text_end]
    assert len(chunks) >= 3
    assert measured.chunk_at(stretch.text_end - 1, joined=True) == stretch
    text = measured.text_of(stretch)
    assert len(calls) == 1
    assert text == b"".join(measured.text_of(chunk) for chunk in chunks)


def test_a_reader_of_everything_gets_the_text_and_decodes_it_about_once(
    measured: LineStream, monkeypatch: pytest.MonkeyPatch, ahead: Ahead, opened: Opened
) -> None:
    decoded = []
    render = LineStream._render
    monkeypatch.setattr(
        LineStream, "_render", lambda *of: decoded.append(of[1].text_size) or render(*of)
    )
    reader = LineReader(measured)
    text = b""
    largest = 0
    while len(text) < measured.size:
        piece = reader.read_now(len(text), 1700)
        text += reader.read(len(text), 1700) if piece is None else piece
        largest = max(largest, opened.cache.bytes)
        ahead.do()
    assert text == opened.text()
    assert sum(decoded) <= 1.05 * measured.size
    assert largest <= (line_stream.STRETCHES_AHEAD + 3) * 13_000
    reader.close()
    assert opened.cache.bytes <= 10_000


def test_requests_out_of_order_and_again_are_answered_from_what_is_decoded(
    measured: LineStream, ahead: Ahead, opened: Opened
) -> None:
    text = opened.text()
    reader = LineReader(measured)
    reader.read(0, 1000)
    for position in (0, 2000, 1000, 1000, 4000, 3000, 5000, 12_000, 11_000, 9000, 13_000):
        piece = reader.read_now(position, 1000)
        if piece is None:
            piece = reader.read(position, 1000)
        assert piece == text[position : position + 1000]
        ahead.do()
    assert reader.read_now(9000, 1000) == text[9000:10_000]
    assert reader.read_now(14_000, 1000) is not None


def test_a_reader_that_goes_backwards_has_nothing_decoded_ahead(
    measured: LineStream, ahead: Ahead
) -> None:
    reader = LineReader(measured)
    for position in range(measured.size - 1000, 0, -1000):
        reader.read_now(position, 1000)
    assert measured.size > 50_000
    assert ahead.do() == 0


@pytest.mark.parametrize("leave", [LineReader.close, lambda reader: reader.read_now(0, 100)])
def test_what_a_reader_has_left_is_not_decoded_any_more(
    leave: Callable[[LineReader], object], measured: LineStream, ahead: Ahead, opened: Opened
) -> None:
    reader = LineReader(measured)
    reader.read_now(0, 100)
    reader.read_now(100, 100)
    leave(reader)
    assert ahead.do() == line_stream.STRETCHES_AHEAD
    assert opened.cache.bytes == 0


def test_a_batch_that_has_changed_fails_the_reads_of_its_chunk_and_not_of_its_stretch(
    measured: LineStream, ahead: Ahead, log: BuiltLog, opened: Opened
) -> None:
    text = opened.text()
    stretch = measured.chunk_at(0, joined=True)
    first, second, *_ = measured.chunks()
    with open(log.active, "r+b") as file:
        file.seek(second.start + 20)
        file.write(b"12345678")
    reader = LineReader(measured)
    reader.read_now(0, 100)
    reader.read_now(100, 100)
    ahead.do()
    assert reader.read(0, 1000) == text[:1000]
    with pytest.raises(ChangedFileError, match="has changed"):
        reader.read(second.text_start, 100)
    behind = second.text_end
    assert first.text_end < behind < stretch.text_end
    assert reader.read(behind, 100) == text[behind : behind + 100]


def test_a_reader_can_wait_for_text_that_another_thread_decodes(
    measured: LineStream, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = LineReader(measured)
    woken = threading.Event()
    assert not reader.notify(0, 10, woken.set)
    begun, go_on = threading.Event(), threading.Event()
    render = LineStream._render

    def slowly(stream: LineStream, chunk: TextChunk) -> object:
        begun.set()
        go_on.wait(10)
        return render(stream, chunk)

    monkeypatch.setattr(LineStream, "_render", slowly)
    thread = threading.Thread(target=reader.read, args=(0, 10))
    thread.start()
    begun.wait(10)
    assert reader.notify(0, 10, woken.set)
    assert not woken.is_set()
    go_on.set()
    thread.join(10)
    assert woken.wait(10)
    assert reader.read_now(0, 10) == measured.read(0, 10)
    woken.clear()
    assert reader.notify(0, 10, woken.set)
    assert woken.is_set()


def test_chunks_of_two_scans_and_those_near_the_end_are_not_joined(
    log: BuiltLog, opened: Opened, ahead: Ahead
) -> None:
    log.append(*batches_of(100, first=10))
    stream = opened.stream()
    first = stream.measure()
    last = stream.chunk_at(first - 1, joined=True)
    assert last == stream.chunk_at(first - 1, joined=False)
    after_a_tick()
    log.append(*batches_of(200, first=1010))
    view = opened.view()
    assert stream.grow(view, opened.parts(view)) is Growth.DONE
    stream.measure()
    reader = LineReader(stream)
    text = b""
    while len(text) < stream.size:
        text += reader.read(len(text), 3000)
        reader.read_now(len(text), 1)
        ahead.do()
    assert text == opened.text()
    around = stream.chunk_at(first, joined=True)
    assert not around.text_start < first < around.text_end


# -- damage ----------------------------------------------------------------------------------------


def break_batch(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position + 70] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.usefixtures("small_chunks")
def test_a_damaged_batch_is_one_line_at_its_place_and_the_rest_follows(
    log: BuiltLog, opened: Opened
) -> None:
    batches = batches_of(60, first=10)
    start = log.active.stat().st_size
    log.append(*batches)
    for number in (0, 7, 8, 30, 59):
        break_batch(log.active, start + sum(map(len, batches[:number])))
    stream = opened.stream()
    text = whole(stream)
    lost = {10 + 10 * number + i for number in (0, 7, 8, 30, 59) for i in range(10)}
    assert offsets_in(text) == [offset for offset in range(610) if offset not in lost]
    errors = errors_in(text)
    assert [(error["firstOffset"], error["lastOffset"]) for error in errors] == [
        (10, 19), (80, 89), (90, 99), (310, 319), (610 - 10, 609),
    ]  # fmt: skip
    assert {error["kind"] for error in errors} == {"crc_mismatch"}
    assert errors[0]["file"] == "orders-0/00000000000000000000.log"
    assert errors[0]["position"] == start
    assert stream.findings.damage_count == 5
    assert text == b"".join(stream.read(i, 1000) for i in range(0, stream.size, 1000))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("length", [-1, 0, 13, 48, 200, 100_000, 2**31 - 1])
def test_a_wrong_length_hides_nothing_that_follows(
    log: BuiltLog, opened: Opened, length: int
) -> None:
    batches = batches_of(40, first=10)
    start = log.active.stat().st_size
    log.append(*batches)
    data = log.active.read_bytes()
    at = start + sum(map(len, batches[:20])) + 8
    log.active.write_bytes(builders.patched(data, at, struct.pack(">i", length)))
    stream = opened.stream()
    text = whole(stream)
    assert offsets_in(text) == [o for o in range(410) if not 210 <= o < 220]
    assert sum(error["length"] for error in errors_in(text)) == len(batches[20])
    assert text == b"".join(stream.read(i, 777) for i in range(0, stream.size, 777))


def test_a_torn_end_at_rest_is_a_line_at_the_end(log: BuiltLog, opened: Opened) -> None:
    with open(log.active, "ab") as file:
        file.write(text_batch(10, 5)[:50])
    text = whole(opened.stream())
    assert offsets_in(text) == list(range(10))
    assert [error["kind"] for error in errors_in(text)] == ["torn_tail"]
    assert b"error" in text.splitlines()[-1]


def test_the_zeros_of_a_preallocated_file_are_not_damage(log: BuiltLog, opened: Opened) -> None:
    with open(log.active, "ab") as file:
        file.write(bytes(100_000))
    text = whole(opened.stream())
    assert offsets_in(text) == list(range(10))
    assert errors_in(text) == []


def test_batches_that_are_out_of_place_are_reported_and_not_shown(
    log: BuiltLog, opened: Opened
) -> None:
    log.append(text_batch(10, 5), text_batch(3, 2), text_batch(15, 5))
    text = whole(opened.stream())
    assert offsets_in(text) == [*range(20)]
    assert [error["kind"] for error in errors_in(text)] == ["offset_order"]


# -- growth ----------------------------------------------------------------------------------------


def test_a_log_that_grows_makes_its_text_longer_and_changes_nothing(
    log: BuiltLog, opened: Opened
) -> None:
    stream = opened.stream()
    before = whole(stream)
    log.append(*batches_of(3, first=10))
    view = opened.view()
    assert stream.grow(view, opened.parts(view)) is Growth.DONE
    assert stream.size == len(before)
    after = whole(stream)
    assert after == opened.text()
    assert after.startswith(before)


def test_a_reader_reads_on_from_a_chunk_that_growth_has_continued(
    log: BuiltLog, opened: Opened, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_measuring, "JOINED_TEXT", 10_000)
    stream = opened.stream()
    size = stream.measure()
    reader = LineReader(stream)
    reader.read_now(0, 100)
    reader.read_now(100, 100)
    held = stream.chunk_at(0, joined=False)
    log.append(*batches_of(1, first=10))
    view = opened.view()
    assert stream.grow(view, opened.parts(view)) is Growth.DONE
    stream.measure()
    continued = stream.chunk_at(size, joined=False)
    assert held.text_start == continued.text_start < held.text_end < continued.text_end
    text = opened.text()
    for position in (150, size - 1, size, size + 1):
        assert reader.read(position, 10_000) == text[position:]
        assert reader.read_now(position, 10_000) == text[position:]
    assert reader.read(150, size) == text[150 : 150 + size]


@pytest.mark.usefixtures("small_chunks")
def test_growing_by_little_at_a_time_leaves_few_chunks(log: BuiltLog, opened: Opened) -> None:
    stream = opened.stream()
    stream.measure()
    for first in range(10, 210):
        log.append(text_batch(first, 1))
        view = opened.view()
        assert stream.grow(view, opened.parts(view)) is Growth.DONE
        stream.measure()
    assert whole(stream) == opened.text()
    assert len(list(stream.chunks())) < 80


def test_a_roll_adds_a_part(log: BuiltLog, opened: Opened) -> None:
    stream = opened.stream()
    stream.measure()
    log.append(text_batch(10, 5))
    log.segment(batches_of(2, first=15), 15)
    after_a_tick()
    view = opened.view()
    assert stream.grow(view, opened.parts(view)) is Growth.DONE
    assert whole(stream) == opened.text()
    assert offsets_in(whole(stream)) == list(range(35))


def test_a_log_that_was_cut_needs_a_new_stream(log: BuiltLog, opened: Opened) -> None:
    log.append(*batches_of(3, first=10))
    stream = opened.stream()
    stream.measure()
    size = log.active.stat().st_size
    with open(log.active, "r+b") as file:
        file.truncate(size - len(text_batch(30, 10)))
    view = opened.view()
    assert stream.grow(view, opened.parts(view)) is Growth.IMPOSSIBLE


def test_a_log_that_was_cut_and_written_on_needs_a_new_stream(
    log: BuiltLog, opened: Opened
) -> None:
    log.append(*batches_of(3, first=10))
    stream = opened.stream()
    stream.measure()
    data = log.active.read_bytes()
    cut = data[: -len(text_batch(30, 10))] + builders.batch([Rec(b"other" * 30)] * 20, 30)
    with open(log.active, "r+b") as file:
        file.write(cut)
    view = opened.view()
    assert stream.grow(view, opened.parts(view)) is Growth.IMPOSSIBLE


def test_a_read_of_bytes_that_have_changed_fails_and_never_shows_a_mix(
    log: BuiltLog, opened: Opened
) -> None:
    stream = opened.stream()
    before = whole(stream)
    opened.cache.drop((stream.serial, 0, stream.size))
    with open(log.active, "r+b") as file:
        file.write(builders.batch([Rec(b"other" * 9)] * 10, 0))
    with pytest.raises(ChangedFileError, match="has changed"):
        stream.read(0, 10)
    assert before


def test_an_open_stream_keeps_the_file_that_compaction_replaced(
    log: BuiltLog, opened: Opened
) -> None:
    log.segment(batches_of(2, first=10), 10)
    stream = opened.stream()
    stream.pin()
    before = whole(stream)
    opened.cache.drop((stream.serial, 0, stream.size))
    opened.cache.max_bytes = 0
    log.compact(0, builders.batch([Rec(b"kept", offset=5)], 5))
    after_a_tick()
    view = opened.view()
    assert stream.grow(view, opened.parts(view)) is Growth.IMPOSSIBLE
    assert stream.read(0, stream.size) == before
    stream.unpin()
    assert offsets_in(whole(opened.stream(view))) == [5, *range(10, 30)]


# -- transactions ----------------------------------------------------------------------------------


def transactional(first: int, count: int = 3) -> bytes:
    return builders.batch([Rec(b"v")] * count, first, producer=P7, transactional=True)


def states(text: bytes) -> list[str]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [line["transaction"]["state"] for line in lines if "transaction" in line]


@pytest.mark.usefixtures("small_chunks")
def test_what_was_open_when_it_was_measured_stays_open_in_the_stream(
    log: BuiltLog, opened: Opened
) -> None:
    log.append(transactional(10))
    stream = opened.stream()
    stream.measure()
    assert stream.findings.has_open
    log.append(builders.end_marker(13, P7, commit=True), transactional(14))
    view = opened.view()
    assert stream.grow(view, opened.parts(view)) is Growth.DONE
    assert states(whole(stream)) == ["open"] * 6
    log.append(builders.end_marker(17, P7, commit=False))
    view = opened.view()
    assert stream.grow(view, opened.parts(view)) is Growth.DONE
    assert states(whole(stream)) == ["open"] * 6
    assert states(whole(opened.stream())) == ["committed"] * 3 + ["aborted"] * 3


# -- giving up, and threads ------------------------------------------------------------------------


@pytest.mark.usefixtures("small_chunks")
def test_measuring_can_be_given_up_and_goes_on_where_it_was(
    log: BuiltLog, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_measuring, "GROUP_TEXT", 100)
    for base in range(10, 410, 100):
        log.segment(batches_of(10, first=base), base)
    stream = opened.stream()
    asked = iter([False, False, True])
    with pytest.raises(Cancelled):
        stream.measure(lambda: next(asked))
    known = stream.size
    assert known > 0
    assert stream.unmeasured_bytes > 0
    assert whole(stream) == opened.text()
    assert stream.size > known


def test_one_who_waits_for_another_to_measure_can_give_up(opened: Opened) -> None:
    stream = opened.stream()
    stream._measuring.acquire()
    try:
        with pytest.raises(Cancelled):
            stream.measure(lambda: True)
        assert stream.measure_now(10**9) is False
        assert stream.grow(opened.view(), []) is Growth.BUSY
    finally:
        stream._measuring.release()
    assert stream.measure_now(10**9) is True


def test_too_much_is_not_measured_in_passing(opened: Opened) -> None:
    stream = opened.stream()
    assert stream.measure_now(10) is False
    assert stream.size == 0


@pytest.mark.usefixtures("small_chunks")
def test_readers_in_many_threads_get_the_same_text_while_it_grows(
    log: BuiltLog, opened: Opened
) -> None:
    log.append(*batches_of(50, first=10))
    stream = opened.stream()
    text = whole(stream)
    opened.cache.max_bytes = 20_000
    wrong = []
    stop = threading.Event()

    def read(seed: int) -> None:
        pick = random.Random(seed)
        while not stop.is_set():
            start = pick.randrange(len(text))
            if stream.read(start, 5000)[: len(text) - start] != text[start : start + 5000]:
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for first in range(510, 530):
        log.append(text_batch(first, 1))
        view = opened.view()
        stream.grow(view, opened.parts(view))
        stream.measure()
    stop.set()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert whole(stream) == opened.text()
