"""Segments that reach beyond the base offset of the next one: a crash leaves them, and a stale block makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import KafkaStorageError
from engine.log.log_directory import open_source
from engine.log.segment.scan import Damage
from engine.log.view.log_view import LogView
from engine.verdict.log_runs import runs
from tests.builders import Rec, batch, segment_files
from tests.engine.log.folders import offsets_of
from tests.swap_states import SHAPES, write_state

SPLIT = SHAPES[3]


def view_of(folder: Path) -> LogView:
    (log,) = open_source(str(folder)).partitions().values()
    return log.view()


@pytest.mark.parametrize("index", ["old", "none"])
def test_a_segment_that_was_split_is_read_to_its_end(tmp_path: Path, index: str) -> None:
    """Kafka loads both; a consumer gets the old segment whole, and goes on behind it."""
    names = [name for name in SPLIT.new if "12." in name]  # of the new segments, one was renamed
    state = {**SPLIT.others, **SPLIT.old, **{name: SPLIT.new[name] for name in names}}
    if index == "none":
        state = {name: data for name, data in state.items() if name.endswith(".log")}
    view = view_of(write_state(tmp_path / "t-0", state))
    assert offsets_of(view) == list(range(30))
    assert [item.found for _, item in view.runs() if isinstance(item, Damage)] == [12]


@pytest.mark.parametrize("interval", [100, 1 << 30])
def test_a_block_of_a_later_segment_at_the_end_of_another_hides_nothing(
    tmp_path: Path, interval: int
) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 100, 200):
        batches = [
            batch([Rec(b"%d" % each * 40, timestamp=each)], each)
            for each in range(base, base + 100)
        ]
        for name, data in segment_files(batches, base, index_interval=interval).items():
            (folder / name).write_bytes(data)
    stale = b"".join(batches[50:60])
    first = folder / f"{0:020}.log"
    first.write_bytes(first.read_bytes() + stale)
    view = view_of(folder)
    assert offsets_of(view) == list(range(300))
    assert all(view.record(offset) is not None for offset in range(300))


def test_a_batch_of_another_log_at_the_end_of_a_segment_that_lost_bytes_hides_nothing(
    tmp_path: Path,
) -> None:
    """The index has entries behind the end of the file, as that of a segment before its compaction."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 100):
        batches = [batch([Rec(b"%d" % each * 40)], each) for each in range(base, base + 100)]
        files = segment_files(batches, base, index_interval=500)
        if not base:
            stranger = batch([Rec(b"of another log")], 5_000)
            files[f"{0:020}.log"] = b"".join([*batches[:20], *batches[70:], stranger])
        for name, data in files.items():
            (folder / name).write_bytes(data)
    view = view_of(folder)
    expected = [*range(20), *range(70, 200)]
    assert offsets_of(view) == expected
    assert [offset for offset in range(200) if found(view, offset)] == expected


def test_the_segment_behind_one_that_reaches_beyond_it_begins_where_that_ends(
    tmp_path: Path,
) -> None:
    names = [name for name in SPLIT.new if "12." in name]
    state = {**SPLIT.others, **SPLIT.old, **{name: SPLIT.new[name] for name in names}}
    view = view_of(write_state(tmp_path / "t-0", state))
    segments = [view.segment_at(place) for place in range(len(view))]
    assert [each.base_offset for each in segments] == [0, 8, 12, 24]
    assert [view.begin_of(each) for each in segments] == [0, 8, 24, 24]
    assert [offset for offset in range(30) if found(view, offset)] == list(range(30))
    for start in range(12):
        assert [each for each in offsets_of(view, start) if each >= start] == list(range(start, 30))


def found(view: LogView, offset: int) -> bool:
    """Whether a look-up has the record."""
    try:
        return view.record(offset) is not None
    except KafkaStorageError:
        return False


def test_a_batch_behind_a_segment_that_reaches_into_it_is_read_whole(tmp_path: Path) -> None:
    """The last batch of the first segment has an unknown codec; a fetch of the offset after it gets the next one."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    last = batch([Rec(b"value")], 10, attributes=7)
    files = {
        0: [batch([Rec(bytes(20_000))] * 5, 0), batch([Rec(b"value")] * 5, 5), last],
        10: [batch([Rec(b"value")] * 4, 10), batch([Rec(b"value")] * 4, 14)],
    }
    for base, batches in files.items():
        for name, data in segment_files(batches, base).items():
            (folder / name).write_bytes(data)
    view = view_of(folder)
    assert [item for _, item in view.runs() if isinstance(item, Damage)] == []
    assert [offset for offset in range(11, 18) if found(view, offset)] == list(range(11, 18))
    assert [item for _, item in runs(view) if isinstance(item, Damage)] == []
