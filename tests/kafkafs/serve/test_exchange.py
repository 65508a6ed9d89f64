"""An exchange receives whole requests, compiled or not, and no client can hold its thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from kafkafs.serve.network.exchange import Exchange
from kafkafs.serve.quick import extension

REQUEST = b"\0\0\0\x08" + b"12345678"
LARGE = (70_000).to_bytes(4, "big") + bytes(70_000)


class Pair(NamedTuple):
    """An exchange, the bytes that it received, and its client."""

    exchange: Any
    received: bytearray
    client: socket.socket

    def run(self, *pieces: bytes, seconds: float = 5.0, pause_ms: int = 1000) -> Any:
        """Send pieces and receive."""
        return self.exchange.run(list(pieces), time.monotonic() + seconds, pause_ms, True, [])


@pytest.fixture(params=[Exchange, extension and extension.Exchange], ids=["python", "compiled"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    if request.param is None:
        pytest.skip("the extension is not built")
    ours, client = socket.socketpair()
    with ours, client:
        ours.setblocking(False)
        received = bytearray()
        yield Pair(request.param(ours.fileno(), received, None), received, client)


def test_an_answer_is_sent_and_the_next_request_received(pair):
    pair.client.sendall(REQUEST)
    assert pair.run(b"an ", b"answer") == ([], None)
    assert pair.client.recv(100) == b"an answer"
    assert pair.received == REQUEST


def test_parts_of_a_request_are_put_together(pair):
    timers = [
        threading.Timer(0.02 * number, pair.client.sendall, [REQUEST[number : number + 1]])
        for number in range(len(REQUEST))
    ]
    for timer in timers:
        timer.start()
    assert pair.run() == ([], None)
    assert pair.received == REQUEST


def test_nothing_is_received_without_a_request(pair):
    assert pair.run(b"answer", pause_ms=1) == ([], None)
    assert pair.received == b""


def test_a_client_that_sends_a_byte_at_a_time_does_not_hold_the_thread(pair):
    stopped = threading.Event()

    def drip() -> None:
        while not stopped.wait(0.01):
            pair.client.sendall(b"\0" if len(pair.received) else b"\x01")

    sender = threading.Thread(target=drip)
    sender.start()
    try:
        assert pair.run(seconds=0.1) == ([], None)
        assert 0 < len(pair.received) < 1000
    finally:
        stopped.set()
        sender.join()


def test_a_large_request_is_left_to_the_event_loop(pair):
    def send() -> None:
        with suppress(BrokenPipeError):
            pair.client.sendall(LARGE * 2)

    sender = threading.Thread(target=send)
    sender.start()
    assert pair.run() == ([], None)
    pair.client.shutdown(socket.SHUT_RDWR)
    sender.join()
    assert 64 * 1024 < len(pair.received) < len(LARGE)


def test_a_client_that_has_ended_gives_nothing(pair):
    pair.client.shutdown(socket.SHUT_WR)
    assert pair.run() == ([], None)


def test_a_client_that_is_gone_is_an_error(pair):
    pair.client.close()
    with pytest.raises(OSError, match="Broken pipe"):
        pair.run(b"answer")


def test_a_client_without_room_gets_the_rest_later(pair):
    whole = bytes(range(256)) * 20_000
    left, begun = pair.run(b"head", whole)
    assert begun is None
    pair.client.setblocking(False)
    got = bytearray()
    while left or len(got) < 4 + len(whole):
        try:
            got += pair.client.recv(1 << 20)
        except BlockingIOError:
            left, _ = pair.run(*left, pause_ms=0)
    assert got == b"head" + whole
