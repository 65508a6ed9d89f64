"""A search for a key returns the newest record although segments are replaced and deleted under it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.kernel import LineOptions
from engine.log.log_directory import open_source
from engine.log.view.log_view import LogView
from kafkafs.decode.searching.key_search import KeySearch
from kafkafs.decode.searching.live_key_search import LiveKeySearch
from kafkafs.decode.searching.search import Match
from kafkafs.records.conditions.wanted_keys import KeyOfBytes
from tests.builders import Rec, batch
from tests.kafkafs.built_logs import BuiltLog

Change = Callable[[BuiltLog], None]


def record(key: bytes, offset: int) -> bytes:
    return batch([Rec(b"v", key=key)], offset)


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    """Segments 0, 2 and 4, with k at 0 and 2, and x at the other offsets."""
    built = BuiltLog(tmp_path)
    for base in (0, 2, 4):
        key = b"x" if base == 4 else b"k"
        built.segment([record(key, base), record(b"x", base + 1)], base)
    return built


def search_with(log: BuiltLog, *changes: Change) -> LiveKeySearch:
    """A search whose views the log leaves behind: each is followed by a change."""
    left = list(changes)
    view_of = open_source(str(log.log_dir)).partitions()["orders-0"]

    def make(view: LogView) -> KeySearch:
        options = LineOptions("orders", 0, to_offset=view.log_end_offset)
        if left:
            left.pop(0)(log)
        return KeySearch(view, KeyOfBytes(b"k"), options)

    return LiveKeySearch(view_of, make)


def merge(log: BuiltLog) -> None:
    """Compact segments 0 and 2 into 0: offset 0 is gone, and the file of segment 2."""
    log.compact(0, record(b"k", 2), record(b"x", 3))
    (log.folder / f"{2:020}.log").unlink()


def delete_old_segments(log: BuiltLog) -> None:
    """Delete all but the newest segment, as retention does."""
    for path in sorted(log.folder.glob("*.log"))[:-1]:
        path.unlink()


def test_a_segment_that_was_merged_into_another_is_found_there(log: BuiltLog) -> None:
    search = search_with(log, merge)
    found = search.newest()
    assert (found.offset, found.places) == (2, 0)
    assert search.at_newest(found, KeySearch.value) == (found, (b"v",))


def test_a_key_whose_segments_were_deleted_is_gone(log: BuiltLog) -> None:
    assert search_with(log, delete_old_segments).newest().offset is None


def test_a_record_that_was_compacted_after_it_was_found_gives_way_to_the_newest(
    log: BuiltLog,
) -> None:
    search = search_with(log)

    def read(now: KeySearch, offset: int) -> bytes | None:
        if offset == 2:
            merge(log)
            log.compact(0, record(b"k", 1))
            return None
        line = now.line(offset)
        return None if line is None else b"".join(each.text for each in line)

    findings, line = search.at_newest(search.newest(), read)
    assert findings.offset == 1
    assert line is not None
    assert b'"offset":1,' in line


def test_a_history_goes_on_in_the_new_segments_without_a_record_twice(log: BuiltLog) -> None:
    search = search_with(log)
    offsets = []
    for item in search.lines():
        if isinstance(item, Match):
            offsets.append(int(item.text.split(b'"offset":')[1].split(b",")[0]))
            if len(offsets) == 1:
                merge(log)
    assert offsets == [0, 2]
