"""Deadlines come once, in order, and only if they were not put off or cancelled."""

from __future__ import annotations

from collections.abc import Callable

import trio
import trio.lowlevel
import trio.testing

from kafkafs.serve.coordinator.timers import Timers


def happened(
    plan: Callable[[Timers, Callable[[str], Callable[[], None]]], None], seconds: float = 100
) -> list[tuple[str, float]]:
    """What happens by the deadlines that a plan sets, with the times."""
    found: list[tuple[str, float]] = []

    async def main() -> None:
        timers, start = Timers(), trio.current_time()

        def note(name: str) -> Callable[[], None]:
            return lambda: found.append((name, trio.current_time() - start))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(timers.run)
            await trio.lowlevel.checkpoint()
            plan(timers, note)
            await trio.sleep(seconds)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return found


def test_deadlines_come_in_order():
    def plan(timers, note):
        timers.schedule("late", 5, note("late"))
        timers.schedule("early", 2, note("early"))

    assert happened(plan) == [("early", 2.0), ("late", 5.0)]


def test_a_deadline_that_is_put_off_comes_once():
    def plan(timers, note):
        timers.schedule("a", 2, note("first"))
        timers.schedule("a", 7, note("second"))

    assert happened(plan) == [("second", 7.0)]


def test_a_deadline_that_is_brought_forward_comes_once():
    def plan(timers, note):
        timers.schedule("a", 7, note("first"))
        timers.schedule("a", 2, note("second"))

    assert happened(plan) == [("second", 2.0)]


def test_a_cancelled_deadline_never_comes():
    def plan(timers, note):
        timers.schedule("a", 2, note("a"))
        timers.cancel("a")
        timers.cancel("unknown")

    assert happened(plan) == []


def test_an_action_that_fails_stops_no_other(caplog):
    def plan(timers, note):
        timers.schedule("bad", 1, lambda: 1 // 0)
        timers.schedule("good", 2, note("good"))

    assert happened(plan) == [("good", 2.0)]
    assert "the deadline bad: integer division or modulo by zero" in caplog.text


def test_an_action_can_set_the_next_deadline():
    def plan(timers, note):
        def again() -> None:
            note("first")()
            timers.schedule("a", 3, note("second"))

        timers.schedule("a", 2, again)

    assert happened(plan) == [("first", 2.0), ("second", 5.0)]


def test_deadlines_that_are_put_off_for_ever_take_no_memory():
    async def main() -> None:
        timers = Timers()
        for number in range(100_000):
            timers.schedule("a", 1000 - number / 1000, lambda: None)
        assert len(timers) == 1
        assert len(timers._heap) < 1000

    trio.run(main, clock=trio.testing.MockClock())
