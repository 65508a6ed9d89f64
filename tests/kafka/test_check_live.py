"""A directory that a real broker writes, rolls, compacts and deletes in gives no false alarm, nor one that it left."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from engine.check.log_check import PartitionSummary
from engine.check.log_dir_check import CheckOptions, SourceCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.log.log_directory import open_source
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED
from tests.kafka.live_writers import Writers
from tests.kafka.test_live import SETTINGS

SECONDS = float(os.environ.get("KAFKAFS_CHECK_LIVE_SECONDS") or 20)


def alarms(log_dir: Path, seen: Counter[str]) -> list[str]:
    """Errors and warnings of one check; what was looked at is counted."""
    source = open_source(str(log_dir))
    found = []
    try:
        for event in SourceCheck(source, CheckOptions(jobs=2)).run():
            if isinstance(event, PartitionSummary):
                seen["live" if event.is_live else "at rest"] += 1
                seen["records"] += event.records
            elif isinstance(event, Finding) and event.severity is not Severity.NOTE:
                found.append(f"{event.rule} {event.file} {event.position}: {event.sentence}")
    finally:
        source.close()
    return found


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 240)
def test_a_live_directory_gives_no_false_alarm(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    with Broker(tmp_path / "broker", settings=SETTINGS) as broker:
        writers = Writers(broker.bootstrap, tmp_path / "state.json", SEED)
        found: list[str] = []
        try:
            writers.start()
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                found += alarms(broker.log_dir, seen)
        finally:
            writers.stop()
        assert not writers.errors
        assert not found, "\n".join(found[:10])
        log_dir = broker.log_dir
    assert seen["live"] > 20
    assert seen["records"] > 1000
    assert alarms(log_dir, seen) == []
    assert seen["at rest"] > 0
