"""The largest timestamp of a part of a log, as st_mtime shows it."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kafkafs.tree.partition import largest_timestamp
from kafkafs.tree.partition.largest_timestamp import newest_timestamp
from tests import builders
from tests.builders import Rec
from tests.kafkafs.built_logs import BuiltLog, tree_over

TIMES = [5, 3, 90, 20, 21, 22, 23, 100, 40, 41]


def written(folder: Path, per_segment: int) -> BuiltLog:
    log = BuiltLog(folder)
    batches = [builders.batch([Rec(b"x" * 50, timestamp=t)], i) for i, t in enumerate(TIMES)]
    for base in range(0, len(batches), per_segment):
        log.segment(batches[base : base + per_segment], base, index_interval=100)
    return log


@pytest.mark.parametrize("per_segment", [1, 3, 10])
@pytest.mark.parametrize("walked", [10**6, 300])
def test_it_is_the_largest_in_the_range(
    tmp_path: Path, per_segment: int, walked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(largest_timestamp, "WALKED", walked)
    log = written(tmp_path / "data", per_segment)
    with tree_over(log.log_dir) as tree:
        view = tree.root().partitions.find("orders-0").view()  # type: ignore[union-attr]
        for start in range(len(TIMES)):
            for end in range(start + 1, len(TIMES) + 1):
                found = newest_timestamp(view, start, end)
                if walked == 10**6 or start == 0:
                    assert found == max(TIMES[start:end])
                assert TIMES[end - 1] <= found <= max(TIMES[start:end])


@given(st.integers(0, 12), st.integers(0, 12))
def test_an_empty_range_has_none(start: int, size: int) -> None:
    class NoLog:
        base_offsets = (0,)
        log_start_offset = 0
        log_end_offset = start

    assert newest_timestamp(NoLog(), start, start + size) == -1  # type: ignore[arg-type]


def test_of_very_many_segments_the_last_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(largest_timestamp, "MOST_SEGMENTS", 2)
    log = written(tmp_path / "data", 1)
    with tree_over(log.log_dir) as tree:
        view = tree.root().partitions.find("orders-0").view()  # type: ignore[union-attr]
        assert newest_timestamp(view, 0, 10) == 41
