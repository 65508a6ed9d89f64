"""Directories that real brokers left, stopped cleanly and killed, load in our engine as in Kafka's own loader."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.files.file_names import parse_folder_name
from tests import fixtures_data as data
from tests.kafka.judge import Judge
from tests.log_scripts import Answer, load

NOW = 1_795_000_000_000
"""After all records, and before their producers expire."""
CASES = [
    (kind, name, clean)
    for kind in data.KINDS
    for name in data.partitions(kind)
    for clean in (True, False)
    if not name.endswith("-delete")
]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as running:
        yield running


def checkpointed(kind: str, name: str, file: str) -> int:
    found = parse_offset_checkpoint((data.log_dir(kind) / file).read_bytes())
    return found.get(parse_folder_name(name).topic_partition, 0)


def head_of(kind: str, name: str, *, clean: bool) -> Answer:
    return {
        "clean": clean,
        "log_start": checkpointed(kind, name, "log-start-offset-checkpoint"),
        "recovery_point": checkpointed(kind, name, "recovery-point-offset-checkpoint"),
        "config": {},
        "now_ms": newest_timestamp(kind, name) + 1000,
    }


def newest_timestamp(kind: str, name: str) -> int:
    """So that no producer has expired."""
    if kind == "crashed" or name not in data.truth_partitions(kind):
        return NOW
    return max((record.timestamp for record in data.truth_records(kind, name)), default=NOW)


@pytest.mark.parametrize(("kind", "name", "clean"), CASES)
def test_a_brokers_log_loads_alike(
    judge: Judge, tmp_path: Path, kind: str, name: str, clean: bool
) -> None:
    head = head_of(kind, name, clean=clean)
    first_segment = min(int(path.stem) for path in (data.log_dir(kind) / name).glob("*.log"))
    start = max(head["log_start"], first_segment)
    answers: list[Any] = []
    for by, loading in (("ours", load), ("kafka", judge.load)):
        folder = tmp_path / by / name
        shutil.copytree(data.log_dir(kind) / name, folder)
        reads = [(start, "LOG_END"), (start, "TXN_COMMITTED")]
        answers.append(json.loads(json.dumps(loading(folder, head, reads))))
    ours, kafkas = answers
    assert ours["state"] == kafkas["state"]
    assert ours["files"] == kafkas["files"]
    assert ours["reads"] == kafkas["reads"]
