"""Send the pieces of an answer: buffers, and parts of source files.

The kernel copies parts of files itself. A thread calls sendfile(2), because a page that is not in the cache would stop
the event loop. The socket does not block, so that the thread returns when a slow client has no room. Under TLS a thread
reads a bounded part, which is sent before the next one is read.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import trio

from engine.coding.layout import Buffer
from kafkafs.serve.file_slice import FileSlice, Piece

ClientStream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"

Later = TypeVar("Later")

_ROOM_MS = 20
"""Time that a thread waits for room on a connection before it lets the event loop wait."""
_MORE = int(socket.MSG_MORE)
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

    pieces: Sequence[Piece] = ()
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
        self, pieces: Sequence[Piece], following: Next[Later] | None = None
    ) -> Later | None:
        """Send all pieces in order, none of which is empty. A thread that calls sendfile(2) sends also what follows at once.

        Returns:
            what the answer waits for that comes next; None if nothing is known of one.

        Raises:
            ShortFileError: a file ends within its part.
            trio.TooSlowError: the client has no room.
            trio.BrokenResourceError, OSError: the client is gone.
        """
        has_parts = any(isinstance(piece, FileSlice) for piece in pieces)
        if has_parts and isinstance(self._stream, trio.SocketStream):
            return await self._send_in_threads(self._stream.socket, pieces, following)
        for piece in pieces:
            if isinstance(piece, FileSlice):
                await self._send_copy(piece)
            else:
                await self._send_all(piece)
        return None

    async def _send_in_threads(
        self, client: trio.socket.SocketType, left: Sequence[Piece], following: Next[Later] | None
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


def _send_in_thread(
    number: int, left: Sequence[Piece], following: Next[Later] | None
) -> tuple[Sequence[Piece], Later | None]:
    """Send until a client has no room, or the event loop has to wait; return what is left, and what comes next."""
    room = select.poll()
    room.register(number, select.POLLOUT)
    with _borrowed(number) as connection:
        while True:
            left = _send_some(connection, left)
            if left:
                if not room.poll(_ROOM_MS):
                    return left, None
                continue
            found = None if following is None else following(connection)
            if found is None:
                return [], None
            if found.later is not None:
                return [], found.later
            left = found.pieces


@contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """A socket by its descriptor, which stays open."""
    connection = socket.socket(fileno=number)
    try:
        yield connection
    finally:
        connection.detach()


def _send_some(connection: socket.socket, pieces: Sequence[Piece]) -> list[Piece]:
    """Send until the connection has no more room; return what is left."""
    number, last = connection.fileno(), len(pieces) - 1
    for place, piece in enumerate(pieces):
        try:
            if isinstance(piece, FileSlice):
                file, position, size = piece
                while size:
                    sent = os.sendfile(number, file.fd, position, size)
                    if not sent:
                        raise _short(piece, position)
                    position += sent
                    size -= sent
            else:
                while True:
                    sent = connection.send(piece, _MORE if place < last else 0)
                    if sent == len(piece):
                        break
                    piece = memoryview(piece)[sent:]
        except BlockingIOError:
            rest = FileSlice(file, position, size) if isinstance(piece, FileSlice) else piece
            return [rest, *pieces[place + 1 :]]
    return []


def _short(piece: FileSlice, position: int) -> ShortFileError:
    end = piece.position + piece.size
    return ShortFileError(f"{piece.file.path} ends at {position}, before {end}")
