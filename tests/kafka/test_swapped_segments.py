"""Crashes in the middle of a compaction or a split: readers see the segments, and the end, that Kafka's LogManager loads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import pytest

from engine.log.log_directory import open_source
from engine.log.view.log_view import LogView
from tests.engine.log.folders import offsets_of
from tests.engine.log.test_finished_swap import CONFIG, NOW, records_files
from tests.kafka.conftest import SEED
from tests.kafka.load_judge import LoadJudge
from tests.kafka.test_planned_loads import offsets_in
from tests.swap_states import SHAPES, Shape, all_states, some_states, states_in_order, write_state

EACH = int(os.environ.get("KAFKAFS_SWAP_STATES") or 60)
"""Random combinations of each shape; a long run has thousands."""
_PER_DIR = 100


@pytest.fixture(scope="module")
def judge() -> Iterator[LoadJudge]:
    with LoadJudge() as running:
        yield running


def consumed(offsets: list[int]) -> list[int]:
    """What a consumer gets of records in file order: behind a record it asks for larger offsets only."""
    highest = accumulate(offsets, max, initial=-1)
    return [offset for offset, before in zip(offsets, highest, strict=False) if offset > before]


def differences(view: LogView, answer: dict[str, Any], loaded: Path) -> list[str]:
    files = {name: facts[1] for name, facts in answer["files"].items() if name.endswith(".log")}
    pairs: list[tuple[str, Any, Any]] = [
        ("log start", view.log_start_offset, answer["log_start"]),
        ("log end", view.log_end_offset, answer["log_end"]),
        ("offsets", offsets_of(view), consumed(offsets_in(loaded, answer["log_start"]) or [])),
    ]
    if len(view):  # else Kafka makes a first segment
        pairs.append(("segments", records_files(view), files))
    return [
        f"{what}: {ours} shown, {kafkas} in Kafka" for what, ours, kafkas in pairs if ours != kafkas
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_readers_see_what_kafka_loads(judge: LoadJudge, tmp_path: Path, shape: Shape) -> None:
    states = list(
        chain(
            (state for state, _ in states_in_order(shape)),
            all_states(shape, (".log",)),
            some_states(shape, SEED, EACH),
        )
    )
    wrong: dict[str, object] = {}
    for first in range(0, len(states), _PER_DIR):
        log_dir, copy = tmp_path / "data", tmp_path / "kafka"
        for number, state in enumerate(states[first : first + _PER_DIR]):
            write_state(log_dir / f"t-{number}", state)
        shutil.copytree(log_dir, copy)
        answer = judge.load_dir(copy, NOW, CONFIG, clean=False)
        with_source = open_source(str(log_dir))
        for name, log in with_source.partitions().items():
            found = answer["folders"][name]
            assert "error" not in found, found
            if problem := differences(log.view(), found, copy / name):
                wrong[f"{first} {name}"] = problem, sorted(os.listdir(log_dir / name))
        with_source.close()
        shutil.rmtree(log_dir)
        shutil.rmtree(copy)
    assert not wrong
    print(f"{shape.name}: {len(states)} states")
