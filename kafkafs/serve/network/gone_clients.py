"""Ends the making of answers for clients that are gone: a Fetch or a member of a group may wait for long."""

from __future__ import annotations

import socket
from collections.abc import Awaitable
from typing import TypeVar

import trio

WATCH_SECONDS = 1.0
"""Time between two looks at the connections whose answers are waited for."""
_ENDED_STATES = (7, 8)
"""TCP's states in Linux in which a client sends no more: CLOSE and CLOSE_WAIT."""

Found = TypeVar("Found")
SocketType = trio.socket.SocketType


class GoneClients:
    """Watches the connections whose answers are waited for."""

    def __init__(self) -> None:
        self._waits: dict[trio.CancelScope, SocketType] = {}

    async def answer(self, client: SocketType, answer: Awaitable[Found]) -> Found:
        """Return an answer, unless its client goes away meanwhile.

        Raises:
            trio.BrokenResourceError: it has.
        """
        with trio.CancelScope() as scope:
            self._waits[scope] = client
            try:
                return await answer
            finally:
                del self._waits[scope]
        raise trio.BrokenResourceError("the client went away before its answer")

    async def watch(self) -> None:
        """Look for clients that are gone, until cancelled."""
        while True:
            await trio.sleep(WATCH_SECONDS)
            for scope, client in list(self._waits.items()):
                if _has_ended(client):
                    scope.cancel()


def _has_ended(client: SocketType) -> bool:
    try:
        state = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except OSError:
        return True
    return state[0] in _ENDED_STATES
