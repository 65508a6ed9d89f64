"""A read without an answer is told with its file and its time, and told again when it was answered."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.files.silent_reads import SilentReads
from engine.files.source_files import SourceRoot


@contextmanager
def hung(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Calls of os.<name> by a thread "reader" wait; yields the event that one of them has begun."""
    begun, go_on = threading.Event(), threading.Event()
    call = getattr(os, name)

    def waits(*given: object, **named: object) -> object:
        if threading.current_thread().name == "reader":
            begun.set()
            go_on.wait(20)
        return call(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, waits)
        try:
            yield begun
        finally:
            go_on.set()


CALLS = {
    "pread": lambda root: root.open_fresh("orders-0/a.log").read_at(0, 3),
    "preadv": lambda root: root.open_fresh("orders-0/a.log").read_into(bytearray(3), 0),
    "fstat": lambda root: root.stat("orders-0/a.log"),
    "scandir": lambda root: root.list("orders-0"),
}
PATHS = {"scandir": "orders-0"}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_without_an_answer_is_told_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "a.log").write_bytes(b"records")
    told: list[tuple[str, str]] = []
    watch = SilentReads(lambda *each: told.append(each), lambda *each: told.append(each), after=5.0)
    path = f"{tmp_path}/{PATHS.get(name, 'orders-0/a.log')}"
    with SourceRoot(str(tmp_path)) as root:
        reader = threading.Thread(target=CALLS[name], args=(root,), name="reader")
        with hung(name, monkeypatch) as begun:
            reader.start()
            assert begun.wait(20)
            # The stand-in's own wait is the innermost frame; the module of the call is one above.
            monkeypatch.setattr("engine.files.silent_reads._READERS", _AnyModule())
            for now in (100.0, 104.0, 105.0, 106.0, 111.0):
                watch.look(now)
            assert told == [(path, "no answer for 5 s"), (path, "no answer for 11 s")]
        reader.join()
        watch.look(112.0)
    assert told[2:] == [(path, "answers again after 12 s")]


class _AnyModule:
    def __contains__(self, _: object) -> bool:
        return True


def test_a_thread_that_works_on_something_else_is_not_told() -> None:
    told: list[tuple[str, str]] = []
    watch = SilentReads(lambda *each: told.append(each), lambda *each: told.append(each))
    for now in (100.0, 200.0):
        watch.look(now)
    assert told == []
