"""HTTP for monitors: requests are answered, kept connections too, and what is no request ends one."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kafkafs.serve.network.http import HttpAnswer, HttpRequest, HttpServer


async def _echo(request: HttpRequest) -> HttpAnswer:
    if request.path == "/bug":
        raise ValueError("bug")
    text = f"{request.method} {request.parts} {request.query} {request.body.decode()}"
    return HttpAnswer(text.encode())


def _sent(data: bytes) -> bytes:
    """Return what a server answers to bytes until the connection ends."""

    async def run() -> bytes:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, HttpServer(_echo).serve, listeners)
            async with await trio.testing.open_stream_to_socket_listener(listeners[0]) as stream:
                await stream.send_all(data)
                found = b"".join([part async for part in stream])
            nursery.cancel_scope.cancel()
        return found

    return trio.run(run)


def test_a_connection_is_kept_for_requests_that_follow() -> None:
    found = _sent(
        b"GET /a%2Fb/c?d=1 HTTP/1.1\r\nHost: x\r\n\r\n"
        b"POST /p HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyz"
        b"GET /end HTTP/1.1\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\n\r\n"
    )
    assert b"GET ['a/b', 'c'] d=1 " in found
    assert b"POST ['p']  xyz" in found
    assert found.count(b"HTTP/1.1 200 OK") == 3
    assert b"never" not in found


def test_head_has_the_length_and_no_body() -> None:
    found = _sent(b"HEAD /a HTTP/1.0\r\n\r\n")
    assert found.endswith(b"Content-Length: 12\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"rubbish\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 20_000, b"431"),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
        (b"GET http://[ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /bug HTTP/1.1\r\nConnection: close\r\n\r\n", b"500"),
    ],
)
def test_what_cannot_be_answered_gets_a_status(data: bytes, status: bytes) -> None:
    assert _sent(data).startswith(b"HTTP/1.1 " + status)
