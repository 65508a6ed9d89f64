"""What a random and a sequential read cost, in counts that do not depend on the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pyfuse3 = pytest.importorskip("pyfuse3")

from engine import kernel  # noqa: E402  after the skip
from engine.log.log_directory import open_source  # noqa: E402
from kafkafs.decode import line_chunks, line_measuring, line_stream  # noqa: E402
from kafkafs.fuse.operations import Operations  # noqa: E402
from kafkafs.fuse.slow_work import SlowWork  # noqa: E402
from kafkafs.tree.node import File  # noqa: E402
from kafkafs.tree.tree import Tree  # noqa: E402
from tests.counted_calls import calls_of  # noqa: E402
from tests.kafkafs.built_logs import BuiltLog, text_batch  # noqa: E402
from tests.kafkafs.fuse.test_operations import CONTEXT, answer, look_up  # noqa: E402

BATCH = 100
BATCHES = 100


class Counted:
    """The handlers over a log, with the calls of the kernel that make lines counted: the number of lines of each."""

    def __init__(self, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tree = tree
        self.operations = Operations(
            tree.root(), SlowWork(workers=1, read_timeout=5), invalidate=lambda inode: None
        )
        tree.resolve("orders-0/offset/0")  # loads the log, so that no handler waits
        self._folder = look_up(self.operations, "orders-0/offset")
        self.rendered: list[int] = []
        lines = kernel.lines

        def counted(*args: object, **options: object) -> kernel.LinesResult:
            result = lines(*args, **options)  # type: ignore[arg-type]
            self.rendered.append(result.records)
            return result

        monkeypatch.setattr(kernel, "lines", counted)
        read_line = kernel.read_line

        def counted_alone(*args: object, **options: object) -> tuple[bytes, int] | None:
            self.rendered.append(1)
            return read_line(*args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(kernel, "read_line", counted_alone)

    def read(self, offset: int) -> None:
        """Look up, open, read and release a record's file."""
        operations = self.operations
        entry = answer(operations.lookup(self._folder, b"%d" % offset, CONTEXT))
        size = entry.st_size
        handle = answer(operations.open(entry.st_ino, 0, CONTEXT)).fh
        assert len(answer(operations.read(handle, 0, 4096))) == size
        answer(operations.release(handle))

    def calls(self, offset: int) -> int:
        """Return the number of calls of Python functions that a read takes."""
        return calls_of(lambda: self.read(offset))


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    log = BuiltLog(tmp_path / "data")
    log.segment([text_batch(BATCH * number, BATCH) for number in range(BATCHES)], 0)
    source = open_source(str(log.log_dir))
    yield Counted(Tree(source), monkeypatch)
    source.close()


def test_reads_far_apart_make_one_line_each(counted: Counted) -> None:
    for offset in (9_050, 150, 5_550, 2_250):
        counted.read(offset)
    assert counted.rendered == [1, 1, 1, 1]


def test_reads_in_order_make_each_line_about_once(counted: Counted) -> None:
    for offset in range(1_000, 3_000):
        counted.read(offset)
    assert sum(counted.rendered) <= 2_100
    assert len(counted.rendered) <= 80


def test_a_read_far_from_the_last_one_takes_few_calls(counted: Counted) -> None:
    counted.read(5_000)
    calls = sorted(counted.calls(offset) for offset in (9_050, 150, 5_550, 2_250, 7_777))
    assert 40 <= calls[2] <= 65


def test_a_read_next_to_the_last_one_takes_few_calls(counted: Counted) -> None:
    for offset in range(5_000, 5_005):
        counted.read(offset)
    calls = sorted(counted.calls(offset) for offset in range(5_005, 5_010))
    assert 30 <= calls[2] <= 55


class AtOnce:
    """Stands for the threads that decode ahead."""

    def soon(self, work: Callable[[], object]) -> None:
        work()


def test_a_sequential_reader_costs_one_call_of_the_kernel_for_each_stretch(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_measuring, "CHUNK_TEXT", 60_000)
    monkeypatch.setattr(line_measuring, "GROUP_TEXT", 30_000)
    monkeypatch.setattr(line_stream, "KEPT_TEXT", 0)
    monkeypatch.setattr(line_stream, "_ahead", AtOnce())
    for module in (line_chunks, line_stream):
        monkeypatch.setattr(module, "STRETCH_TEXT", 300_000)
    read: list[int] = []
    read_lines = kernel.read_lines

    def counting(*args: Any, **options: Any) -> memoryview | None:
        text = read_lines(*args, **options)
        read.append(0 if text is None else len(text))
        return text

    monkeypatch.setattr(kernel, "read_lines", counting)
    records = counted.tree.resolve("orders-0/records/00000000000000000000.jsonl")
    assert isinstance(records, File)
    content = records.open()
    counted.rendered.clear()
    assert content.read_now(0, 1) is None
    assert content.read(0, 1)
    request = 100_000
    assert content.read_now(1, request) is None
    assert content.read(1, request)
    starts = range(1 + request, content.size, request)
    calls = [calls_of(lambda at=at: content.read_now(at, request)) for at in starts]  # type: ignore[misc]
    content.close()
    assert len(calls) >= 12
    assert counted.rendered == []
    assert 0 not in read
    assert sum(read) <= 1.1 * content.size
    assert len(read) <= content.size / 300_000 + 6
    assert 8 <= sorted(calls)[len(calls) // 2] <= 40
    assert max(calls) <= 160
