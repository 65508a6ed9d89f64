"""Adding many entries at once is adding them one by one, with one write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import InvalidOffsetError, OffsetOverflowError, StateError
from engine.units import MAX_INT32
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex

PAIRS = [(101, 0), (105, 300), (110, 9000), (MAX_INT32 + 100, MAX_INT32)]


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


@pytest.mark.parametrize("split", range(5))
def test_offset_entries_at_once_are_entries_one_by_one(tmp_path: Path, split: int) -> None:
    with (
        WritableOffsetIndex(tmp_path / "one", 100, 32) as one,
        WritableOffsetIndex(tmp_path / "many", 100, 32) as many,
    ):
        for pair in PAIRS:
            one.append(*pair)
        many.extend(*columns(PAIRS[:split]))
        many.extend(*columns(PAIRS[split:]))
        assert list(many) == list(one)
        assert many.last_entry == one.last_entry
        assert many.is_full
    assert (tmp_path / "many").read_bytes() == (tmp_path / "one").read_bytes()


@pytest.mark.parametrize("split", range(4))
def test_time_entries_at_once_are_entries_one_by_one(tmp_path: Path, split: int) -> None:
    pairs = [(5, 101), (7, 101), (9, 300), (9, 300)]
    with (
        WritableTimeIndex(tmp_path / "one", 100, 60) as one,
        WritableTimeIndex(tmp_path / "many", 100, 60) as many,
    ):
        for pair in pairs:
            one.maybe_append(*pair)
        many.extend(*columns(pairs[:split]))
        many.extend(*columns(pairs[split:3]))
        many.extend(*columns(pairs[3:]))
        assert list(many) == list(one)
        assert many.last_entry == one.last_entry
    assert (tmp_path / "many").read_bytes() == (tmp_path / "one").read_bytes()


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([(111, 0), (112, 1), (113, 2), (114, 3)], ValueError),
        ([(112, 0), (112, 1)], InvalidOffsetError),
        ([(110, 0)], InvalidOffsetError),
        ([(111, -1)], ValueError),
        ([(111, 1), (112, MAX_INT32 + 1)], ValueError),
        ([(111, 1), (101 + MAX_INT32, 2)], OffsetOverflowError),
    ],
)
def test_refused_offset_entries_change_nothing(
    tmp_path: Path, pairs: list[tuple[int, int]], error: type[Exception]
) -> None:
    with WritableOffsetIndex(tmp_path / "index", 100, 32) as index:
        index.append(110, 5)
        with pytest.raises(error):
            index.extend(*columns(pairs))
        assert list(index) == [(110, 5)]


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([(6, 110), (7, 110), (8, 110)], ValueError),
        ([(6, 109)], InvalidOffsetError),
        ([(6, 112), (7, 111)], InvalidOffsetError),
        ([(7, 111), (6, 112)], StateError),
        ([(6, 101 + MAX_INT32)], OffsetOverflowError),
    ],
)
def test_refused_time_entries_change_nothing(
    tmp_path: Path, pairs: list[tuple[int, int]], error: type[Exception]
) -> None:
    with WritableTimeIndex(tmp_path / "index", 100, 48) as index:
        index.maybe_append(5, 110)
        with pytest.raises(error):
            index.extend(*columns(pairs))
        assert list(index) == [(5, 110)]
