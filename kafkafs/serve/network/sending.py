"""Send the pieces of an answer: buffers, and parts of source files.

The kernel copies parts of files itself. A thread calls sendfile(2), because a page that is not in the cache would stop
the event loop. The socket does not block, so that the thread returns when a slow client has no room. Under TLS a thread
reads a bounded part, which is sent before the next one is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeAlias

import trio

from kafkafs.serve.file_slice import FileSlice, Piece

ClientStream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"

_JOINED = 64 * 1024
"""Buffers up to this size are sent together."""
_READ = 128 * 1024
"""Bytes of a file that are in memory at the same time for a client with TLS."""


class ShortFileError(OSError):
    """A source file became shorter while a part of it was sent; the answer cannot be completed."""


class Sender:
    """Sends answers to one client.

    Args:
        stream: the connection.
        limiter: limits the threads.
        patience: seconds for which the client may have no room.
    """

    def __init__(
        self, stream: ClientStream, limiter: trio.CapacityLimiter, patience: float
    ) -> None:
        self._stream = stream
        self._limiter = limiter
        self._patience = patience

    async def send(self, pieces: Iterable[Piece]) -> None:
        """Send all pieces in order.

        Raises:
            ShortFileError: a file ends within its part.
            trio.TooSlowError: the client has no room.
            trio.BrokenResourceError, OSError: the client is gone.
        """
        waiting = bytearray()
        for piece in pieces:
            if isinstance(piece, FileSlice):
                await self._send_all(waiting)
                waiting = bytearray()
                await self._send_file(piece)
            else:
                waiting += piece
                if len(waiting) > _JOINED:
                    await self._send_all(waiting)
                    waiting = bytearray()
        await self._send_all(waiting)

    async def _send_all(self, data: bytes | bytearray) -> None:
        with memoryview(data) as view:
            for start in range(0, len(data), _READ):
                with trio.fail_after(self._patience):
                    await self._stream.send_all(view[start : start + _READ])

    async def _send_file(self, piece: FileSlice) -> None:
        position, end = piece.position, piece.position + piece.size
        while position < end:
            if isinstance(self._stream, trio.SocketStream):
                socket = self._stream.socket
                position = await trio.to_thread.run_sync(
                    _send_some, socket.fileno(), piece, position, end, limiter=self._limiter
                )
                if position < end:
                    with trio.fail_after(self._patience):
                        await trio.lowlevel.wait_writable(socket)
            else:
                size = min(end - position, _READ)
                data = await trio.to_thread.run_sync(
                    os.pread, piece.file.fd, size, position, limiter=self._limiter
                )
                if not data:
                    raise _short(piece, position, end)
                await self._send_all(data)
                position += len(data)


def _send_some(socket: int, piece: FileSlice, position: int, end: int) -> int:
    """Send until the socket has no more room; return the position of the next byte."""
    while position < end:
        try:
            sent = os.sendfile(socket, piece.file.fd, position, end - position)
        except BlockingIOError:
            return position
        if not sent:
            raise _short(piece, position, end)
        position += sent
    return position


def _short(piece: FileSlice, position: int, end: int) -> ShortFileError:
    return ShortFileError(f"{piece.file.path} ends at {position}, before {end}")
