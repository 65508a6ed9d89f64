"""Ranges of records: which bounds are times, and which ranges end before they begin."""

import pytest

from engine.log.log_bound import LogBound, LogRange


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
    ],
)
def test_a_range_is_backwards_if_two_bounds_of_a_kind_are(start, stop, is_backwards):
    assert LogRange(start, stop).is_backwards == is_backwards


@pytest.mark.parametrize(
    ("start", "stop", "has_times"),
    [
        (None, None, False),
        (at(5), at(6), False),
        (when(0), None, True),
        (None, when(0), True),
        (at(5), when(6), True),
    ],
)
def test_a_range_has_times_if_one_bound_is_a_time(start, stop, has_times):
    assert LogRange(start, stop).has_times == has_times
