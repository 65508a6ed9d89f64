"""Requests that a client sends as soon as it has an answer: the thread that sent the answer reads and answers them.

A busy consumer asks for the next records at once. To hand each of its requests from the event loop to a thread and
back costs several times what the look-up costs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic
from typing import Any

import trio

from kafkafs.serve.network.frames import RequestReader
from kafkafs.serve.network.sending import Following, Later, Turn

_TURN_SECONDS = 0.1
"""Time after which the event loop has the connection again, for signals and limits."""
_PAUSE_MS = 50
"""Time in which a request counts as sent at once."""
_PROCESSORS = len(os.sched_getaffinity(0))


def new_turn(
    reader: RequestReader,
    answer: Callable[[bytes, Any], Following[Later] | None],
    threads: trio.CapacityLimiter,
    answered: list[tuple[int, int, bool]],
) -> Turn[Later]:
    """Return a turn of a thread that begins now.

    Args:
        reader: requests of the connection.
        answer: answers a request, which the exchange may have begun; None for one that belongs to the event loop.
        threads: limits the threads; this one waits for requests while half of them are free.
        answered: receives nanoseconds and bytes of each answer that the exchange makes, and whether it is an error.
    """
    end = monotonic() + _TURN_SECONDS

    def following(begun: object) -> Following[Later] | None:
        frame = reader.whole() if begun is not None or monotonic() <= end else None
        if frame is None:
            return None
        found = answer(frame, begun)
        if found is not None:
            reader.drop(frame)
        return found

    busy = threads.borrowed_tokens + 1
    pause_ms = _PAUSE_MS if 2 * busy <= threads.total_tokens else 0
    return Turn(following, answered, end, pause_ms, may_look=busy < _PROCESSORS)
