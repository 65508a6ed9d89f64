"""A crash in the middle of a compaction or a split: readers see the log as a broker's start finishes it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from engine.files.file_names import log_file_name
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.log.view import log_follower
from engine.log.view.log_view import LogView
from engine.log.view.proven_end import orphan_indexes
from tests.builders import patched
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
FIRST = log_file_name(0)
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


# One state: all of a compaction's new files are there, and all of the old ones


def in_place(folder: Path, change: Callable[[bytes], bytes] = bytes) -> LogView:
    """The log of a folder in which a compaction is complete but for the names; `change` makes its records."""
    shape = SHAPES[0]
    new = {f"{name}.swap": data for name, data in shape.new.items()}
    new[f"{FIRST}.swap"] = change(new[f"{FIRST}.swap"])
    write_state(folder, {**shape.others, **shape.old, **new})
    return open_source(str(folder)).partitions()[folder.name].view()


def test_what_is_replaced_is_left_over_with_the_reason(tmp_path: Path) -> None:
    view = in_place(tmp_path / "t-0")
    reasons = dict(view.leftovers)
    assert view.listing.replaced == set(reasons)
    assert {name[20:] for name in reasons} == {".log", ".index", ".timeindex", ".snapshot"}
    assert set(reasons.values()) == {f"replaced by {FIRST}.swap: a start deletes it"}
    assert view.listing.producer_snapshots == ()


def test_indexes_of_replaced_segments_prove_no_loss(tmp_path: Path) -> None:
    assert orphan_indexes(in_place(tmp_path / "t-0").listing) == {}


def test_damage_is_told_of_the_file_that_has_it(tmp_path: Path) -> None:
    view = in_place(tmp_path / "t-0", lambda data: patched(data, 100, b"\xff\xff"))
    assert [item for _, item in view.runs() if not isinstance(item, BatchRun)]
    (problem,) = view.problems
    assert problem["file"] == f"{FIRST}.swap"
    assert offsets_of(view) == SHAPES[0].after[1:]


@pytest.mark.parametrize("content", [bytes(500), b"\xff" * 500], ids=["zeros", "noise"])
def test_a_new_segment_without_a_good_batch_replaces_nothing(
    tmp_path: Path, content: bytes
) -> None:
    view = in_place(tmp_path / "t-0", lambda _: content)
    assert offsets_of(view) == SHAPES[0].before
    assert dict(view.leftovers)[f"{FIRST}.swap"] == f"no segment: {FIRST}.swap has no good batch"
    for name in SHAPES[0].old:
        (tmp_path / "t-0" / name).rename(tmp_path / "t-0" / f"{name}.deleted")
    (view,) = views(tmp_path).values()
    assert [segment.name for segment in view.segments_from(0)][:1] == [f"{FIRST}.swap"]


def test_a_snapshot_keeps_what_it_saw(tmp_path: Path) -> None:
    shape = SHAPES[0]
    in_place(tmp_path / "t-0")
    (log,) = open_source(str(tmp_path), snapshot=True).partitions().values()
    for path in list((tmp_path / "t-0").iterdir()):
        if path.suffix == ".swap":
            path.rename(path.with_suffix(""))
        elif path.name in shape.old:
            path.rename(f"{path}.deleted")
    assert offsets_of(log.view()) == shape.after


def test_a_segment_is_read_on_under_its_new_name(tmp_path: Path) -> None:
    view = in_place(tmp_path / "t-0")
    for path in list((tmp_path / "t-0").glob("*.swap")):
        path.rename(path.with_suffix(""))
    assert view.size == view.segment_at(0).size + view.segment_at(1).size
    assert offsets_of(view) == SHAPES[0].after
    assert view.segment_at(0).name == FIRST


def test_a_file_that_was_named_is_shown_as_it_is(tmp_path: Path) -> None:
    in_place(tmp_path / "t-0")
    for name, wanted in ((FIRST, list(range(8))), (f"{FIRST}.swap", SHAPES[0].after[:6])):
        (log,) = open_source(str(tmp_path / "t-0" / name)).partitions().values()
        assert offsets_of(log.view()) == wanted


def test_no_look_is_needed_where_nothing_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follower, "finish_swap", None)
    shape = SHAPES[0]
    write_state(tmp_path / "t-0", {**shape.others, **shape.old, f"{FIRST}.cleaned": b"half"})
    (view,) = views(tmp_path).values()
    assert offsets_of(view) == shape.before
    assert view.listing.swapped == {}
