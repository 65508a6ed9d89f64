"""Send the pieces of an answer: buffers, and parts of source files.

The kernel copies parts of files itself. A thread calls sendfile(2), because a page that is not in the cache would stop
the event loop; a busy consumer's next requests are answered in the same thread. Under TLS a thread reads a bounded
part, which is sent before the next one is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import trio

from engine.coding.layout import Buffer
from kafkafs.serve.file_slice import FileSlice, Piece, ShortFileError
from kafkafs.serve.network.exchange import Exchange

ClientStream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"

Later = TypeVar("Later")

_READ = 128 * 1024
"""Bytes of a file that are in memory at the same time for a client with TLS."""


class Following(NamedTuple, Generic[Later]):
    """What follows an answer.

    Attributes:
        pieces: the next answer.
        later: what the next answer waits for; None if it is here.
    """

    pieces: Sequence[Piece] = ()
    later: Later | None = None


class Turn(NamedTuple, Generic[Later]):
    """The time in which a thread serves a connection.

    Attributes:
        following: returns what follows the next request, which the exchange may have begun; None if the event loop has
            to go on with it.
        answered: receives nanoseconds and bytes of each answer that the exchange makes, and whether it is an error.
        end: time on the monotonic clock from which nothing is received.
        pause_ms: time in which a request counts as sent at once.
        may_look: whether to look for the request a moment before sleeping, which takes a processor.
    """

    following: Callable[[Any], Following[Later] | None]
    answered: list[tuple[int, int, bool]]
    end: float
    pause_ms: int
    may_look: bool


_NO_TURN: Turn[Any] = Turn(lambda _: None, [], 0.0, 0, may_look=False)
"""Only the answer is sent."""


class Sender:
    """Sends answers to one client.

    Args:
        stream: the connection.
        limiter: limits the threads.
        patience: seconds for which the client may have no room.
        exchange: sends answers in a thread, and receives what follows; None under TLS.

    Attributes:
        exchange: the same.
    """

    def __init__(
        self,
        stream: ClientStream,
        limiter: trio.CapacityLimiter,
        patience: float,
        exchange: Exchange | None,
    ) -> None:
        self._stream = stream
        self._limiter = limiter
        self._patience = patience
        self.exchange = exchange

    async def send(self, pieces: Sequence[Piece], turn: Turn[Later] | None = None) -> Later | None:
        """Send all pieces in order, none of which is empty. A thread that calls sendfile(2) sends also what follows at once.

        Returns:
            what the answer waits for that comes next; None if nothing is known of one.

        Raises:
            ShortFileError: a file ends within its part.
            trio.TooSlowError: the client has no room.
            trio.BrokenResourceError, OSError: the client is gone.
        """
        exchange = self.exchange
        if exchange is not None and any(isinstance(piece, FileSlice) for piece in pieces):
            return await self._send_in_threads(exchange, pieces, turn or _NO_TURN)
        for piece in pieces:
            if isinstance(piece, FileSlice):
                await self._send_copy(piece)
            else:
                await self._send_all(piece)
        forget(pieces)
        return None

    async def _send_in_threads(
        self,
        exchange: Exchange,
        left: Sequence[Piece],
        turn: Turn[Later],
    ) -> Later | None:
        while True:
            left, later = await trio.to_thread.run_sync(
                _send_in_thread, exchange, left, turn, limiter=self._limiter
            )
            if not left:
                return later
            with trio.fail_after(self._patience):
                await trio.lowlevel.wait_writable(self._stream.socket)

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
                raise ShortFileError.of(piece, position)
            await self._send_all(data)
            position += len(data)


def forget(sent: Sequence[Piece]) -> None:
    """Drop the pieces of an answer that was sent, so that its files can be closed while the client is idle."""
    if isinstance(sent, list):
        sent.clear()


def _send_in_thread(
    exchange: Exchange, left: Sequence[Piece], turn: Turn[Later]
) -> tuple[Sequence[Piece], Later | None]:
    """Send until a client has no room, or the event loop has to wait; return what is left, and what comes next."""
    while True:
        sent = left
        left, begun = exchange.run(sent, turn.end, turn.pause_ms, turn.may_look, turn.answered)
        if left:
            return left, None
        forget(sent)
        found = turn.following(begun)
        if found is None:
            return [], None
        if found.later is not None:
            return [], found.later
        left = found.pieces
