"""One batch or one record by its offset, straight from the file; by both kernels."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from engine.budgets import DEFAULT_BUDGETS
from engine.coding.compression import CompressionType
from engine.columns.columns import Columns
from engine.kernel import compiled
from engine.lines.record_line import LineOptions
from tests import builders
from tests.builders import Rec
from tests.engine.kernel.kernels import KERNELS, OPTIONS, each_kernel, facts, table_of

CODECS = (CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD, CompressionType.GZIP)
END = 1 << 40


class File:
    """A records file of some batches."""

    def __init__(self, path: Path, batches: Sequence[bytes]) -> None:
        path.write_bytes(b"".join(batches))
        self.fd = os.open(path, os.O_RDWR)
        self.size = path.stat().st_size

    def write(self, data: bytes, position: int) -> None:
        os.pwrite(self.fd, data, position)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def records_of(size: int, count: int) -> list[Rec]:
    return [
        Rec(
            b"%d:" % n * (size // 3),
            key=None if n % 3 == 0 else b"key%d" % n,
            timestamp=1_700_000_000_000 + n,
            headers=[(b"h", None), (b"i", b"%d" % n)] if n % 2 else [],
        )
        for n in range(count)
    ]


def everything(batches: Sequence[bytes]) -> dict[int, tuple[object, ...]]:
    """What the Python decoder says is in the batches, by offset."""
    data = b"".join(batches)
    table = table_of(data)
    columns = KERNELS["python"].decode(data, table, 0, len(table), start_position=0)
    return {fact[0]: fact for fact in facts(columns)}


def check_all(kernel: ModuleType, file: File, batches: Sequence[bytes], start: int = 0) -> None:
    for offset, fact in everything(batches).items():
        found = kernel.read_record(file.fd, start, file.size, offset)
        assert found is not None
        assert facts(found) == [fact]
        assert found.next_row == 1
        assert not found.problems


@each_kernel
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("size", "count"), [(3, 2), (40, 60), (900, 120)])
def test_each_record_is_read_alone_whatever_the_size_of_its_batch(
    kernel: ModuleType, path: Path, codec: CompressionType, size: int, count: int
) -> None:
    records = records_of(size, count)
    batches = [builders.batch(records, base, codec) for base in range(0, 6 * count, count)]
    check_all(kernel, File(path, batches), batches)


@each_kernel
@pytest.mark.parametrize("magic", [0, 1])
def test_a_legacy_message_is_read_alone(kernel: ModuleType, path: Path, magic: int) -> None:
    batches = [builders.message(n, b"k%d" % n, b"v" * n * 99, magic=magic) for n in range(40)]
    check_all(kernel, File(path, batches), batches)


@each_kernel
def test_a_record_keeps_nothing_but_its_own_bytes(kernel: ModuleType, path: Path) -> None:
    file = File(path, [builders.batch(records_of(90, 50))])
    found = kernel.read_record(file.fd, 0, file.size, 31)
    assert found.key_start[0] == 0
    assert bytes(found.arena).startswith(b"key31")
    assert len(found.arena) < 120
    assert not found.table.flags.writeable


@each_kernel
def test_the_batch_comes_with_its_row_and_place(kernel: ModuleType, path: Path) -> None:
    sizes = (10, 5000, 700, 70_000, 20_000, 1)
    batches = [builders.batch([Rec(b"x" * size)] * 3, 10 * n) for n, size in enumerate(sizes)]
    file, at = File(path, batches), 0
    for n, data in enumerate(batches):
        for offset in range(10 * n, 10 * n + 3):
            found, position, row = kernel.read_batch(file.fd, 0, file.size, offset)
            assert (found, position) == (data, at)
            assert row == table_of(data, start_position=at).tobytes()
        at += len(data)


@each_kernel
def test_a_wrapper_is_given_as_a_batch_but_no_record_of_it(kernel: ModuleType, path: Path) -> None:
    data = builders.message_set(records_of(40, 5), 10, CompressionType.GZIP)
    file = File(path, [data])
    assert kernel.read_batch(file.fd, 0, file.size, 11)[0] == data
    assert kernel.read_record(file.fd, 0, file.size, 11) is None


@each_kernel
def test_a_gap_holds_no_batch_and_no_record(kernel: ModuleType, path: Path) -> None:
    records = [Rec(b"a", offset=0), Rec(b"b", offset=4)]
    file = File(path, [builders.batch(records, 0), builders.batch(builders.values("c"), 10)])
    assert kernel.read_record(file.fd, 0, file.size, 4) is not None
    assert kernel.read_batch(file.fd, 0, file.size, 2) is not None
    for offset in (2, 7):
        assert kernel.read_record(file.fd, 0, file.size, offset) is None
    for offset in (7, 11):
        assert kernel.read_batch(file.fd, 0, file.size, offset) is None


MOST = 1 << 22


@each_kernel
@pytest.mark.parametrize("codec", CODECS)
def test_a_line_is_made_of_one_record_as_of_its_whole_batch(
    kernel: ModuleType, path: Path, codec: CompressionType
) -> None:
    batches = [builders.batch(records_of(40, 9), base, codec) for base in range(0, 54, 9)]
    batches.append(builders.message(54, b"k", b"v", magic=1))
    data = b"".join(batches)
    table = table_of(data)
    whole = KERNELS["python"].lines(data, table, 0, len(table), start_position=0, options=OPTIONS)
    lines = whole.text.splitlines(keepends=True)
    file = File(path, batches)
    for offset, line in enumerate(lines):
        found = kernel.read_line(file.fd, 0, file.size, offset, OPTIONS, most=MOST)
        assert found == (line, json.loads(line)["timestamp"])
    assert offset == 54


@each_kernel
def test_a_line_that_needs_more_than_its_batch_is_left_to_the_caller(
    kernel: ModuleType, path: Path
) -> None:
    producer = builders.Producer(id=7, epoch=0, sequence=0)
    file = File(
        path,
        [
            builders.batch([Rec(b"b")], 0),
            builders.batch([Rec(b"a")], 1, producer=producer, transactional=True),
            builders.control_batch(1, b"\0" * 6, 2, producer=producer, transactional=True),
            builders.batch([Rec(b"x" * 5000)], 3),
            builders.batch([Rec(b"x" * 5000)], 4, CompressionType.ZSTD),
        ],
    )
    ask = partial(kernel.read_line, file.fd, 0, file.size)
    assert [ask(offset, OPTIONS, most=4000) for offset in range(1, 6)] == [None] * 5
    assert ask(0, OPTIONS, most=4000) is not None
    assert ask(0, replace(OPTIONS, from_offset=1), most=4000) is None
    internal = LineOptions("__consumer_offsets", 0)
    assert ask(0, internal, most=4000) is None
    assert ask(0, replace(internal, values="text"), most=4000) is not None


def all_reads(kernel: ModuleType, file: File, end: int, offset: int) -> list[object]:
    found = [read(file.fd, 0, end, offset) for read in (kernel.read_batch, kernel.read_record)]
    return [*found, kernel.read_line(file.fd, 0, end, offset, OPTIONS, most=MOST)]


@each_kernel
@pytest.mark.parametrize("size", [30, 3000, 90_000])
def test_damage_is_never_taken_for_a_batch(kernel: ModuleType, path: Path, size: int) -> None:
    first, second = (builders.batch([Rec(b"x" * size)], n) for n in range(2))
    for place in (8, 16, 17, 21, 30, len(second) - 1):
        file = File(path, [first, second])
        assert None not in all_reads(kernel, file, file.size, 1)
        at = len(first) + place
        file.write(bytes([os.pread(file.fd, 1, at)[0] ^ 0x40]), at)
        assert all_reads(kernel, file, file.size, 1) == [None] * 3
        assert None not in all_reads(kernel, file, file.size, 0)


@each_kernel
@pytest.mark.parametrize("size", [30, 3000, 90_000])
def test_a_batch_that_ends_behind_the_end_is_not_there(
    kernel: ModuleType, path: Path, size: int
) -> None:
    file = File(path, [builders.batch([Rec(b"x" * size)])])
    for end in (0, 20, 70, file.size - 1):
        assert all_reads(kernel, file, end, 0) == [None] * 3
    os.ftruncate(file.fd, file.size - 1)  # shorter than the end that is known
    assert all_reads(kernel, file, file.size, 0) == [None] * 3
    os.close(file.fd)
    assert all_reads(kernel, file, file.size, 0) == [None] * 3


@each_kernel
def test_a_broken_record_costs_only_those_behind_it(kernel: ModuleType, path: Path) -> None:
    section = bytearray(builders.records_section(builders.values("a", "b", "c"), 0, 0))
    section[2 * len(section) // 3] = 0x7F  # the third record's size
    batch = builders.batch(builders.values("a", "b", "c"), section=bytes(section))
    file = File(path, [batch])
    found = [kernel.read_record(file.fd, 0, file.size, offset) for offset in range(3)]
    assert [columns and columns.value(0) for columns in found] == [b"a", b"b", None]


@each_kernel
@pytest.mark.parametrize("count", [-1, 0, 2**31 - 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_stated_count_is_not_believed(
    kernel: ModuleType, path: Path, count: int, codec: CompressionType
) -> None:
    file = File(path, [builders.batch(builders.values("a", "b"), codec=codec, record_count=count)])
    found = kernel.read_record(file.fd, 0, file.size, 1)
    assert (found is not None) == (count > 0)


@each_kernel
def test_budgets_bound_what_is_read(kernel: ModuleType, path: Path) -> None:
    file = File(path, [builders.batch(records_of(40, 60), codec=CompressionType.ZSTD)])

    def is_found(offset: int, **budgets: int) -> bool:
        given_budgets = replace(DEFAULT_BUDGETS, **budgets)
        found = kernel.read_record(file.fd, 0, file.size, offset, budgets=given_budgets)
        return found is not None

    assert is_found(41)
    assert not is_found(41, batch_bytes=file.size - 1)
    for read in (kernel.read_batch, kernel.read_record):
        assert read(file.fd, 0, file.size, 41, largest=file.size) is not None
        assert read(file.fd, 0, file.size, 41, largest=file.size - 1) is None
    assert not is_found(41, records_per_batch=41)
    assert is_found(40, records_per_batch=41)
    assert not is_found(41, headers_per_record=1)
    assert not is_found(41, inflated_bytes=200)


def test_without_libraries_the_compiled_kernel_inflates_in_python(path: Path) -> None:
    batches = [builders.batch(records_of(40, 20), codec=codec) for codec in CODECS]
    for batch in batches:
        file = File(path, [batch])
        compiled.use_libraries(False)
        try:
            check_all(compiled, file, [batch])
        finally:
            compiled.use_libraries(True)


def shown(found: Columns | None) -> object:
    return found and (found.table.tobytes(), bytes(found.arena), found.next_row)


@given(
    place=st.integers(0, 200),
    new=st.binary(min_size=1, max_size=4),
    codec=st.sampled_from(CODECS),
    offset=st.integers(-1, 9),
    magic=st.integers(0, 2),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_both_kernels_read_the_same_of_anything(
    path: Path, place: int, new: bytes, codec: CompressionType, offset: int, magic: int
) -> None:
    if magic < 2 and codec is CompressionType.ZSTD:
        codec = CompressionType.NONE
    records = records_of(9, 4)
    data = builders.any_batch(records, 0, codec, magic=magic)
    if magic == 2 or codec is not CompressionType.NONE:  # else there are several
        broken = builders.patched(data, place % len(data), new)[: len(data)]
        data = builders.resealed(broken) if broken[16] < 3 else broken
    file = File(path, [data, builders.any_batch(records, 4, codec, magic=magic)])
    try:
        of_both = [all_reads(kernel, file, file.size, offset) for kernel in KERNELS.values()]
    finally:
        os.close(file.fd)
    (batch, record, line), (batch_in_python, record_in_python, line_in_python) = of_both
    assert line == line_in_python
    assert shown(record) == shown(record_in_python)  # type: ignore[arg-type]
    assert (batch is None) == (batch_in_python is None)
    if batch is not None and batch_in_python is not None:
        assert batch[:2] == batch_in_python[:2]  # type: ignore[index]
        np.testing.assert_array_equal(batch[2], batch_in_python[2])  # type: ignore[index]


@each_kernel
def test_an_overlong_length_is_not_reserved(kernel: ModuleType, path: Path) -> None:
    data = builders.batch(builders.values("a"))
    file = File(path, [builders.patched(data, 8, struct.pack(">i", 2**31 - 13))])
    assert all_reads(kernel, file, file.size, 0) == [None] * 3
    assert all_reads(kernel, file, END, 0) == [None] * 3
