"""Growth by the timestamps of segments, and when a disk is full."""

from __future__ import annotations

from typing import Any, cast

import pytest

from engine.units import MAX_INT64, TopicPartition
from engine.usage.aged_log import AgedLog, ListedSegment
from engine.usage.growth import LogGrowth, full_at, growth
from engine.usage.predictions import predict
from engine.usage.topic_configs import LogRules
from engine.writing.log_config import DAY_MS, LogConfig

NOW = 1_700_000_000_000


def aged(name: str, *segments: tuple[int, int], first: int, modified: int = MAX_INT64) -> AgedLog:
    """A log of segments with (largest timestamp, bytes)."""
    listed = tuple(
        ListedSegment(number, size, largest, False, modified, (), size)
        for number, (largest, size) in enumerate(segments)
    )
    partition = TopicPartition(name, 0)
    return AgedLog(partition, name, name, 0, len(listed), listed, first, None, cast(Any, None))


def test_a_log_that_gets_the_same_each_day_grows_by_that() -> None:
    log = aged("t", *((NOW + day * DAY_MS, 1000) for day in range(1, 31)), first=NOW)
    found = growth([log])
    assert found is not None
    assert found.until - found.since == 7 * DAY_MS
    assert found.a_day == pytest.approx(1000)


def test_a_log_without_records_in_the_period_does_not_grow() -> None:
    old = aged("old", (NOW - 100 * DAY_MS, 10_000), first=NOW - 101 * DAY_MS)
    new = aged("new", (NOW, 700), first=NOW - 7 * DAY_MS)
    found = growth([old, new])
    assert found is not None
    assert found.a_day_of("old") == 0
    assert found.a_day_of("new") == pytest.approx(100)


def test_a_clock_that_is_ahead_counts_as_the_time_of_the_file() -> None:
    log = aged("t", (NOW + 1000 * DAY_MS, 700), first=NOW - 7 * DAY_MS, modified=NOW)
    found = growth([log])
    assert found is not None
    assert (found.until, found.a_day) == (NOW, pytest.approx(100))


def test_records_of_one_moment_have_no_rate() -> None:
    found = growth([aged("t", (NOW, 700), first=NOW)])
    assert found is not None
    assert found.a_day is None
    assert growth([]) is None


def steady(config: LogConfig, days: int = 10) -> tuple[AgedLog, LogGrowth, Any]:
    log = aged(
        "t",
        *((NOW - day * DAY_MS, 1000) for day in reversed(range(days))),
        first=NOW - days * DAY_MS,
    )
    found = growth([log])
    assert found is not None
    return log, found, predict(log, LogRules(config, True, False), NOW)


def test_a_disk_is_full_when_what_comes_in_fills_what_is_free() -> None:
    _, found, said = steady(LogConfig(retention_ms=-1))
    assert full_at(5000, [said], found) == pytest.approx(NOW + 5 * DAY_MS, abs=DAY_MS // 100)
    assert full_at(0, [said], found) == NOW


def test_a_log_that_loses_as_much_as_it_gets_never_fills_a_disk() -> None:
    _, found, said = steady(LogConfig(retention_ms=12 * DAY_MS))
    assert full_at(3500, [said], found) is None
    assert full_at(3500, [said], found, keeps_all=True) is not None
    assert full_at(1500, [said], found) == pytest.approx(NOW + 1.5 * DAY_MS, abs=DAY_MS // 100)


def test_a_bound_of_bytes_stops_the_growth_too() -> None:
    _, found, said = steady(LogConfig(retention_ms=-1, retention_size=12_000))
    assert said.bytes_until_next == 3000
    assert full_at(3500, [said], found) is None
    assert full_at(2500, [said], found) is not None


def test_a_disk_that_nothing_fills_is_never_full() -> None:
    assert full_at(5000, [], LogGrowth(0, DAY_MS, {})) is None
