"""engine.index.lazy_index: nothing is opened before the first use, and then once."""

from __future__ import annotations

import threading
import time

import pytest

from engine.index.lazy_index import LazyIndex
from engine.index.offset_index import OffsetIndex


def test_nothing_is_opened_before_the_first_use() -> None:
    opened = []

    def load() -> OffsetIndex:
        opened.append(1)
        return OffsetIndex(b"", 0)

    lazy = LazyIndex(load)
    assert (lazy.is_loaded, opened) == (False, [])
    assert lazy.index is lazy.index
    assert (lazy.is_loaded, opened) == (True, [1])


def test_two_threads_open_it_once() -> None:
    opened = []

    def load() -> OffsetIndex:
        opened.append(1)
        time.sleep(0.02)
        return OffsetIndex(b"", 0)

    lazy = LazyIndex(load)
    found: list[OffsetIndex] = []
    threads = [threading.Thread(target=lambda: found.append(lazy.index)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == [1]
    assert len(set(map(id, found))) == 1


def test_what_fails_is_tried_again() -> None:
    results: list[object] = [FileNotFoundError("not yet"), OffsetIndex(b"", 0)]

    def load() -> OffsetIndex:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        assert isinstance(result, OffsetIndex)
        return result

    lazy = LazyIndex(load)
    with pytest.raises(FileNotFoundError):
        _ = lazy.index
    assert len(lazy.index) == 0


def test_closing_closes_what_was_opened_and_opens_nothing() -> None:
    lazy = LazyIndex(lambda: OffsetIndex(b"", 0))
    index = lazy.index
    lazy.close()
    assert index.is_closed
    never = LazyIndex(lambda: pytest.fail("opened"))
    never.close()
    for each in (lazy, never):
        with pytest.raises(ValueError, match="closed"):
            _ = each.index
