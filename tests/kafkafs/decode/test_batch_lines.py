"""Large batches in pieces: the same text as in one, with records and lines of any size."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS
from engine.lines.record_line import LineOptions
from engine.log.log_directory import open_source
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, scan
from engine.log.view.log_view import LogView
from engine.record.attributes import CONTROL_MASK
from kafkafs.decode import batch_lines, line_measuring, line_rendering
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.error_line import problem_line
from kafkafs.decode.line_rendering import Rendering
from kafkafs.decode.line_stream import LineStream, StreamPart
from tests import builders
from tests.builders import Producer, Rec, batch, control_batch, end_marker


@pytest.fixture
def all_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and records of some hundred bytes are as large ones."""
    for module in (batch_lines, line_rendering):
        monkeypatch.setattr(module, "LARGE", 400)
    monkeypatch.setattr(batch_lines, "PIECE_TEXT", 300)
    monkeypatch.setattr(batch_lines, "PIECE_BYTES", 64)
    monkeypatch.setattr(line_measuring, "PIECE_TEXT", 700)
    monkeypatch.setattr(line_measuring, "LARGE_TEXT", 2000)


@pytest.fixture(params=["compiled", "python"])
def either_kernel(request: pytest.FixtureRequest) -> Any:
    before = kernel.name
    kernel.use(request.param)
    yield
    kernel.use(before)


def field(pick: random.Random) -> bytes | None:
    size = pick.choice([0, 5, 70, 300, 900, 3000])
    return pick.choice(
        [
            None,
            pick.randbytes(size),
            ("é\x01" * (size // 3)).encode(),
            b'[1, {"a": "x\\n"}, ' + b" " * size + b"2]",
        ]
    )


def log(pick: random.Random) -> bytes:
    """Batches of every format with small and large records in turns."""
    made, offset = [], 0
    for number in range(16):
        records = []
        for _ in range(pick.choice([1, 3, 12, 30])):
            headers = [
                (b"h" * pick.choice([1, 200]), field(pick)) for _ in range(pick.choice([0, 0, 3]))
            ]
            records.append(Rec(field(pick), field(pick), headers=headers))
        codec = pick.choice(builders.CODECS)
        who = pick.choice([builders.NO_PRODUCER, Producer(id=7, sequence=number)])
        magic = pick.choice([2, 2, 2, 1, 0])
        if magic < 2 and codec.name != "ZSTD":
            plain = [record._replace(headers=()) for record in records]
            data = builders.message_set(plain, offset, codec, magic=magic)
        else:
            data = batch(records, offset, codec, producer=who, transactional=who.id == 7)
        if magic == 2 and number % 7 == 3:
            data = batch(records, offset, codec, record_count=len(records) + 2)
        made.append(data)
        offset += len(records)
        if number % 9 == 4:
            made.append(end_marker(offset, Producer(id=7), commit=bool(number % 2)))
            made.append(control_batch(99, b"x" * 900, offset + 1))
            offset += 2
    return b"".join(made)


def expected(source: Path, options: LineOptions) -> bytes:
    """The text as the kernel gives it with nothing large."""
    view = open_source(str(source)).partitions()["t-0"].view()
    segment = next(iter(view.segments))
    parts = []
    for item in scan(segment.file, 0, segment.size):
        assert isinstance(item, BatchRun), item
        fates, row = view.fates(segment, item), 0
        while row < len(item.table):
            found = kernel.lines(
                item.buffer, item.table, row, len(item.table),
                start_position=item.start_position, options=options, fates=fates,
            )  # fmt: skip
            parts.append(found.text or b"")
            if found.problem is not None:
                at = item.table[found.problem.row]
                parts.append(problem_line(found.problem, at, segment.file.path))
            row += found.rows_done
    return b"".join(parts)


def text_of(rendering: Rendering, view: LogView, segment: LogSegment) -> bytes:
    """The text of a segment, as it is made for a reader that keeps none."""
    items = rendering.scan(segment.file, 0, segment.size, 0, segment.bounds)
    return b"".join(text for item in items for text in rendering.text(view, segment, item))


@pytest.mark.usefixtures("all_is_large", "either_kernel")
@pytest.mark.parametrize("values", ["auto", "text", "base64", "hex", "none"])
@pytest.mark.parametrize("committed", [False, True])
def test_lines_in_pieces_are_the_same_text(tmp_path: Path, values: str, committed: bool) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(log(random.Random(3)))
    options = LineOptions("t", 0, values=values, committed=committed, log_start_offset=20)
    options = replace(options, from_offset=5, to_offset=110)
    whole = expected(tmp_path, options)
    view = open_source(str(tmp_path)).partitions()["t-0"].view()
    segment, rendering = next(iter(view.segments)), Rendering(options, DEFAULT_BUDGETS)
    assert text_of(rendering, view, segment) == whole
    stream = LineStream(view, rendering, [StreamPart(segment, 0, segment.size)], ChunkCache(0))
    assert stream.measure() == len(whole)
    chunks = list(stream.chunks())
    assert any(chunk.skip for chunk in chunks) or values == "none"
    assert b"".join(stream.read(chunk.text_start, chunk.text_size) for chunk in chunks) == whole
    pick = random.Random(1)
    for _ in range(10):
        at = pick.randrange(len(whole))
        assert stream.read(at, 500) == whole[at : at + 500]


@pytest.mark.usefixtures("all_is_large")
def test_an_internal_topic_reads_the_same_in_pieces(tmp_path: Path) -> None:
    from tests.internal_records import random_record

    pick = random.Random(5)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    made, offset = [], 0
    for size in (1, 30, 5, 60, 1):
        pairs = [random_record("__consumer_offsets", pick) for _ in range(size)]
        made.append(batch([Rec(value, key) for key, value in pairs], offset, builders.CODECS[4]))
        offset += size
    (folder / f"{0:020}.log").write_bytes(b"".join(made))
    options = LineOptions("__consumer_offsets", 0)
    view = open_source(str(tmp_path)).partitions()["__consumer_offsets-0"].view()
    segment = next(iter(view.segments))
    rendering = Rendering(options, DEFAULT_BUDGETS)
    text = text_of(rendering, view, segment)
    whole = []
    for item in scan(segment.file, 0, segment.size):
        assert not isinstance(item, Damage)
        assert not (item.table["attributes"] & CONTROL_MASK).any()
        found = kernel.lines(
            item.buffer, item.table, 0, len(item.table),
            start_position=item.start_position, options=options,
        )  # fmt: skip
        whole.append(found.text or b"")
    assert text == b"".join(whole)
