"""Headers are kept in memory, then in a file, then not; the checks find the same wherever they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.check import log_check
from engine.check.batches import kept_rows
from engine.check.batches.kept_rows import KeptRows, SegmentRows
from engine.check.log_dir_check import CheckOptions, SourceCheck
from engine.check.partition_under_check import SegmentUnderCheck
from engine.check.rules.finding import Finding
from engine.columns.batch_table import BATCH_ROW
from engine.log.log_directory import open_source
from tests import fixtures_data
from tests.engine.check.logs import Clock

ROW = BATCH_ROW.size


def table(first: int, count: int) -> Any:
    rows = np.zeros(count, BATCH_ROW.dtype)
    rows["base_offset"] = np.arange(first, first + count)
    return rows


def offsets(rows: SegmentRows) -> list[int]:
    return [int(offset) for part in rows for offset in part["base_offset"]]


def test_rows_come_back_in_order_from_memory_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "ROWS_PER_CHUNK", 4)
    kept = KeptRows(1 << 20, most=10)
    one, two = kept.segment(), kept.segment()
    for first in (0, 7, 14):
        one.add(table(first, 7))
    two.add(table(100, 9))
    for _ in range(2):
        assert offsets(one) == list(range(21))
        assert offsets(two) == list(range(100, 109))
    assert one.is_whole
    assert two.is_whole
    assert max(len(part) for part in two) == 4
    kept.close()


def test_rows_for_which_there_is_no_room_are_given_up_and_make_room() -> None:
    kept = KeptRows(12 * ROW, most=10)
    large, small = kept.segment(), kept.segment()
    large.add(table(0, 8))
    large.add(table(8, 8))  # to the file
    large.add(table(16, 8))  # nowhere
    large.add(table(24, 1))
    assert not large.is_whole
    small.add(table(50, 10))
    assert small.is_whole
    assert offsets(small) == list(range(50, 60))
    kept.close()


def test_without_a_file_what_is_too_much_is_kept_nowhere() -> None:
    kept = KeptRows(most=5)
    rows = kept.segment()
    rows.add(table(0, 5))
    assert rows.is_whole
    rows.add(table(5, 1))
    assert not rows.is_whole
    kept.close()


def test_a_full_disk_makes_the_rows_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    kept = KeptRows(1 << 20, most=0)
    monkeypatch.setattr(kept_rows.os, "pwrite", full)
    rows = kept.segment()
    rows.add(table(0, 5))
    assert not rows.is_whole
    kept.close()


def _findings(path: Path, row_file_bytes: int) -> list[Finding]:
    options = CheckOptions(clock=Clock(), row_file_bytes=row_file_bytes)
    events = SourceCheck(open_source(str(path)), options).run()
    return [event for event in events if isinstance(event, Finding)]


@pytest.mark.parametrize("kind", fixtures_data.KINDS)
def test_the_findings_are_the_same_wherever_the_rows_are(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fixtures_data.log_dir(kind)
    expected = _findings(path, 0)
    walks: list[object] = []
    walk = SegmentUnderCheck._walk
    monkeypatch.setattr(
        SegmentUnderCheck,
        "_walk",
        lambda self, start, end: walks.append(self) or walk(self, start, end),
    )
    monkeypatch.setattr(log_check, "KeptRows", lambda room: KeptRows(room, most=3))
    assert _findings(path, 1 << 20) == expected
    assert not walks, "rows in the file were read again"
    assert _findings(path, 0) == expected
    assert walks
