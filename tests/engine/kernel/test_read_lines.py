"""Lines straight from a file: the same as of the bytes, and none at all for anything unusual."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from engine.budgets import DEFAULT_BUDGETS
from engine.coding.compression import CompressionType
from engine.lines.record_line import LineOptions
from engine.record.fate import Fate
from tests import builders
from tests.builders import Producer, Rec
from tests.engine.kernel.kernels import KERNELS, OPTIONS, each_kernel, table_of

P7 = Producer(id=7, epoch=0, sequence=0)
BATCHES = [
    builders.batch([Rec(b"one", b"k"), Rec(None)], 10, CompressionType.NONE),
    builders.batch([Rec(b"x" * 3000)] * 30, 12, CompressionType.LZ4),
    builders.batch([Rec(b"two")], 42, CompressionType.NONE, producer=P7, transactional=True),
    builders.end_marker(43, P7, commit=True),
]
DATA = b"".join(BATCHES)
FATES = np.array([Fate.NONE, Fate.NONE, Fate.COMMITTED, Fate.COMMITTED], np.uint8)


@pytest.fixture
def file() -> Iterator[int]:
    fd = os.memfd_create("log")
    os.write(fd, b"before" + DATA)
    yield fd
    os.close(fd)


def text_of(data: bytes, options: LineOptions = OPTIONS, **more: Any) -> bytes:
    table = table_of(data)
    result = KERNELS["python"].lines(
        data, table, 0, len(table), start_position=0, options=options, **more
    )
    assert isinstance(result.text, bytes)
    return result.text


def read(kernel: ModuleType, fd: int, size: int, **changed: Any) -> bytes | None:
    asked: dict[str, Any] = {"options": OPTIONS, "fates": FATES} | changed
    start = asked.pop("start", 6)
    end = asked.pop("end", 6 + len(DATA))
    rows = asked.pop("rows", len(BATCHES))
    found = kernel.read_lines(fd, start, end, rows, size, **asked)
    return None if found is None else bytes(found)


@each_kernel
def test_the_lines_are_those_of_the_bytes(kernel: ModuleType, file: int) -> None:
    for options in (OPTIONS, dataclasses.replace(OPTIONS, committed=True, from_offset=11)):
        text = text_of(DATA, options, fates=FATES)
        assert text.count(b"\n") >= 30
        assert read(kernel, file, len(text), options=options) == text
    assert read(kernel, file, len(text_of(DATA))) is None  # without the fates
    assert read(kernel, file, len(text_of(DATA)), fates=None) == text_of(DATA)


@each_kernel
def test_a_result_stays_when_its_memory_could_be_used_again(kernel: ModuleType, file: int) -> None:
    size = len(text_of(DATA, fates=FATES))
    kept = [
        kernel.read_lines(file, 6, 6 + len(DATA), 4, size, options=OPTIONS, fates=FATES)
        for _ in range(9)
    ]
    assert {bytes(text) for text in kept} == {text_of(DATA, fates=FATES)}
    assert all(text.readonly for text in kept)


@each_kernel
def test_anything_else_than_was_measured_gives_nothing(kernel: ModuleType, file: int) -> None:
    size = len(text_of(DATA, fates=FATES))
    end = 6 + len(DATA)
    decoder = LineOptions("__consumer_offsets", 0)
    tight = dataclasses.replace(DEFAULT_BUDGETS, inflated_bytes=1000)
    small = dataclasses.replace(DEFAULT_BUDGETS, batch_bytes=100)
    assert read(kernel, file, size) is not None
    for change in (
        {"rows": 3}, {"rows": 5}, {"start": 5}, {"end": end - 1}, {"end": end + 1}, {"end": 5},
        {"least_offset": 11}, {"most": 2000}, {"budgets": tight}, {"budgets": small},
        {"options": decoder},
    ):  # fmt: skip
        assert read(kernel, file, size, **change) is None, change
    assert read(kernel, file, size - 1) is None
    assert read(kernel, file, size + 1) is None
    assert read(kernel, file, size, least_offset=10) is not None
    assert read(kernel, -1, size) is None


@each_kernel
@pytest.mark.parametrize("place", [61 + 5, 21, 8])
def test_damage_gives_nothing(kernel: ModuleType, file: int, place: int) -> None:
    size = len(text_of(DATA, fates=FATES))
    os.pwrite(file, bytes([DATA[place] ^ 1]), 6 + place)
    assert read(kernel, file, size) is None


@each_kernel
def test_batches_that_are_out_of_order_or_have_impossible_offsets_give_nothing(
    kernel: ModuleType,
) -> None:
    again = builders.batch([Rec(b"again")], 11)
    below = builders.batch([Rec(b"below")], -5)
    for data, rows in ((BATCHES[0] + again, 2), (below, 1)):
        fd = os.memfd_create("log")
        os.write(fd, data)
        size = len(text_of(data))
        assert kernel.read_lines(fd, 0, len(data), rows, size, options=OPTIONS) is None
        os.close(fd)
