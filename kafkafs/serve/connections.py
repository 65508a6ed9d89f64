"""Connections of clients: one task each, which reads a request, answers it, and reads the next.

Look-ups, reads and sendfile(2) run in threads, so a slow disk or a slow client stops no other connection. Whatever a
client sends, only its own connection can end. Where clients log in, one that has not may only ask for versions and log
in.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter_ns
from typing import NamedTuple

import trio

from engine.coding.fixed_width import read_int16
from engine.errors import CorruptMessageError
from kafkafs.fuse.statistics import OperationStatistics
from kafkafs.serve.broker import Broker
from kafkafs.serve.budgets import ServeBudgets
from kafkafs.serve.control.counters import Counters
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.fetch_sessions import Begun
from kafkafs.serve.file_slice import Piece, ShortFileError, size_of
from kafkafs.serve.handlers.api_versions import versions
from kafkafs.serve.handlers.fetch import LARGE_REQUEST, WaitingFetch
from kafkafs.serve.network.byte_budget import ByteBudget
from kafkafs.serve.network.exchange import Exchange, new_exchange
from kafkafs.serve.network.following import new_turn
from kafkafs.serve.network.frames import MalformedRequest, RequestReader
from kafkafs.serve.network.gone_clients import GoneClients
from kafkafs.serve.network.polling import Polling
from kafkafs.serve.network.sending import ClientStream, Following, Sender, forget
from kafkafs.serve.network.served_client import ServedClient
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.codec import ReceivedRequest, read_request, write_response
from kafkafs.serve.rare_lines import RareLines
from kafkafs.serve.request import Fields, Request
from kafkafs.serve.security.audit import Audit
from kafkafs.serve.security.login import Login, Logins
from kafkafs.serve.security.mechanisms import LoginRefused
from kafkafs.serve.security.tls import why_no_handshake

logger = logging.getLogger(__name__)

_FETCH = Api.FETCH  # looked up once: each Fetch needs it
_SMALL_ANSWERS = {_FETCH, Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE}
"""APIs whose answers take microseconds to write, the batches of Fetch being in files."""
_UNLIMITED = 2**31 - 1
_SEND_BUFFER = 160 * 1024
"""Bytes of an answer that the kernel holds: with more, the processor's caches lose them before the client reads."""


class _LaterFetch(NamedTuple):
    """A Fetch that waits for records: its version, its number, when it came."""

    version: int
    correlation: int
    waiting: WaitingFetch
    start: int


class _LoginFailed(Exception):
    """A client proved nothing; `answer` tells it so."""

    def __init__(self, reason: str, answer: list[Piece]) -> None:
        super().__init__(reason)
        self.answer = answer


