"""Suffixes, deletion that follows a renamed folder, and doing all that can be done."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.writing.segment.segment_files import (
    delete_files_if_exist,
    delete_or_fall_back,
    do_all,
    log_path,
    replace_suffix,
)
from tests.conformance.writable_segments import create_segment, v2_records


def test_a_suffix_is_replaced_at_the_end_alone() -> None:
    assert replace_suffix("a.swap/b.swap", ".swap", "") == "a.swap/b"
    assert replace_suffix("b", "", ".deleted") == "b.deleted"
    with pytest.raises(ValueError, match="does not end with"):
        replace_suffix("b.swap.x", ".swap", "")


def test_files_of_one_suffix_are_deleted_and_no_others(tmp_path: Path) -> None:
    for suffix in ("", ".cleaned"):
        Path(log_path(tmp_path, 5, suffix)).touch()
    assert delete_files_if_exist(tmp_path, 5, ".cleaned") == [log_path(tmp_path, 5, ".cleaned")]
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000005.log"]


def test_a_deleted_file_is_found_where_its_future_folder_went(tmp_path: Path) -> None:
    future = tmp_path / "topic-0.0123456789abcdef0123456789abcdef-future"
    future.mkdir()
    segment = create_segment(future, 7)
    segment.append(7, v2_records(7, "a"))
    segment.files.change_suffixes("", ".deleted")
    future.rename(tmp_path / "topic-0")
    segment.files.delete_if_exists()
    assert list((tmp_path / "topic-0").iterdir()) == []


def test_a_file_that_is_not_marked_is_left_where_it_went(tmp_path: Path) -> None:
    (tmp_path / "topic-0").mkdir()
    (tmp_path / "topic-0" / "5.log").touch()
    gone = tmp_path / "topic-0.a-future" / "5.log"
    delete_or_fall_back("log", str(gone), lambda: False)
    assert (tmp_path / "topic-0" / "5.log").exists()


def test_the_first_error_is_raised_after_everything_was_done() -> None:
    done: list[str] = []

    def failing(name: str) -> None:
        done.append(name)
        raise OSError(name)

    actions = [lambda: failing("a"), lambda: done.append("b"), lambda: failing("c")]
    with pytest.raises(OSError, match="a") as caught:
        do_all(actions)
    assert done == ["a", "b", "c"]
    assert caught.value.__notes__ == ["and then: OSError('c')"]
