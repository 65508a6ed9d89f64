"""Periods of transactional records with old timestamps, through the kernel."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import builders
from tests.builders import Producer, Rec
from tests.kafkafs.built_logs import DAY_MS, BuiltLog
from tests.mount.mounted import needs_fuse
from tests.mount.test_log_dirs import MountedLogs

pytestmark = [pytest.mark.mount, needs_fuse]

OLD = 19_675 * DAY_MS  # 2023-11-14


def offsets(path: Path) -> list[int]:
    return [json.loads(line)["offset"] for line in path.read_text().splitlines()]


def test_a_day_of_replayed_records_is_read_copied_and_searched(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    batches = []
    for day in range(3):
        producer = Producer(id=7, epoch=0, sequence=2 * day)
        records = [Rec(b"day %d" % day, None, OLD + day * DAY_MS + i) for i in range(2)]
        batches.append(builders.batch(records, 3 * day, producer=producer, transactional=True))
        now = OLD + 400 * DAY_MS
        batches.append(builders.end_marker(3 * day + 2, producer, commit=True, timestamp=now))
    log.segment(batches, 0)
    (tmp_path / "mount").mkdir()
    mounted = MountedLogs(tmp_path / "mount", log.log_dir)
    try:
        day = mounted.path / "orders-0/time/2023-11-15"
        assert sorted(each.name for each in day.parent.iterdir()) == [
            "2023-11-14", "2023-11-15", "2023-11-16", "README.txt", "earliest", "latest",
        ]  # fmt: skip
        assert offsets(day / "records.jsonl") == [3, 4, 5]
        assert offsets(day / "exact.jsonl") == [3, 4]
        assert (day / "exact.jsonl").stat().st_size == len((day / "exact.jsonl").read_bytes())
        assert sorted(each.name for each in day.iterdir()) == ["00", "README.txt"]
        assert offsets(day / "00" / "00" / "records.jsonl") == [3, 4, 5]
        copy = tmp_path / "copy"
        subprocess.run(["cp", "-r", mounted.path / "time/2023-11-15", copy], check=True)
        slices = copy / "orders-0/00000000000000000003.log"
        assert slices.read_bytes() == batches[2] + batches[3]
        assert offsets(mounted.path / "orders-0/time/2024/exact.jsonl") == [2, 5, 8]
    finally:
        mounted.stop()