class Connections:
    """Serves the connections of all clients.

    Args:
        broker: answers requests.
        budgets: limits.
        tls: settings of TLS; None without.
        logins: how clients log in; None if they need not.
        audit: is told of connections that end; None without.
    """

    def __init__(
        self,
        broker: Broker,
        budgets: ServeBudgets,
        tls: ssl.SSLContext | None = None,
        logins: Logins | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._broker = broker
        self._audit = audit
        self._budgets = budgets
        self._tls = tls
        self._logins = logins
        self._pending = ByteBudget(budgets.pending_bytes)
        self._threads = trio.CapacityLimiter(budgets.workers)
        self._polling = Polling(budgets.connections)
        self.gone = GoneClients()
        self.counters = Counters()
        self._open_of: Counter[str] = Counter()
        self._clients: dict[str, ServedClient] = {}
        self._rare = RareLines()

    def close(self) -> None:
        """End the threads that clients share. No connection may be served any more."""
        self._polling.close()

    def renew(self, tls: ssl.SSLContext | None, logins: Logins | None) -> None:
        """Change TLS and logins for clients that connect from now on."""
        self._tls, self._logins = tls, logins

    def busiest(self, most: int) -> list[Fields]:
        """Return facts of the open connections that were sent the most bytes."""
        found = sorted(self._clients.values(), key=lambda client: -client.sent)
        return [client.facts() for client in found[:most]]

    def admit(self, peer: tuple[object, ...]) -> bool:
        """Return whether a new connection of an address, as the socket states it, is to be served; then it counts."""
        name = _address(peer)
        address, counters = name.rpartition(":")[0], self.counters
        if counters.open >= self._budgets.connections:
            self._refuse(address, f"{name}: refused: {counters.open} connections are open")
            return False
        if self._open_of[address] >= self._budgets.connections_per_address:
            self._refuse(
                address, f"{name}: refused: {self._open_of[address]} of its address are open"
            )
            return False
        counters.enter()
        self._open_of[address] += 1
        return True

    async def serve(
        self,
        stream: trio.SocketStream,
        peer: tuple[object, ...],
        advertised: tuple[str, int] | None = None,
    ) -> None:
        """Serve a connection that was admitted, until it ends.

        Args:
            stream: the connection.
            peer: the client's address, as the socket states it.
            advertised: host and port that the client is told; None for the address that it used.
        """
        name = _address(peer)
        address = name.rpartition(":")[0]
        try:
            await self._serve(stream, name, address, advertised)
        finally:
            if self._audit is not None:
                self._audit.ended(name)
            self.counters.leave()
            self._clients.pop(name, None)
            self._open_of[address] -= 1
            if not self._open_of[address]:
                del self._open_of[address]

    async def _serve(
        self,
        stream: trio.SocketStream,
        name: str,
        address: str,
        advertised: tuple[str, int] | None,
    ) -> None:
        counters = self.counters
        try:
            here = stream.socket.getsockname()
        except OSError:  # the client is gone already
            return
        host, port = advertised or (here[0], here[1])
        login = None if self._logins is None else Login(self._logins)
        until = trio.current_time() + self._budgets.frame_seconds
        client = ServedClient(name, stream.socket, host, port, f"/{address}", login, until=until)
        self._clients[name] = client
        _set_buffer(stream)
        try:
            await self._answer_all(await self._secured(stream), client)
        except (MalformedRequest, CorruptMessageError) as error:
            counters.malformed += 1
            self._warn(address, f"{name}: connection closed", str(error))
        except trio.TooSlowError:
            counters.too_slow += 1
            logger.info("%s: connection closed: the client is too slow", name)
        except ShortFileError as error:
            logger.warning("%s: connection closed: %s", name, error)
        except (trio.BrokenResourceError, OSError) as error:
            logger.debug("%s: connection ended: %s", name, error)
        except Exception as error:
            counters.unexpected_errors += 1
            logger.exception("%s: connection closed: %s", name, error)

    def _refuse(self, address: str, sentence: str) -> None:
        self.counters.refused += 1
        self._rare.warn((address, "refused"), sentence)

    def _warn(self, address: str, what: str, reason: str) -> None:
        """Log why a connection ends: of an address and a cause, numbers aside, a line a minute."""
        self._rare.warn(
            (address, re.sub(r"[0-9]+|; it begins .*", "", reason)), f"{what}: {reason}"
        )

    async def _secured(self, stream: trio.SocketStream) -> ClientStream:
        """Return the connection after the TLS handshake, if there is one."""
        if self._tls is None:
            return stream
        secured = trio.SSLStream(stream, self._tls, server_side=True, https_compatible=True)
        try:
            with trio.fail_after(self._budgets.frame_seconds):
                await secured.do_handshake()
        except trio.BrokenResourceError as error:
            raise MalformedRequest(why_no_handshake(error)) from None
        return secured

    async def _answer_all(self, stream: ClientStream, client: ServedClient) -> None:
        reader = RequestReader(stream, self._budgets)
        exchange = None
        if isinstance(stream, trio.SocketStream):
            quick = self._broker.fetches.quick
            exchange = new_exchange(client.socket.fileno(), reader.received, quick)
        sender = Sender(stream, self._threads, self._budgets.idle_seconds, exchange)
        try:
            await self._answer_each(reader, sender, client)
        except _LoginFailed as failed:
            self.counters.failed_logins += 1
            self._warn(client.shown_host, f"{client.name}: login failed", str(failed))
            await trio.sleep(self._budgets.failed_login_milliseconds / 1000)
            await sender.send(failed.answer)

    async def _answer_each(
        self, reader: RequestReader, sender: Sender, client: ServedClient
    ) -> None:
        while True:
            with trio.move_on_after(self._budgets.idle_seconds) as waiting:
                if client.login is not None:
                    waiting.deadline = client.until
                if not await reader.has_more():
                    return
            if waiting.cancelled_caught:
                if client.login is not None:
                    raise MalformedRequest("the client does not log in")
                return
            with trio.fail_after(self._budgets.frame_seconds):
                length = await self._length(reader, client)
            async with self._pending.room(length, client.shown_host):
                with trio.fail_after(self._budgets.frame_seconds):
                    frame = await reader.body(length)
                pieces = await self._answer(frame, client)
            if pieces is None:
                return
            left: Sequence[Piece] = pieces
            while left:
                left = await self._send(reader, sender, client, left)

    async def _send(
        self,
        reader: RequestReader,
        sender: Sender,
        client: ServedClient,
        pieces: Sequence[Piece],
    ) -> Sequence[Piece]:
        """Send an answer, and those to requests that follow at once; return one that had to wait."""

        def answer(frame: bytes, begun: Begun) -> Following[_LaterFetch] | None:
            return self._answer_now(frame, begun, client, answered)

        size = size_of(pieces)
        self.counters.bytes_sent += size
        client.sent += size
        answered: list[tuple[int, int, bool]] = []
        statistics = self._statistics(_FETCH)
        following: Following[_LaterFetch] = Following(pieces)
        try:
            if sender.exchange is not None:
                following = await self._share(reader, sender.exchange, answer, answered, pieces)
            later = following.later
            if following.pieces:
                turn = new_turn(reader, answer, self._threads, answered)
                later = await sender.send(following.pieces, turn)
        finally:
            for nanoseconds, size, is_failed in answered:
                statistics.add(nanoseconds)
                statistics.errors += is_failed
                self.counters.bytes_sent += size
                client.sent += size
                client.requests += 1
        if later is None:
            return []
        found = await self.gone.answer(client.socket, self._broker.fetches.finish(later.waiting))
        statistics.add(perf_counter_ns() - later.start)
        return write_response(_FETCH, later.version, later.correlation, found)

    async def _share(
        self,
        reader: RequestReader,
        exchange: Exchange,
        answer: Callable[[bytes, Begun], Following[_LaterFetch] | None],
        answered: list[tuple[int, int, bool]],
        pieces: Sequence[Piece],
    ) -> Following[_LaterFetch]:
        """Let a client share threads with others while it is one of many; return what is left to do for it."""
        following: Following[_LaterFetch] = Following(pieces)
        shares = True
        while shares and self._is_busy() and self._polling.can_serve(following.pieces):
            before = len(answered)
            left, begun = await self._polling.serve(exchange, following.pieces, answered)
            if left:
                return Following(left)
            forget(following.pieces)
            shares = len(answered) > before  # else all its requests may be Python's
            frame = reader.whole()
            if frame is None:
                return Following()
            found = await trio.to_thread.run_sync(answer, frame, begun, limiter=self._threads)
            if found is None:
                return Following()
            reader.drop(frame)
            following = found
        return following

    def _answer_now(
        self,
        frame: bytes,
        begun: Begun,
        client: ServedClient,
        answered: list[tuple[int, int, bool]],
    ) -> Following[_LaterFetch] | None:
        """Answer a Fetch in the caller's thread; None for another request."""
        if client.login is not None or read_int16(frame, 0) != _FETCH:
            return None
        if len(frame) > LARGE_REQUEST:
            return None
        most = self._broker.most_elements()
        _, version, correlation, client_id, fields = read_request(frame, most)
        if fields is None:
            return None
        start = perf_counter_ns()
        found = self._broker.fetches.answer_now(
            client.request(version, client_id, fields, len(frame)), begun
        )
        if isinstance(found, WaitingFetch):
            return Following(later=_LaterFetch(version, correlation, found, start))
        pieces = write_response(_FETCH, version, correlation, found)
        is_failed = found["errorCode"] != ErrorCode.NONE
        answered.append((perf_counter_ns() - start, size_of(pieces), is_failed))
        return Following(pieces)

    def _is_busy(self) -> bool:
        """Return whether so many clients are busy that one more has to share threads with others."""
        busy = self._threads.borrowed_tokens + self._polling.clients
        return busy >= self._budgets.own_threads

    async def _length(self, reader: RequestReader, client: ServedClient) -> int:
        if client.login is None:
            return await reader.length()
        most = min(self._budgets.login_bytes, self._budgets.request_bytes)
        if client.login.takes_tokens:
            return await reader.length(least=0, most=most)
        return await reader.length(most=most)

    async def _answer(self, frame: bytes, client: ServedClient) -> list[Piece] | None:
        """Return the bytes of the answer; None to close the connection without one."""
        if client.login is not None and client.login.takes_tokens:
            return await self._answer_token(frame, client.login, client)
        key, version, correlation, client_id, fields = await self._read(frame)
        handle = self._broker.handler(key)
        if key == Api.API_VERSIONS and fields is None:
            # A client that is newer than the server: it reads this answer in version 0 and asks again.
            answer = versions(ErrorCode.UNSUPPORTED_VERSION)
            return write_response(key, 0, correlation, answer)
        if handle is None or fields is None:
            raise MalformedRequest(f"version {version} of API {key} is not served")
        client.client_id, client.requests = client_id or "", client.requests + 1
        request = client.request(version, client_id, fields, len(frame))
        statistics = self._statistics(Api(key))
        start = perf_counter_ns()
        is_failed = True
        try:
            if client.login is None or key == Api.API_VERSIONS:
                found = await self.gone.answer(client.socket, handle(request))
            else:
                found = await self._log_in(key, correlation, request, client.login, client)
            is_failed = found is not None and found.get("errorCode", ErrorCode.NONE) != 0
        finally:
            statistics.add(perf_counter_ns() - start)
            statistics.errors += is_failed
        if found is None:
            return None
        is_large = len(frame) > LARGE_REQUEST
        if key in _SMALL_ANSWERS and not is_large:
            return write_response(key, version, correlation, found)
        limiter = self._broker.fetches.large if is_large else self._threads
        return await trio.to_thread.run_sync(
            write_response, key, version, correlation, found, limiter=limiter
        )

    async def _read(self, frame: bytes) -> ReceivedRequest:
        """Return a request; a large one is read in a thread, so that others are answered meanwhile."""
        most = self._broker.most_elements()
        if len(frame) <= LARGE_REQUEST:
            return read_request(frame, most)
        limiter = self._broker.fetches.large
        return await trio.to_thread.run_sync(read_request, frame, most, limiter=limiter)

    def _statistics(self, api: Api) -> OperationStatistics:
        return self.counters.operations[api.title]

    async def _log_in(
        self, key: int, correlation: int, request: Request, login: Login, client: ServedClient
    ) -> Fields:
        """Answer a request of a client that has not logged in."""
        if key == Api.SASL_HANDSHAKE:
            return login.handshake(request)
        if key != Api.SASL_AUTHENTICATE:
            name = Api(key).request.name
            raise MalformedRequest(f"a {name} came before the login")
        try:
            found = await trio.to_thread.run_sync(
                login.authenticate, request, limiter=self._threads
            )
        except LoginRefused as refused:
            answer = write_response(key, request.version, correlation, login.refusal())
            raise _LoginFailed(str(refused), answer) from None
        self._enter(client, login)
        return found

    async def _answer_token(
        self, token: bytes, login: Login, client: ServedClient
    ) -> list[Piece] | None:
        """Answer the bytes of a mechanism, which come without the header of a request."""
        try:
            answer = await trio.to_thread.run_sync(login.token, token, limiter=self._threads)
        except LoginRefused as refused:
            raise _LoginFailed(str(refused), []) from None
        self._enter(client, login)
        return [len(answer).to_bytes(4, "big") + answer]

    @staticmethod
    def _enter(client: ServedClient, login: Login) -> None:
        """Admit a client if its login is complete."""
        if login.user is not None:
            logger.info("%s: %r has logged in", client.name, login.user)
            client.user, client.login = login.user, None


def _set_buffer(stream: trio.SocketStream) -> None:
    """Set how much of an answer the kernel holds; trio allows 16 KiB that are not sent yet."""
    with suppress(OSError):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNLIMITED)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)


def _address(name: tuple[object, ...]) -> str:
    return f"{name[0]}:{name[1]}"
