"""A writable segment: its sanity check, and the limits at which a log rolls."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import CorruptIndexError
from engine.index.transaction_index import AbortedTxn
from engine.units import MAX_INT64
from engine.writing.segment.rolling import RollParams
from engine.writing.segment.writable_segment import WritableSegment
from tests.clocks import MockClock
from tests.conformance.writable_segments import create_segment, v2_records

FIRST_TIMESTAMP = 1000
LIMIT_MS = 5000


@pytest.mark.parametrize(("last_offset", "is_sane"), [(98, False), (99, False), (100, True)])
def test_no_aborted_transaction_ends_below_the_base_offset(
    tmp_path: Path, last_offset: int, is_sane: bool
) -> None:
    with create_segment(tmp_path, 100) as segment:
        segment.offset_index.flush()
        segment.txn_index.append(AbortedTxn(0, 1, 90, last_offset, 101))
        if is_sane:
            segment.sanity_check(False)
        else:
            with pytest.raises(CorruptIndexError, match="below the segment's base offset"):
                segment.sanity_check(False)


def test_a_segment_without_an_offset_index_is_not_sane(tmp_path: Path) -> None:
    with (
        create_segment(tmp_path, 100) as segment,
        pytest.raises(FileNotFoundError, match="no offset index"),
    ):
        segment.sanity_check(False)


def hundred_at(folder: Path, clock: MockClock) -> WritableSegment:
    segment = create_segment(folder, 100, clock=clock)
    segment.append(100, v2_records(100, "value"))
    assert segment.largest_timestamp == FIRST_TIMESTAMP
    return segment


def params(**limits: int) -> RollParams:
    """Limits that nothing reaches, but those that are given."""
    usual = RollParams(MAX_INT64, MAX_INT64, FIRST_TIMESTAMP, 101, 0, 0)
    return usual._replace(**limits)


@pytest.mark.parametrize("jitter", [0, 100])
@pytest.mark.parametrize(("later", "rolls"), [(-1, False), (0, False), (1, True)])
def test_a_log_rolls_a_millisecond_after_the_limit(
    tmp_path: Path, jitter: int, later: int, rolls: bool
) -> None:
    with hundred_at(tmp_path, MockClock()) as segment:
        segment.roll_jitter_ms = jitter
        newest = FIRST_TIMESTAMP + LIMIT_MS - jitter + later
        assert segment.should_roll(params(max_segment_ms=LIMIT_MS, max_timestamp=newest)) == rolls


@pytest.mark.parametrize(("more", "rolls"), [(-1, False), (0, False), (1, True)])
def test_a_log_rolls_a_byte_after_the_limit(tmp_path: Path, more: int, rolls: bool) -> None:
    with hundred_at(tmp_path, MockClock()) as segment:
        full = params(max_segment_size=segment.size + 50, messages_size=50 + more)
        assert segment.should_roll(full) == rolls


def test_an_empty_segment_is_never_too_old(tmp_path: Path) -> None:
    clock = MockClock()
    with create_segment(tmp_path, 100, clock=clock) as segment:
        clock.sleep(2 * LIMIT_MS)
        assert not segment.should_roll(params(max_segment_ms=LIMIT_MS, now=clock.ms))
