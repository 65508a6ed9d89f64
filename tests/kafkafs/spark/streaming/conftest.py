"""A partition to follow, and a source that does not wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log import source_checkpoints
from tests import builders
from tests.builders import Rec
from tests.kafkafs.built_logs import BuiltLog


@pytest.fixture
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is old, and nobody waits; and tasks leave this process its garbage collection."""
    from kafkafs.spark.streaming import followed_logs, stream_reader

    monkeypatch.setattr(stream_reader, "make_ready", lambda: None)
    monkeypatch.setattr(followed_logs, "MAX_AGE", 0)
    monkeypatch.setattr(followed_logs, "PAUSE", 0)
    monkeypatch.setattr(source_checkpoints, "_MAX_AGE", 0)


@pytest.fixture
def orders(tmp_path: Path) -> BuiltLog:
    """Ten records in two batches."""
    log = BuiltLog(tmp_path / "logs")
    log.segment([], 0)
    log.append(*[builders.batch([Rec(b"%d" % (n + i)) for i in range(5)], n) for n in (0, 5)])
    return log
