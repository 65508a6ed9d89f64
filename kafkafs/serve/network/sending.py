"""Send the pieces of an answer: buffers, and parts of source files that the kernel copies itself.

A thread calls sendfile(2), because a page that is not in the cache would stop the event loop. The socket does not
block, so that the thread returns when a slow client has no room.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import trio

from kafkafs.serve.file_slice import FileSlice, Piece

_JOINED = 64 * 1024
"""Buffers up to this size are sent together."""


class ShortFileError(OSError):
    """A source file became shorter while a part of it was sent; the answer cannot be completed."""


async def send_pieces(
    stream: trio.SocketStream, pieces: Iterable[Piece], limiter: trio.CapacityLimiter
) -> None:
    """Send all pieces in order.

    Raises:
        ShortFileError: a file ends within its part.
        trio.BrokenResourceError, OSError: the client is gone.
    """
    waiting = bytearray()
    for piece in pieces:
        if isinstance(piece, FileSlice):
            if piece.size:
                if waiting:
                    await stream.send_all(waiting)
                    waiting = bytearray()
                await _send_file(stream, piece, limiter)
        else:
            waiting += piece
            if len(waiting) > _JOINED:
                await stream.send_all(waiting)
                waiting = bytearray()
    if waiting:
        await stream.send_all(waiting)


async def _send_file(
    stream: trio.SocketStream, piece: FileSlice, limiter: trio.CapacityLimiter
) -> None:
    socket = stream.socket
    position, end = piece.position, piece.position + piece.size
    while position < end:
        position = await trio.to_thread.run_sync(
            _send_some, socket.fileno(), piece, position, end, limiter=limiter
        )
        if position < end:
            await trio.lowlevel.wait_writable(socket)


def _send_some(socket: int, piece: FileSlice, position: int, end: int) -> int:
    """Send until the socket has no more room; return the position of the next byte."""
    while position < end:
        try:
            sent = os.sendfile(socket, piece.file.fd, position, end - position)
        except BlockingIOError:
            return position
        if not sent:
            raise ShortFileError(f"{piece.file.path} ends at {position}, before {end}")
        position += sent
    return position
