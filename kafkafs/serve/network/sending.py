"""Send the pieces of an answer: buffers, and parts of source files.

The kernel copies parts of files itself. A thread calls sendfile(2), because a page that is not in the cache would stop
the event loop. The socket does not block, so that the thread returns when a slow client has no room. Under TLS a thread
reads a bounded part, which is sent before the next one is read.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import trio

from engine.coding.layout import Buffer
from kafkafs.serve.file_slice import FileSlice, Piece

ClientStream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"

Later = TypeVar("Later")

_ROOM_MS = 20
"""Time that a thread waits for room on a connection before it lets the event loop wait."""
_READ = 128 * 1024
"""Bytes of a file that are in memory at the same time for a client with TLS."""


class ShortFileError(OSError):
    """A source file became shorter while a part of it was sent; the answer cannot be completed."""


class Following(NamedTuple, Generic[Later]):
    """What follows an answer.

    Attributes:
        pieces: the next answer.
        later: what the next answer waits for; None if it is here.
    """

    pieces: tuple[Piece, ...] = ()
    later: Later | None = None


Next: TypeAlias = "Callable[[socket.socket], Following[Later] | None]"
"""Returns what follows, or None if the event loop has to wait for it."""


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

    async def send(
        self, pieces: Iterable[Piece], following: Next[Later] | None = None
    ) -> Later | None:
        """Send all pieces in order. A thread that calls sendfile(2) sends also what follows at once.

        Returns:
            what the answer waits for that comes next; None if nothing is known of one.

        Raises:
            ShortFileError: a file ends within its part.
            trio.TooSlowError: the client has no room.
            trio.BrokenResourceError, OSError: the client is gone.
        """
        left = _joined(pieces)
        has_parts = any(isinstance(piece, FileSlice) for piece in left)
        if has_parts and isinstance(self._stream, trio.SocketStream):
            return await self._send_in_threads(self._stream.socket, left, following)
        for piece in left:
            if isinstance(piece, FileSlice):
                await self._send_copy(piece)
            else:
                await self._send_all(piece)
        return None

    async def _send_in_threads(
        self, client: trio.socket.SocketType, left: list[Piece], following: Next[Later] | None
    ) -> Later | None:
        while True:
            left, later = await trio.to_thread.run_sync(
                _send_in_thread, client.fileno(), left, following, limiter=self._limiter
            )
            if not left:
                return later
            with trio.fail_after(self._patience):
                await trio.lowlevel.wait_writable(client)

    async def _send_all(self, data: Buffer) -> None:
        with memoryview(data) as view:
            for start in range(0, len(data), _READ):
                with trio.fail_after(self._patience):
                    await self._stream.send_all(view[start : start + _READ])

    async def _send_copy(self, piece: FileSlice) -> None:
        position, end = piece.position, piece.position + piece.size
        while position < end:
            size = min(end - position, _READ)
            data = await trio.to_thread.run_sync(
                os.pread, piece.file.fd, size, position, limiter=self._limiter
            )
            if not data:
                raise _short(piece, position)
            await self._send_all(data)
            position += len(data)


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces with neighbouring buffers joined, without empty ones."""
    found: list[Piece] = []
    buffers = bytearray()
    for piece in pieces:
        if not isinstance(piece, FileSlice):
            buffers += piece
        elif piece.size:
            if buffers:
                found.append(buffers)
                buffers = bytearray()
            found.append(piece)
    if buffers:
        found.append(buffers)
    return found


def _send_in_thread(
    number: int, left: list[Piece], following: Next[Later] | None
) -> tuple[list[Piece], Later | None]:
    """Send until a client has no room, or the event loop has to wait; return what is left, and what comes next."""
    with _borrowed(number) as connection:
        while True:
            left = _send_some(connection, left)
            if left:
                if not is_ready(connection, select.POLLOUT, _ROOM_MS):
                    return left, None
                continue
            found = None if following is None else following(connection)
            if found is None:
                return [], None
            if found.later is not None:
                return [], found.later
            left = _joined(found.pieces)


@contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """A socket by its descriptor, which stays open."""
    connection = socket.socket(fileno=number)
    try:
        yield connection
    finally:
        connection.detach()


def is_ready(connection: socket.socket, event: int, milliseconds: int) -> bool:
    """Return whether a connection has bytes or room within a time."""
    poll = select.poll()
    poll.register(connection.fileno(), event)
    return bool(poll.poll(milliseconds))


def _send_some(connection: socket.socket, pieces: list[Piece]) -> list[Piece]:
    """Send until the connection has no more room; return what is left."""
    for place, piece in enumerate(pieces):
        more = socket.MSG_MORE if place + 1 < len(pieces) else 0
        while True:
            try:
                if isinstance(piece, FileSlice):
                    piece = _send_part(connection, piece)
                    if not piece.size:
                        break
                else:
                    sent = connection.send(piece, more)
                    if sent == len(piece):
                        break
                    piece = memoryview(piece)[sent:]
            except BlockingIOError:
                return [piece, *pieces[place + 1 :]]
    return []


def _send_part(connection: socket.socket, piece: FileSlice) -> FileSlice:
    """Send some of a part of a file; return the rest."""
    position, size = piece.position, piece.size
    sent = os.sendfile(connection.fileno(), piece.file.fd, position, size)
    if not sent:
        raise _short(piece, position)
    return piece._replace(position=position + sent, size=size - sent)


def _short(piece: FileSlice, position: int) -> ShortFileError:
    end = piece.position + piece.size
    return ShortFileError(f"{piece.file.path} ends at {position}, before {end}")
