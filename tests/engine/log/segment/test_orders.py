"""Batches out of place: decided once, exactly in a small file, quickly in any."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

from engine.budgets import DEFAULT_BUDGETS
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.segment import orders
from engine.log.segment.ordered_scan import scan_in_order
from engine.log.segment.orders import known_order, order_of
from engine.log.segment.resync import OffsetBounds
from engine.log.segment.scan import BatchRun
from tests.builders import Rec, batch


def ten(base: int) -> bytes:
    """A batch of ten records."""
    return batch([Rec(b"%04d" % (base + number)) for number in range(10)], base)


def source_file(path: Path) -> SourceFile:
    """The file, opened as one of a source."""
    with SourceRoot(str(path.parent)) as root:
        return root.open(path.name)


def offsets_of(path: Path, bounds: OffsetBounds, start: int = 0) -> list[int]:
    """Base offsets that a reader gets."""
    file = source_file(path)
    return [
        base
        for item in scan_in_order(file, start, file.size(), bounds=bounds)
        if isinstance(item, BatchRun)
        for base in item.table["base_offset"].tolist()
    ]


def test_a_scan_of_a_part_leaves_out_what_a_scan_of_all_does(tmp_path: Path) -> None:
    """A contradiction may be behind the part, or before it."""
    path = tmp_path / "log"
    bounds = OffsetBounds(0, 1000)
    path.write_bytes(b"".join(map(ten, [0, 10, 500, 510, 20, 30, 40, 50])))
    assert offsets_of(path, bounds, 2 * len(ten(0))) == [20, 30, 40, 50]
    assert offsets_of(path, bounds) == [0, 10, 20, 30, 40, 50]


@pytest.mark.parametrize("whole_file", [0, orders.WHOLE_FILE])
def test_batches_of_another_segment_bound_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_file: int
) -> None:
    monkeypatch.setattr(orders, "WHOLE_FILE", whole_file)
    path = tmp_path / "log"
    path.write_bytes(b"".join(map(ten, [100, 110, 200, 210, 120, 130, 0, 140])))
    assert offsets_of(path, OffsetBounds(100, 200)) == [100, 110, 120, 130, 140]


def test_a_decision_goes_on_where_the_file_grows_and_is_made_anew_where_it_changes(
    tmp_path: Path,
) -> None:
    path, bounds = tmp_path / "log", OffsetBounds(0)
    path.write_bytes(b"".join(map(ten, [0, 10, 500, 20, 30])))
    file = source_file(path)
    first = order_of(file, 0, bounds, DEFAULT_BUDGETS)
    assert (first.next_offset, first.is_misplaced(2 * len(ten(0)))) == (40, True)
    assert order_of(file, 0, bounds, DEFAULT_BUDGETS) is first
    with path.open("ab") as out:
        out.write(ten(40))
    grown = known_order(file, bounds, DEFAULT_BUDGETS)
    assert grown is not None
    assert (grown.next_offset, grown.is_misplaced(2 * len(ten(0)))) == (50, True)
    data = b"".join(map(ten, [0, 10, 20, 30, 40, 50]))
    path.write_bytes(data)
    os.utime(path)
    changed = known_order(file, bounds, DEFAULT_BUDGETS)
    assert changed is not None
    assert changed.is_sound
    assert changed.next_offset == 60


def test_in_a_large_file_no_batch_is_given_twice_or_out_of_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first scan decides while it reads; the next one has the whole chain."""
    monkeypatch.setattr(orders, "WHOLE_FILE", 0)
    random = Random(7)
    for number in range(30):
        bases = list(range(0, 4000, 10))
        low, high = sorted(random.sample(range(400), 2))
        to = random.randrange(400)
        block = bases[low : min(high, low + 60)]
        bases[to:to] = block
        path = tmp_path / f"{number}"
        path.write_bytes(b"".join(map(ten, bases)))
        for _ in range(2):
            given = offsets_of(path, OffsetBounds(0, 4000))
            assert given == sorted(set(given))
        assert len(given) >= 400 - len(block)


@pytest.mark.parametrize("count", [10_000, 60_000])
def test_descending_batches_take_about_as_long_as_others(tmp_path: Path, count: int) -> None:
    """In a file that is decided first, and in a larger one."""
    one = batch([Rec(b"v")])
    data = {
        way: b"".join(base.to_bytes(8, "big") + one[8:] for base in bases)
        for way, bases in (("up", range(count)), ("down", range(count, 0, -1)))
    }
    took = {}
    for way, content in data.items():
        (tmp_path / way).write_bytes(content)
        begun = time.process_time()
        given = offsets_of(tmp_path / way, OffsetBounds(0))
        took[way] = time.process_time() - begun
        assert len(given) == (count if way == "up" else 1)
    assert took["down"] < 10 * took["up"] + 1
