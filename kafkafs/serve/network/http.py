"""HTTP/1.1 for monitors and small APIs: bounded requests, bounded connections, and answers that a function makes.

See RFC 9112. A connection is kept for further requests. Bodies have a length; those in chunks are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

import trio

logger = logging.getLogger(__name__)

_HEAD_BYTES = 16 * 1024
"""Largest request line with its headers."""
_BODY_BYTES = 1024 * 1024
_CONNECTIONS = 64
_SECONDS = 30.0
"""Time for a request, for its answer to be taken, and between requests."""


class HttpRequest(NamedTuple):
    """A request.

    Attributes:
        method: its method, such as GET; a HEAD is answered as a GET without its body.
        path: the path, still quoted.
        query: what follows the question mark.
        headers: by their names in lower case; the last one of a name counts.
        body: the body.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def parts(self) -> list[str]:
        """The names between the slashes of the path, unquoted."""
        return [unquote(part) for part in self.path.split("/") if part]


class HttpAnswer(NamedTuple):
    """An answer: its body, the type of that, and the status."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


Answering: TypeAlias = Callable[[HttpRequest], Awaitable[HttpAnswer]]


class _Refused(Exception):
    """A request that cannot be read; the status says why."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class HttpServer:
    """Answers requests of HTTP; give `serve` to trio.serve_listeners.

    Args:
        answer: makes answers. One that raises an exception is answered with the status 500, and logged.
    """

    def __init__(self, answer: Answering) -> None:
        self._answer = answer
        self._open = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer the requests of a connection until it ends."""
        if self._open >= _CONNECTIONS:
            return
        self._open += 1
        try:
            await self._answer_all(stream)
        except (trio.BrokenResourceError, trio.TooSlowError, OSError) as error:
            logger.debug("a connection of HTTP ended: %s", error)
        finally:
            self._open -= 1

    async def _answer_all(self, stream: trio.SocketStream) -> None:
        received = bytearray()
        is_kept = True
        while is_kept:
            try:
                with trio.fail_after(_SECONDS):
                    request = await _read(stream, received)
            except _Refused as refused:
                request, is_kept = None, False
                answer = HttpAnswer(f"{refused}\n".encode(), status=refused.status)
            else:
                if request is None:
                    return
                is_kept = request.headers.get("connection", "").lower() != "close"
                answer = await self._answered(request)
            head = _head(answer, is_kept=is_kept)
            is_bare = request is not None and request.method == "HEAD"
            with trio.fail_after(_SECONDS):
                await stream.send_all(head if is_bare else head + answer.body)

    async def _answered(self, request: HttpRequest) -> HttpAnswer:
        try:
            return await self._answer(request)
        except Exception as error:
            logger.exception("%s %s: %s", request.method, request.path, error)
            return HttpAnswer(b"Internal Server Error\n", status=500)


async def _read(stream: trio.SocketStream, received: bytearray) -> HttpRequest | None:
    """Return the next request; None at the end of the connection."""
    while (end := received.find(b"\r\n\r\n")) < 0:
        if len(received) > _HEAD_BYTES:
            raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        data = await stream.receive_some(_HEAD_BYTES)
        if not data:
            return None
        received += data
    first, *lines = received[:end].decode("latin-1").split("\r\n")
    del received[: end + 4]
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _Refused(HTTPStatus.BAD_REQUEST)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (ln.partition(":") for ln in lines)
    }
    if words[2] == "HTTP/1.0":
        headers["connection"] = "close"
    body = await _body(stream, received, headers)
    try:
        url = urlsplit(words[1])
    except ValueError:
        raise _Refused(HTTPStatus.BAD_REQUEST) from None
    return HttpRequest(words[0], url.path, url.query, headers, body)


async def _body(
    stream: trio.SocketStream, received: bytearray, headers: Mapping[str, str]
) -> bytes:
    text = headers.get("content-length", "0")
    if "transfer-encoding" in headers:
        raise _Refused(HTTPStatus.LENGTH_REQUIRED)
    if not (text.isascii() and text.isdigit()):
        raise _Refused(HTTPStatus.BAD_REQUEST)
    if len(text) > len(str(_BODY_BYTES)) or (length := int(text)) > _BODY_BYTES:
        raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    if len(received) < length and headers.get("expect", "").lower() == "100-continue":
        await stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
    while len(received) < length:
        data = await stream.receive_some(_HEAD_BYTES)
        if not data:
            raise _Refused(HTTPStatus.BAD_REQUEST)
        received += data
    body = bytes(received[:length])
    del received[:length]
    return body


def _head(answer: HttpAnswer, *, is_kept: bool) -> bytes:
    return (
        f"HTTP/1.1 {int(answer.status)} {HTTPStatus(answer.status).phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
        f"Connection: {'keep-alive' if is_kept else 'close'}\r\n\r\n"
    ).encode("latin-1")
