"""Ranges of records: which bounds are times, and which ranges end before they begin."""

from pathlib import Path

import pytest

from engine.log.view.log_bound import LogBound, LogRange
from tests.builders import Rec
from tests.engine.log.folders import LogWriter


def at(offset: int) -> LogBound:
    return LogBound(offset=offset)


def when(timestamp: int) -> LogBound:
    return LogBound(timestamp=timestamp)


@pytest.mark.parametrize(
    ("start", "stop", "is_backwards"),
    [
        (None, None, False),
        (at(5), None, False),
        (None, at(5), False),
        (at(5), at(5), False),
        (at(5), at(6), False),
        (at(5), at(4), True),
        (at(0), at(-1), True),
        (when(5), when(5), False),
        (when(5), when(4), True),
        (at(5), when(4), False),
        (when(5), at(4), False),
        (LogBound(before_end=5), LogBound(before_end=6), True),
        (LogBound(before_end=6), LogBound(before_end=5), False),
    ],
)
def test_a_range_is_backwards_if_two_bounds_of_a_kind_are(start, stop, is_backwards):
    assert LogRange(start, stop).is_backwards == is_backwards


@pytest.mark.parametrize(
    ("start", "stop", "needs_log"),
    [
        (None, None, False),
        (at(5), at(6), False),
        (when(0), None, True),
        (None, when(0), True),
        (at(5), when(6), True),
        (LogBound(before_end=3), None, True),
    ],
)
def test_a_range_needs_the_log_for_a_time_and_for_a_distance_from_the_end(start, stop, needs_log):
    assert LogRange(start, stop).needs_log == needs_log


def test_an_offset_is_the_same_in_each_log_and_no_bound_is_its_start(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for number in range(4):
        writer.append_records(Rec(b"v", timestamp=1_000 * number))
    view = writer.view()
    assert at(3).offset_in(view) == 3
    assert [LogBound(before_end=each).offset_in(view) for each in (0, 1, 4, 9)] == [4, 3, 0, 0]
    assert LogBound().offset_in(view) == 0
    assert when(1_500).offset_in(view) == 2
    assert when(9_000).offset_in(view) == 4
    assert LogRange(at(1), when(2_500)).offsets_in(view, 0, 4) == (1, 3)
    assert LogRange(at(1), when(2_500)).offsets_in(view, 2, 3) == (2, 3)
    assert LogRange(at(3), at(2)).offsets_in(view, 0, 4) == (3, 3)
    assert LogRange().offsets_in(view, 1, 3) == (1, 3)
