"""Requests that a client sends as soon as it has an answer: the thread that sent the answer reads and answers them.

A busy consumer asks for the next records at once. To hand each of its requests from the event loop to a thread and
back costs several times what the look-up costs.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from time import monotonic
from typing import Generic

from kafkafs.serve.network.frames import RequestReader
from kafkafs.serve.network.sending import Following, Later, is_ready

_TURN_SECONDS = 0.1
"""Time after which the event loop has the connection again, for signals and limits."""
_PAUSE_MS = 5
"""Time in which a request counts as sent at once."""
_MOST = 64 * 1024
"""Bytes of the largest request that is read here."""


class FollowingRequests(Generic[Later]):
    """The requests of one turn of a thread.

    Args:
        reader: requests of the connection.
        answer: answers a request; None for one that belongs to the event loop.
        may_pause: whether the thread may wait for a request, because nobody waits for a thread.
    """

    def __init__(
        self,
        reader: RequestReader,
        answer: Callable[[bytes], Following[Later] | None],
        may_pause: Callable[[], bool],
    ) -> None:
        self._reader = reader
        self._answer = answer
        self._may_pause = may_pause
        self._end = monotonic() + _TURN_SECONDS

    def __call__(self, connection: socket.socket) -> Following[Later] | None:
        """Return what follows the next request; None if the event loop has to go on with it."""
        reader = self._reader
        while (frame := reader.whole()) is None:
            if reader.size > _MOST:
                return None
            try:
                data = connection.recv(_MOST)
            except BlockingIOError:
                if monotonic() > self._end or not self._may_pause():
                    return None
                if not is_ready(connection, select.POLLIN, _PAUSE_MS):
                    return None
                continue
            if not data:
                return None
            reader.add(data)
        if monotonic() > self._end:
            return None
        found = self._answer(frame)
        if found is not None:
            reader.drop(frame)
        return found
