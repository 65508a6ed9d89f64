"""The codes of ListOffsets, judged by what a real broker answered."""

from __future__ import annotations

import pytest

from engine.log.log_directory import open_source
from engine.log.view.listed_offset import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    listed_offset,
)
from tests.fixtures_data import WITH_TRUTH, log_dir, truth_offsets, truth_partitions, truth_records

PARTITIONS = [(kind, name) for kind in WITH_TRUTH for name in truth_partitions(kind)]


@pytest.mark.parametrize(("kind", "name"), PARTITIONS)
def test_the_ends_and_times_of_a_log_are_those_of_the_real_broker(kind, name):
    view = open_source(str(log_dir(kind))).partitions()[name].view()
    known = truth_offsets(kind)[name]

    def answer(time: int, *, committed: bool = False) -> int | None:
        found = listed_offset(view, time, committed=committed)
        return None if found is None else found.offset

    assert answer(EARLIEST_TIMESTAMP) == answer(EARLIEST_LOCAL_TIMESTAMP) == known["earliest"]
    assert answer(LATEST_TIMESTAMP) == known["latest"]
    assert answer(LATEST_TIMESTAMP, committed=True) == known["latest_committed"]
    assert answer(LATEST_TIERED_TIMESTAMP) is None
    assert answer(EARLIEST_PENDING_UPLOAD_TIMESTAMP) is None
    for stamp, offset in known.get("for_times", {}).items():
        assert answer(int(stamp)) == (None if offset == -1 else offset), stamp


def test_the_record_with_the_largest_timestamp_is_not_told_above_the_last_stable_offset():
    view = open_source(str(log_dir("current"))).partitions()["open-txn-0"].view()
    newest = max(truth_records("current", "open-txn-0"), key=lambda each: each.timestamp)
    assert newest.offset >= view.last_stable_offset
    found = listed_offset(view, MAX_TIMESTAMP, committed=False)
    assert found is not None
    assert (found.offset, found.timestamp) == (newest.offset, newest.timestamp)
    assert listed_offset(view, MAX_TIMESTAMP, committed=True) is None
