"""Send an answer and receive the next request, in a thread: the twin of `quick.compiled.Exchange` in Python.

The socket does not block, so that the thread returns when a slow client has no room.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from kafkafs.serve.file_slice import FileSlice, Piece, ShortFileError
from kafkafs.serve.network.frames import whole_end
from kafkafs.serve.quick import extension

if TYPE_CHECKING:
    from kafkafs.serve.quick.compiled import QuickFetches

_ROOM_MS = 20
"""Time that a thread waits for room on a connection before it lets the event loop wait."""
_MORE = int(socket.MSG_MORE)
_LARGEST_REQUEST = 64 * 1024
"""Bytes of the largest request that is received here."""
_READ = 4096
"""Bytes that most requests do not reach."""


class Exchange:
    """Sends answers and receives requests of one client.

    Args:
        client: descriptor of the connection.
        received: receives the bytes of requests.
        quick: answers requests of which all is known; used by the twin.
    """

    def __init__(self, client: int, received: bytearray, quick: QuickFetches | None) -> None:
        self._client = client
        self._received = received

    def run(
        self,
        pieces: Sequence[Piece],
        end: float,
        pause_ms: int,
        may_look: bool,
        answered: list[tuple[int, int, bool]],
    ) -> tuple[Sequence[Piece], object]:
        """Send pieces, and receive until a whole request is there; the twin goes on while it can answer quickly.

        Args:
            pieces: an answer; no buffer is empty.
            end: time on the monotonic clock from which nothing is received.
            pause_ms: time to wait for a request.
            may_look: whether to look for the request a moment before sleeping, which takes a processor; used by the twin.
            answered: receives nanoseconds and bytes of each answer that was made here, and whether it is an error.

        Returns:
            the pieces that are left when the client has no room, and what was begun of the next request. With no piece left
            `received` may have a whole request.

        Raises:
            ShortFileError: a file ends within its part.
            OSError: the client is gone.
        """
        with _borrowed(self._client) as client:
            left = _send(client, pieces)
            if not left:
                self._receive(client, end, pause_ms)
        return left, None

    def _receive(self, client: socket.socket, end: float, pause_ms: int) -> None:
        request = select.poll()
        request.register(client, select.POLLIN)
        received = self._received
        while monotonic() <= end and len(received) <= _LARGEST_REQUEST and not whole_end(received):
            # A client needs a moment for its next request: to wait for the bytes costs less than to find none.
            if not request.poll(pause_ms):
                return
            data = client.recv(_READ)
            if not data:
                return
            received += data


def new_exchange(client: int, received: bytearray, quick: QuickFetches | None) -> Exchange:
    """Return an exchange, compiled if possible."""
    kind = Exchange if extension is None else extension.Exchange
    return kind(client, received, quick)


@contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """A socket by its descriptor, which stays open."""
    connection = socket.socket(fileno=number)
    try:
        yield connection
    finally:
        connection.detach()


def _send(client: socket.socket, pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Send until the client has no room for long; return what is left."""
    room = select.poll()
    room.register(client, select.POLLOUT)
    while (left := _send_some(client, pieces)) and room.poll(_ROOM_MS):
        pieces = left
    return left


def _send_some(client: socket.socket, pieces: Sequence[Piece]) -> list[Piece]:
    """Send until the client has no more room; return what is left."""
    last = len(pieces) - 1
    for place, piece in enumerate(pieces):
        try:
            if isinstance(piece, FileSlice):
                file, position, size = piece
                while size:
                    sent = os.sendfile(client.fileno(), file.fd, position, size)
                    if not sent:
                        raise ShortFileError.of(piece, position)
                    position += sent
                    size -= sent
            else:
                while True:
                    sent = client.send(piece, _MORE if place < last else 0)
                    if sent == len(piece):
                        break
                    piece = memoryview(piece)[sent:]
        except BlockingIOError:
            rest = FileSlice(file, position, size) if isinstance(piece, FileSlice) else piece
            return [rest, *pieces[place + 1 :]]
    return []
