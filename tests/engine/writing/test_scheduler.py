"""A deferred scheduler runs due tasks at once and the others on demand; threads run tasks when they are due."""

from __future__ import annotations

import logging
import threading

import pytest

from engine.writing.scheduler import DeferredScheduler, ThreadScheduler

SECONDS = 20
NEVER = 3_600_000


def test_a_task_without_a_delay_runs_at_once() -> None:
    ran: list[str] = []
    DeferredScheduler().schedule("now", lambda: ran.append("now"))
    assert ran == ["now"]


def test_delayed_tasks_run_when_asked_for_in_the_order_of_their_scheduling() -> None:
    scheduler, ran = DeferredScheduler(), list[str]()
    scheduler.schedule("late", lambda: ran.append("late"), 1000)
    scheduler.schedule("soon", lambda: ran.append("soon"), 1)
    assert ran == []
    scheduler.run()
    assert ran == ["late", "soon"]
    scheduler.run()
    assert ran == ["late", "soon"], "each task runs once"


def test_tasks_that_a_task_schedules_run_too() -> None:
    scheduler, ran = DeferredScheduler(), list[str]()

    def first() -> None:
        ran.append("first")
        scheduler.schedule("second", lambda: ran.append("second"), 5)
        scheduler.schedule("at once", lambda: ran.append("at once"))

    scheduler.schedule("first", first, 5)
    scheduler.run()
    assert ran == ["first", "at once", "second"]


def test_a_cancelled_task_does_not_run() -> None:
    scheduler, ran = DeferredScheduler(), list[str]()
    scheduler.schedule("kept", lambda: ran.append("kept"), 5)
    scheduler.schedule("cancelled", lambda: ran.append("cancelled"), 5).cancel()
    scheduler.run()
    assert ran == ["kept"]


@pytest.mark.parametrize("delay_ms", [0, 5])
def test_a_periodic_task_never_runs(delay_ms: int) -> None:
    scheduler, ran = DeferredScheduler(), list[str]()
    scheduler.schedule("again", lambda: ran.append("again"), delay_ms, 10)
    scheduler.run()
    assert ran == []


def test_an_error_of_a_task_reaches_the_caller_and_the_other_tasks_stay() -> None:
    scheduler, ran = DeferredScheduler(), list[str]()

    def failing() -> None:
        raise OSError("failed")

    scheduler.schedule("failing", failing, 5)
    scheduler.schedule("kept", lambda: ran.append("kept"), 5)
    with pytest.raises(OSError, match="failed"):
        scheduler.run()
    scheduler.run()
    assert ran == ["kept"]
    with pytest.raises(OSError, match="failed"):
        scheduler.schedule("failing at once", failing)


def test_threads_run_tasks_after_their_delay_the_earliest_first() -> None:
    ran: list[str] = []
    done = threading.Event()
    with ThreadScheduler() as scheduler:
        scheduler.schedule("last", done.set, 40)
        scheduler.schedule("second", lambda: ran.append("second"), 20)
        scheduler.schedule("first", lambda: ran.append("first"))
        assert done.wait(SECONDS)
    assert ran == ["first", "second"]


def test_a_periodic_task_that_raises_is_logged_and_runs_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs: list[int] = []
    again = threading.Event()

    def task() -> None:
        runs.append(1)
        if len(runs) > 1:
            again.set()
        raise ValueError("no reason")

    with caplog.at_level(logging.ERROR), ThreadScheduler() as scheduler:
        handle = scheduler.schedule("failing", task, 0, 1)
        assert again.wait(SECONDS)
        handle.cancel()
    assert "the task failing failed" in caplog.text


def test_a_scheduler_that_is_shut_down_runs_nothing() -> None:
    ran: list[str] = []
    scheduler = ThreadScheduler()
    scheduler.schedule("dropped", lambda: ran.append("dropped"), NEVER)
    scheduler.shutdown()
    assert scheduler.schedule("late", lambda: ran.append("late")).is_cancelled
    assert ran == []
