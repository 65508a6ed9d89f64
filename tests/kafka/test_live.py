"""A directory stays readable, and right, while a real broker appends, rolls, compacts and deletes in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED
from tests.kafka.live_reader import ROLES
from tests.kafka.live_writers import Writers
from tests.kafka.mounted import ROOT, Mounted

SECONDS = float(os.environ.get("KAFKAFS_LIVE_SECONDS") or 60)
VISIBLE_WITHIN = float(os.environ.get("KAFKAFS_LIVE_VISIBLE_WITHIN") or 1)
"""Seconds; more where readers, broker and daemon wait for a processor."""
SETTINGS = {"log.retention.check.interval.ms": 500, "log.cleaner.backoff.ms": 200}


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 240)
def test_eight_readers_of_a_live_directory_see_only_what_is_right(tmp_path):
    with Broker(tmp_path / "broker", settings=SETTINGS) as broker:
        state = tmp_path / "state.json"
        writers = Writers(broker.bootstrap, state, SEED)
        try:
            with Mounted(broker.log_dir, tmp_path / "mount") as mounted:
                writers.start()
                readers = start_readers(mounted.path, state)
                delays = visible_after(mounted.path, writers, time.monotonic() + SECONDS)
                found = [result_of(reader) for reader in readers]
                assert mounted.is_alive(), mounted.said()
        finally:
            writers.stop()
        assert not writers.errors
        left = offsets_left(broker.bootstrap)
    assert_that_much_happened(left, broker.log_dir)
    failures = [failure for result in found for failure in result["failures"]]
    assert not failures, "\n".join(failures[:10])
    assert all(result["reads"] for result in found), found
    missing = {(name, offset) for result in found for name, offset in result["missing"]}
    assert not missing & left, "records that exist were not shown"
    print(f"reads {sum(result['reads'] for result in found)}, visible after {summary(delays)}")
    assert delays, "no record was watched"
    assert max(delays) <= VISIBLE_WITHIN, summary(delays)


def assert_that_much_happened(left: set[tuple[str, int]], log_dir: Path) -> None:
    """The broker rolled, deleted, trimmed and compacted meanwhile: else the test would prove nothing."""
    offsets: dict[str, list[int]] = defaultdict(list)
    for name, offset in left:
        offsets[name].append(offset)
    assert min(offsets["short-0"]) > 0
    assert min(offsets["trimmed-0"]) > 0
    assert len(offsets["compacted-0"]) < max(offsets["compacted-0"])
    assert len(list((log_dir / "steady-0").glob("*.log"))) > 2


def start_readers(root: Path, state: Path) -> list[subprocess.Popen[str]]:
    """One process for each role."""
    command = [sys.executable, "-m", "tests.kafka.live_reader", str(root)]
    return [
        subprocess.Popen(
            [*command, str(role), str(SEED + role), str(SECONDS), str(state)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for role in range(len(ROLES))
    ]


def result_of(reader: subprocess.Popen[str]) -> dict[str, Any]:
    """What it found."""
    output, _ = reader.communicate(timeout=SECONDS + 120)
    assert reader.returncode == 0, output
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def visible_after(root: Path, writers: Writers, until: float) -> list[float]:
    """Seconds from a record's acknowledgement until its path is there, for one record after another."""
    delays = []
    while time.monotonic() < until and not writers.errors:
        writers.fresh.clear()
        time.sleep(0.2)
        watched = [told for told in list(writers.fresh) if told[1].startswith(("steady", "txn"))]
        if not watched:
            continue
        told, partition, offset = watched[-1]
        path = root / partition / "offset" / str(offset)
        while not path.exists() and time.monotonic() - told < 10 * VISIBLE_WITHIN:
            time.sleep(0.005)
        delays.append(time.monotonic() - told)
    return delays


def summary(delays: list[float]) -> str:
    """The middle and the worst."""
    ordered = sorted(delays)
    return f"{ordered[len(ordered) // 2] * 1000:.0f} ms, at most {ordered[-1] * 1000:.0f} ms"


def offsets_left(bootstrap: str) -> set[tuple[str, int]]:
    """What the broker still has at the end: it was there all the time."""
    with clients.Reader(bootstrap) as reader:
        return {
            (f"{topic}-{partition}", record.offset)
            for topic, partition in clients.partitions_of(bootstrap)
            if not topic.startswith(("__", "passing"))
            for record in reader.records(topic, partition)
        }
