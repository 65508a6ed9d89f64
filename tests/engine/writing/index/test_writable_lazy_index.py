"""A lazy index is opened once, and until then its file is moved and removed without it."""

from __future__ import annotations

import threading
import time

import pytest

from engine.writing.index.writable_lazy_index import LazyWritableIndex
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex


@pytest.fixture
def path(tmp_path):
    return tmp_path / "0.index"


def test_the_file_is_made_by_the_first_use(path):
    lazy = LazyWritableIndex(WritableOffsetIndex, path, 7, 80)
    assert not lazy.is_loaded
    assert lazy.path == str(path)
    lazy.close()
    lazy.close_handler()
    assert not path.exists()
    index = lazy.get()
    assert isinstance(index, WritableOffsetIndex)
    assert (index.base_offset, index.length) == (7, 80)
    assert lazy.get() is index
    assert lazy.is_loaded
    lazy.close()
    assert index.is_closed
    assert path.stat().st_size == 0


def test_a_time_index_is_one(path):
    lazy = LazyWritableIndex(WritableTimeIndex, path, 7, 80)
    assert isinstance(lazy.get(), WritableTimeIndex)
    assert lazy.get().length == 72
    lazy.close_handler()
    assert path.stat().st_size == 72


def test_two_threads_open_it_once(path):
    made = []

    class Slow(WritableOffsetIndex):
        def __init__(self, at: str, *how, **options) -> None:
            made.append(at)
            time.sleep(0.02)
            super().__init__(at, *how, **options)

    lazy = LazyWritableIndex(Slow, path, 0, 80)
    found: list[WritableOffsetIndex] = []
    threads = [threading.Thread(target=lambda: found.append(lazy.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [str(path)]
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    lazy.close()


def test_what_fails_is_tried_again(path):
    path.mkdir()
    lazy = LazyWritableIndex(WritableOffsetIndex, path, 0, 80)
    with pytest.raises(IsADirectoryError):
        lazy.get()
    path.rmdir()
    lazy.get().append(1, 1)
    lazy.close()


@pytest.mark.parametrize("is_loaded", [False, True])
def test_the_file_is_renamed_followed_and_removed(path, tmp_path, is_loaded):
    LazyWritableIndex(WritableOffsetIndex, path, 0, 80).get().close()
    lazy = LazyWritableIndex(WritableOffsetIndex, path, 0, 80)
    if is_loaded:
        lazy.get()
    lazy.rename_to(tmp_path / "0.index.deleted")
    assert lazy.path == str(tmp_path / "0.index.deleted")
    assert not path.exists()
    (tmp_path / "folder").mkdir()
    (tmp_path / "0.index.deleted").rename(tmp_path / "folder" / "0.index.deleted")
    lazy.update_parent_dir(tmp_path / "folder")
    assert lazy.path == str(tmp_path / "folder" / "0.index.deleted")
    assert lazy.delete_if_exists()
    assert not lazy.delete_if_exists()
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_file_that_never_was_is_renamed_in_name_only(path, tmp_path):
    lazy = LazyWritableIndex(WritableOffsetIndex, path, 0, 80)
    lazy.rename_to(tmp_path / "other")
    lazy.get()
    assert [each.name for each in tmp_path.iterdir()] == ["other"]
    lazy.close()
