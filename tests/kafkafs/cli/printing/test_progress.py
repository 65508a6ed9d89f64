"""Progress on a terminal, also of a command that has nothing to count."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.cli.printing.terminal.step_progress import StepProgress
from kafkafs.cli.printing.terminal.verbosity import Verbosity


class Bar:
    """Stands in for rich's."""

    def __init__(self, shown: list[str]) -> None:
        self._shown = shown

    def start(self) -> None:
        self._shown.append("start")

    def stop(self) -> None:
        self._shown.append("stop")

    def update(self, task: int, **facts: Any) -> None:
        self._shown.append(facts.get("description", "counted"))

    def add_task(self, verb: str, **_: Any) -> int:
        self._shown.append(verb)
        return 1


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(Progress, "SILENCE", 0.04)
    monkeypatch.setattr(Progress, "_make_bar", lambda self: Bar(found))
    return found


def wait_for(shown: list[str], count: int) -> None:
    for _ in range(500):
        if len(shown) >= count:
            return
        time.sleep(0.01)


def test_a_command_that_counts_nothing_shows_that_it_works(shown: list[str]) -> None:
    with Progress("looking"):
        wait_for(shown, 2)
    assert shown == ["start", "looking", "stop"]


def test_a_command_says_what_it_does_where_no_bytes_are_counted(shown: list[str]) -> None:
    with Progress("checked") as progress:
        wait_for(shown, 2)
        for words in ("snapshots", "snapshots", ""):
            progress.say(words)
    assert shown == ["start", "checked", "checked snapshots", "checked", "stop"]


def test_of_two_lines_only_the_newer_one_is_shown(shown: list[str]) -> None:
    with Progress("outer"), Progress("inner"):
        wait_for(shown, 2)
    assert shown[:3] == ["start", "inner", "stop"]
    assert "outer" not in shown[:3]


def test_nothing_is_shown_when_quiet(shown: list[str]) -> None:
    with Progress("quiet", quiet=True):
        time.sleep(0.1)
    assert not shown


def test_a_rebuild_of_many_partitions_shows_one_line(shown: list[str]) -> None:
    with StepProgress() as progress:
        for _ in range(40):
            progress.advance("read", 1)
            progress.advance("written", 1)
            time.sleep(0.005)
        wait_for(shown, 2)
    assert shown[:2] == ["start", "written"]
    assert shown.count("start") == 1


def test_threads_that_begin_a_step_together_show_one_line(shown: list[str]) -> None:
    with StepProgress() as progress:
        threads = [
            threading.Thread(target=progress.advance, args=("verified", 1)) for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(Progress._alive) == 1
    assert Progress._alive == []


def test_a_quiet_rebuild_shows_nothing_of_its_threads(
    shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Verbosity()
    chosen.is_quiet = True
    monkeypatch.setattr("kafkafs.cli.printing.terminal.step_progress.verbosity", lambda: chosen)
    with StepProgress() as progress:
        thread = threading.Thread(target=progress.advance, args=("verified", 1))
        thread.start()
        thread.join()
        time.sleep(0.1)
    assert not shown
