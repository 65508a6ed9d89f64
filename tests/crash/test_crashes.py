"""A sample of the crash states: all of it is in tests/crash/soak.py."""

from __future__ import annotations

import pytest

from engine.broker.log.local_log import LocalLog
from engine.writing.index.writable_index import WritableIndex
from engine.writing.segment.writable_file_records import WritableFileRecords
from tests.crash.scenarios import SCENARIOS
from tests.crash.soak import soak


@pytest.mark.parametrize("name", [*SCENARIOS, "walk"])
def test_faults_141_142_no_crash_loses_what_was_flushed_or_leaves_less_than_it_shows(
    name: str,
) -> None:
    failures = soak(11, 40, only=name, say=False)
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(
    ("owner", "method"),
    [(WritableFileRecords, "flush"), (LocalLog, "_sync_folder"), (WritableIndex, "flush")],
)
def test_a_sync_that_is_left_out_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    monkeypatch.setattr(owner, method, lambda _: None)
    names = ("append_flush_roll", "truncate", "clean_close")
    assert any(soak(12, 60, only=name, say=False) for name in names)
