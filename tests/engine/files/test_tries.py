"""A call that fails as on a failing device is tried again, with a bound, and its error has the path."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SourceGoneError
from engine.files import tries
from engine.files.source_files import SourceRoot
from engine.files.tries import FAILURES, tried, try_again

LIMIT = 64
PATH = "/data/orders-0"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tries, "sleep", lambda _: None)
    FAILURES.forget()
    yield
    FAILURES.forget()


def failing(times: int, number: int = errno.EIO) -> tuple[Callable[[], int], list[int]]:
    calls: list[int] = []

    def call() -> int:
        calls.append(len(calls))
        if len(calls) <= times:
            raise OSError(number, os.strerror(number), 7)
        return 42

    return call, calls


@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_a_fault_that_passes_is_no_error(times: int) -> None:
    assert tried(failing(times)[0], PATH) == 42


def test_one_that_stays_is_an_error_with_the_path_and_not_a_descriptor() -> None:
    call, calls = failing(1 << 30)
    with pytest.raises(OSError, match="Input/output error") as caught:
        tried(call, PATH)
    assert caught.value.filename == PATH
    assert len(calls) == 4


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ESTALE, errno.EMFILE])
def test_errors_of_another_kind_are_not_tried_again(number: int) -> None:
    call, calls = failing(1 << 30, number)
    with pytest.raises(OSError, match=r"\[Errno"):
        tried(call, PATH)
    assert len(calls) == 1


def test_a_source_that_is_gone_stays_so() -> None:
    gone = SourceGoneError(errno.EIO, "the folder is gone", "/data")
    with pytest.raises(SourceGoneError) as caught:
        try_again(gone, lambda: 1, "/data/orders-0")
    assert caught.value.filename == "/data"


def test_a_dead_disk_is_given_up_and_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(LIMIT + 1):
        with pytest.raises(OSError, match="Input/output error"):
            tried(failing(1 << 30)[0], PATH)
    call, calls = failing(1)
    with pytest.raises(OSError, match="Input/output error"):
        tried(call, PATH)
    assert len(calls) == 1
    monkeypatch.setattr(FAILURES, "at", FAILURES.at - 1000.0)
    assert tried(failing(1)[0], PATH) == 42


def failing_twice(call: Callable[..., Any], wanted: Callable[..., bool]) -> Callable[..., Any]:
    left = [2]

    def replaced(*given: Any, **named: Any) -> Any:
        if left[0] and wanted(*given):
            left[0] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), given[0])
        return call(*given, **named)

    return replaced


@pytest.mark.parametrize("name", ["stat", "fstat", "scandir"])
def test_the_calls_of_a_source_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "a.log").write_bytes(b"records")
    with SourceRoot(str(tmp_path)) as root:
        monkeypatch.setattr(os, name, failing_twice(getattr(os, name), lambda *_: True))
        assert [entry.name for entry in root.list("orders-0")] == ["a.log"]
        assert root.stat("orders-0/a.log").st_size == 7
        assert root.stat("orders-0").st_nlink
        with root.open_fresh("orders-0/a.log") as file:
            assert file.size() == 7
            assert file.read_at(0, 10) == b"records"
