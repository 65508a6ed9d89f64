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
from kafkafs.serve.network.sending import Following, Later

_TURN_SECONDS = 0.1
"""Time after which the event loop has the connection again, for signals and limits."""
_PAUSE_MS = 5
"""Time in which a request counts as sent at once."""
_MOST = 64 * 1024
"""Bytes of the largest request that is read here."""
_READ = 4096
"""Bytes that most requests do not reach."""


class FollowingRequests(Generic[Later]):
    """The requests of one turn of a thread.

    Args:
        reader: requests of the connection.
        answer: answers a request; None for one that belongs to the event loop.
        may_pause: whether the thread may wait for a request, because others can have threads.
    """

    def __init__(
        self,
        reader: RequestReader,
        answer: Callable[[bytes], Following[Later] | None],
        *,
        may_pause: bool,
    ) -> None:
        self._reader = reader
        self._answer = answer
        self._pause = _PAUSE_MS if may_pause else 0
        self._input: select.poll | None = None
        self._end = monotonic() + _TURN_SECONDS

    def __call__(self, connection: socket.socket) -> Following[Later] | None:
        """Return what follows the next request; None if the event loop has to go on with it."""
        reader = self._reader
        if monotonic() > self._end:
            return None
        while (frame := reader.whole()) is None:
            if reader.size > _MOST:
                return None
            # A client needs a moment for its next request: to wait for the bytes costs less than to find none.
            if not self._input_of(connection).poll(self._pause):
                return None
            data = connection.recv(_READ)
            if not data:
                return None
            reader.add(data)
        found = self._answer(frame)
        if found is not None:
            reader.drop(frame)
        return found

    def _input_of(self, connection: socket.socket) -> select.poll:
        if self._input is None:
            self._input = select.poll()
            self._input.register(connection.fileno(), select.POLLIN)
        return self._input
