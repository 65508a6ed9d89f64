"""Connections of clients: one task each, which reads a request, answers it, and reads the next.

Look-ups, reads and sendfile(2) run in threads, so a slow disk or a slow client stops no other connection. Whatever a
client sends, only its own connection can end.
"""

from __future__ import annotations

import logging

import trio

from engine.errors import CorruptMessageError
from kafkafs.serve.asked import Asked
from kafkafs.serve.broker import Broker
from kafkafs.serve.budgets import ServeBudgets
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.file_slice import Piece
from kafkafs.serve.network.byte_budget import ByteBudget
from kafkafs.serve.network.frames import MalformedRequest, RequestReader
from kafkafs.serve.network.sending import ShortFileError, send_pieces
from kafkafs.serve.protocol.codec import read_request, write_response
from kafkafs.serve.protocol.messages.cluster import API_VERSIONS

logger = logging.getLogger(__name__)


class Connections:
    """Serves the connections of all clients.

    Args:
        broker: answers requests.
        budgets: limits.
        advertised: host and port that clients are told; None for the address that each one used.
    """

    def __init__(
        self, broker: Broker, budgets: ServeBudgets, advertised: tuple[str, int] | None
    ) -> None:
        self._broker = broker
        self._budgets = budgets
        self._advertised = advertised
        self._pending = ByteBudget(budgets.pending_bytes)
        self._senders = trio.CapacityLimiter(budgets.workers)
        self.open = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve a connection until it ends."""
        try:
            client = _address(stream.socket.getpeername())
            here = stream.socket.getsockname()
        except OSError:  # the client is gone already
            return
        if self.open >= self._budgets.connections:
            logger.warning("%s: refused: %d connections are open", client, self.open)
            return
        self.open += 1
        try:
            await self._answer_all(stream, client, self._advertised or (here[0], here[1]))
        except (MalformedRequest, CorruptMessageError) as error:
            logger.warning("%s: connection closed: %s", client, error)
        except trio.TooSlowError:
            logger.info("%s: connection closed: the client is too slow", client)
        except ShortFileError as error:
            logger.warning("%s: connection closed: %s", client, error)
        except (trio.BrokenResourceError, OSError) as error:
            logger.debug("%s: connection ended: %s", client, error)
        except Exception as error:
            logger.exception("%s: connection closed: %s", client, error)
        finally:
            self.open -= 1

    async def _answer_all(
        self, stream: trio.SocketStream, client: str, address: tuple[str, int]
    ) -> None:
        reader = RequestReader(stream, self._budgets)
        while True:
            with trio.move_on_after(self._budgets.idle_seconds) as waiting:
                if not await reader.has_more():
                    return
            if waiting.cancelled_caught:
                return
            with trio.fail_after(self._budgets.frame_seconds):
                length = await reader.length()
            async with self._pending.room(length):
                with trio.fail_after(self._budgets.frame_seconds):
                    frame = await reader.body(length)
                pieces = await self._answer(frame, client, address)
            if pieces is None:
                return
            with trio.fail_after(self._budgets.idle_seconds):
                await send_pieces(stream, pieces, self._senders)

    async def _answer(
        self, frame: bytes, client: str, address: tuple[str, int]
    ) -> tuple[Piece, ...] | None:
        """Return the bytes of the answer; None to close the connection without one."""
        key, version, correlation, client_id, fields = read_request(frame)
        handle = self._broker.handler(key)
        if key == API_VERSIONS.key and fields is None:
            # A client that is newer than the server: it reads this answer in version 0 and asks again.
            answer = self._broker.api_versions(ErrorCode.UNSUPPORTED_VERSION)
            return write_response(key, 0, correlation, answer)
        if handle is None or fields is None:
            raise MalformedRequest(f"version {version} of API {key} is not served")
        host, port = address
        asked = Asked(
            version,
            fields,
            host,
            port,
            f"{client} ({client_id})",
            client_id=client_id or "",
            client_host=f"/{client.rpartition(':')[0]}",
        )
        found = await handle(asked)
        return None if found is None else write_response(key, version, correlation, found)


def _address(name: tuple[object, ...]) -> str:
    return f"{name[0]}:{name[1]}"
