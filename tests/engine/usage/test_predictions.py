"""A prediction of retention is what our own broker's log, which Kafka's tests judge, deletes at each moment."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.log.log_directory import open_source
from engine.record.encoding.building import records_of
from engine.usage.aged_log import AgedLog
from engine.usage.predictions import Prediction, predict
from engine.usage.topic_configs import LogRules
from engine.writing.log_config import LogConfig
from tests.conformance.unified_log_steps import LogBench, rec

DAY_MS = 86_400_000


def random_config(rng: random.Random) -> LogConfig:
    return LogConfig(
        segment_size=rng.choice([170, 300, 100_000]),
        retention_ms=rng.choice([-1, 0, 1000, 5000, 50_000]),
        retention_size=rng.choice([-1, -1, 0, 150, 300, 500]),
        delete=rng.random() < 0.85,
        segment_ms=DAY_MS * 1000,
    )


def filled(bench: LogBench, config: LogConfig, rng: random.Random) -> UnifiedLog:
    """A log of records with times before and after now, or without a time."""
    log = bench.open(config)
    for _ in range(rng.randrange(1, 9)):
        time = -1 if rng.random() < 0.2 else bench.now + rng.randrange(-20_000, 5_000)
        log.append_as_leader(records_of(rec("x" * rng.randrange(90), time)), 0)
    if rng.random() < 0.2:
        log.roll()
    log.update_high_watermark(log.log_end_offset)
    if rng.random() < 0.3:
        log.maybe_increment_log_start_offset(rng.randrange(log.log_end_offset + 1), "asked")
    return log


def predicted(home: Path, config: LogConfig, log_start: int, now: int) -> Prediction:
    (home / "meta.properties").write_text("version=1\n")
    (home / "log-start-offset-checkpoint").write_text(f"0\n1\ntopic 0 {log_start}\n")
    source = open_source([str(home)])
    try:
        aged = AgedLog.of(source.partitions()["topic-0"])
        assert aged is not None
        return predict(aged, LogRules(config, True, False), now)
    finally:
        source.close()


@pytest.mark.parametrize("seed", range(60))
def test_what_goes_now_and_later_is_what_a_broker_deletes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    bench = LogBench(tmp_path)
    bench.clock.sleep(10 * DAY_MS)
    config = random_config(rng)
    log = filled(bench, config, rng)
    for path in bench.folder.glob("*.log"):  # files have the clock of the machine
        os.utime(path, ns=(0, bench.now * 1_000_000))
    said = predicted(tmp_path, config, log.log_start_offset, bench.now)
    bases = [segment.base_offset for segment in log.segments]
    assert log.delete_old_segments() == len(said.due)
    assert [each.segment.base_offset for each in said.departures] == bases[: len(said.departures)]
    for name in (name for each in said.due for name in each.segment.files):
        assert not (bench.folder / name).exists() or said.rolls
    for each in said.later:
        if config.retention_size >= 0:
            break  # later, sizes have changed
        if each.at - 1 > bench.now:
            bench.clock.sleep(each.at - 1 - bench.now)
            left = [segment.base_offset for segment in log.segments]
            log.delete_old_segments()
            assert each.segment.base_offset in [one.base_offset for one in log.segments], left
        bench.clock.sleep(max(each.at - bench.now, 0))
        log.delete_old_segments()
        assert each.segment.base_offset not in [one.base_offset for one in log.segments]
