"""The cache of decoded text."""

import threading

import pytest

from kafkafs.decode.chunk_cache import ChunkCache


def made(text: bytes):
    return lambda: text


def test_a_chunk_is_made_once_and_kept() -> None:
    cache = ChunkCache(100)
    calls = []
    for _ in range(3):
        assert cache.get("a", lambda: calls.append(1) or b"text") == b"text"
    assert len(calls) == 1
    assert (cache.hits, cache.misses) == (2, 1)


def test_the_least_recently_used_goes_when_the_bytes_are_too_many() -> None:
    cache = ChunkCache(10)
    cache.get("a", made(b"aaaa"))
    cache.get("b", made(b"bbbb"))
    cache.get("a", made(b"never"))
    cache.get("c", made(b"cccc"))
    assert (cache.peek("a"), cache.peek("b"), cache.peek("c")) == (b"aaaa", None, b"cccc")
    assert cache.bytes == 8


def test_a_chunk_larger_than_the_cache_is_handed_over_and_not_kept() -> None:
    cache = ChunkCache(3)
    assert cache.get("a", made(b"long")) == b"long"
    assert len(cache) == cache.bytes == 0


def test_what_fails_is_not_kept_and_raises_for_each() -> None:
    cache = ChunkCache(100)

    def fail() -> bytes:
        raise OSError("no disk")

    for _ in range(2):
        with pytest.raises(OSError, match="no disk"):
            cache.get("a", fail)
    assert cache.get("a", made(b"now")) == b"now"


def test_a_dropped_chunk_is_made_again() -> None:
    cache = ChunkCache(100)
    cache.get("a", made(b"one"))
    cache.drop("a")
    cache.drop("a")
    assert cache.bytes == 0
    assert cache.get("a", made(b"two")) == b"two"


def test_threads_that_want_the_same_chunk_make_it_once() -> None:
    cache = ChunkCache(100)
    start = threading.Barrier(8)
    release = threading.Event()
    calls = []

    def make() -> bytes:
        calls.append(1)
        assert release.wait(10)
        return b"text"

    def work(results: list[bytes]) -> None:
        start.wait(10)
        if len(calls):
            release.set()
        results.append(cache.get("a", make))

    results: list[bytes] = []
    threads = [threading.Thread(target=work, args=(results,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    release.set()
    for thread in threads:
        thread.join(10)
    assert results == [b"text"] * 8
    assert len(calls) == 1


def test_a_thread_that_waited_for_one_that_failed_tries_itself() -> None:
    cache = ChunkCache(100)
    entered, release = threading.Event(), threading.Event()
    errors = []

    def fail() -> bytes:
        entered.set()
        assert release.wait(10)
        raise OSError("first")

    def first() -> None:
        try:
            cache.get("a", fail)
        except OSError as error:
            errors.append(str(error))

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(10)
    waiting = threading.Thread(target=lambda: errors.append(cache.get("a", made(b"second"))))
    waiting.start()
    release.set()
    thread.join(10)
    waiting.join(10)
    assert sorted(errors, key=str) == [b"second", "first"]
