"""A crash in the middle of a compaction or a split: readers see the log as a broker's start finishes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.files.file_names import log_file_name
from engine.log.log_directory import open_source
from engine.log.log_view import LogView
from tests.engine.log.folders import offsets_of
from tests.plan_answers import planned
from tests.swap_states import (
    SHAPES,
    Shape,
    State,
    all_states,
    some_states,
    states_in_order,
    write_state,
)

NOW = 1_795_000_000_000
CONFIG = {"segment.index.bytes": "4000", "index.interval.bytes": "100"}
by_name = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


def views(log_dir: Path) -> dict[str, LogView]:
    return {name: log.view() for name, log in open_source(str(log_dir)).partitions().items()}


def records_files(view: LogView) -> dict[str, str]:
    """SHA-256 of each segment's records by the name that a start gives it."""
    return {
        log_file_name(segment.base_offset): hashlib.sha256(
            segment.file.read_at(0, segment.file.size())
        ).hexdigest()
        for segment in view.segments_from(0)
    }


def write_all(log_dir: Path, states: Iterable[State]) -> None:
    for number, state in enumerate(states):
        write_state(log_dir / f"t-{number}", state)


def differing(log_dir: Path) -> dict[str, object]:
    """The folders in which readers see other segments than a planned start leaves."""
    plans = planned(log_dir, NOW, CONFIG, clean=False, recovery_points={}, log_starts={})
    found: dict[str, object] = {}
    for name, view in views(log_dir).items():
        plan, files = plans[name]
        wanted = {each: facts[1] for each, facts in files.items() if each.endswith(".log")}
        if plan.reason:
            continue
        if wanted == {log_file_name(0): hashlib.sha256(b"").hexdigest()} and not len(view):
            continue  # a broker makes a first segment
        if records_files(view) != wanted or view.log_end_offset != plan.log_end:
            names = sorted(each.name for each in (log_dir / name).iterdir())
            found[name] = (
                names,
                plan.log_end,
                view.log_end_offset,
                sorted(wanted),
                view.base_offsets,
            )
    return found


@by_name
def test_each_step_shows_all_old_segments_or_all_new_ones(shape: Shape, tmp_path: Path) -> None:
    write_all(tmp_path, (state for state, _ in states_in_order(shape)))
    seen = views(tmp_path)
    for number, (state, is_new) in enumerate(states_in_order(shape)):
        if is_new and not shape.leaves_records:
            continue  # an empty segment replaces no offsets: the comparison below is with a start
        wanted = shape.after if is_new else shape.before
        assert offsets_of(seen[f"t-{number}"]) == wanted, sorted(state)
    assert differing(tmp_path) == {}


@by_name
def test_every_combination_of_names_is_the_log_of_a_planned_start(
    shape: Shape, tmp_path: Path
) -> None:
    write_all(tmp_path / "all", all_states(shape, (".log",)))
    write_all(tmp_path / "some", some_states(shape, 1, 100))
    assert differing(tmp_path / "all") == {}
    assert differing(tmp_path / "some") == {}
