"""Accepts connections, so that many which come and go at once cost other clients little time.

The kernel keeps thousands of connections that wait to be accepted, also those that their clients have closed. Those
are dropped before anything is made for them, as a new client waits behind them.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Protocol

import trio

from kafkafs.serve.rare_lines import RareLines

_AT_ONCE = 16
"""Connections that are served before others get a turn."""
_LOOKED_AT = 128
"""Connections that are looked at before that, with those that are dropped."""
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_SECONDS = 0.1
_TURN_SECONDS = 0.008
"""Time for others after each _AT_ONCE connections: 2,000 a second are accepted."""


class ConnectionServer(Protocol):
    """Serves connections."""

    def admit(self, peer: tuple[object, ...]) -> bool:
        """Return whether to serve a new connection of an address; it costs no task until then."""

    async def serve(self, stream: trio.SocketStream, peer: tuple[object, ...]) -> None:
        """Serve a connection that was admitted, until it ends."""


async def accept_all(listener: trio.SocketListener, server: ConnectionServer) -> None:
    """Serve each connection to a listener in a task of its own, until this task is cancelled."""
    rare = RareLines()
    with socket.socket(fileno=os.dup(listener.socket.fileno())) as waiting:
        waiting.setblocking(False)
        async with listener, trio.open_nursery() as clients:
            while True:
                await trio.lowlevel.wait_readable(waiting)
                try:
                    if _accept_some(waiting, clients, server):
                        await trio.sleep(_TURN_SECONDS)
                except OSError as error:
                    if error.errno not in _NO_ROOM:
                        raise
                    rare.warn(error.errno, f"no connection can be accepted: {error.strerror}")
                    await trio.sleep(_PAUSE_SECONDS)


def _accept_some(waiting: socket.socket, clients: trio.Nursery, server: ConnectionServer) -> bool:
    """Accept connections until none waits; return whether there may be more."""
    taken = 0
    for _ in range(_LOOKED_AT):
        try:
            client, peer = waiting.accept()
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno in _NO_ROOM or error.errno in (errno.EBADF, errno.EINVAL):
                raise
            continue  # an error of the network: the client is gone
        if _is_gone(client) or not server.admit(peer):
            client.close()
            continue
        clients.start_soon(_serve, client, peer, server)
        taken += 1
        if taken == _AT_ONCE:
            break
    return True


def _is_gone(client: socket.socket) -> bool:
    """Return whether the client closed the connection and sent nothing."""
    client.setblocking(False)
    try:
        return not client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


async def _serve(client: socket.socket, peer: tuple[object, ...], server: ConnectionServer) -> None:
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
    try:
        await server.serve(stream, peer)
    finally:
        await trio.aclose_forcefully(stream)
