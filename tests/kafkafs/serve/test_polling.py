"""Clients that share threads get the answers of Python, and come back with any request that is left to it."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import pytest
import trio

from kafkafs.serve.file_slice import FileSlice, Piece, ShortFileError, size_of
from kafkafs.serve.network.polling import Polling
from kafkafs.serve.quick import extension
from tests.fixtures_data import copy_of, log_dir
from tests.kafkafs.serve.both_ways import BothWays, bytes_of
from tests.kafkafs.serve.test_quick_fetches import fetch

pytestmark = pytest.mark.skipif(extension is None, reason="the extension is not built")

HELLO = b"hello"
OFFSETS = range(0, 1000, 25)
"""Offsets of orders, of which the first partition is known."""


class Shared(NamedTuple):
    """A client that shares threads with others.

    Attributes:
        exchange, received: the server's side.
        client: the client's side.
        answered: the answers that were made by the threads.
    """

    polling: Polling
    exchange: Any
    received: bytearray
    server: socket.socket
    client: socket.socket
    answered: list[tuple[int, int, bool]]

    async def serve(self, *pieces: Piece) -> Any:
        """Send pieces and answer what follows, until a request is left."""
        return await self.polling.serve(self.exchange, pieces, self.answered)

    async def receive(self, size: int) -> bytes:
        """Receive exactly this many bytes."""
        got = bytearray()
        while len(got) < size:
            await trio.lowlevel.wait_readable(self.client)
            data = self.client.recv(size - len(got))
            if not data:
                break
            got += data
        return bytes(got)

    async def answer(self) -> bytes:
        """Receive an answer, without its length."""
        return await self.receive(int.from_bytes(await self.receive(4), "big"))


@asynccontextmanager
async def shared(ways: BothWays, clients: int = 1) -> AsyncIterator[list[Shared]]:
    """Clients of a source that share threads."""
    served = Polling(10)
    pairs = [socket.socketpair() for _ in range(clients)]
    try:
        each = []
        for server, client in pairs:
            server.setblocking(False)
            client.setblocking(False)
            received = bytearray()
            assert extension is not None
            exchange = extension.Exchange(server.fileno(), received, ways.quick)
            each.append(Shared(served, exchange, received, server, client, []))
        yield each
        assert served.clients == 0
    finally:
        for pair in pairs:
            for side in pair:
                side.close()
        served.close()


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@pytest.fixture(scope="module")
def ways() -> BothWays:
    """A source that does not change."""
    made = BothWays(log_dir("current"), snapshot=True)
    for offset in OFFSETS:
        made.ask(fetch(offset))
    assert all(made.ask(fetch(offset)).is_quick for offset in OFFSETS)
    return made


Test = Callable[[Shared, BothWays], Awaitable[None]]


def with_a_client(test: Test) -> Callable[[BothWays], None]:
    """A test with one client that shares threads."""

    def run(ways: BothWays) -> None:
        async def main() -> None:
            async with shared(ways) as (client,):
                with trio.fail_after(20):
                    await test(client, ways)

        trio.run(main)

    return run


@with_a_client
async def test_requests_are_answered_until_one_is_left(one: Shared, ways: BothWays) -> None:
    left = fetch(0, topic="no such topic")
    async with trio.open_nursery() as nursery:
        results = []

        async def serve() -> None:
            results.append(await one.serve(HELLO))

        nursery.start_soon(serve)
        assert await one.receive(len(HELLO)) == HELLO
        for offset in OFFSETS:
            one.client.send(framed(fetch(offset)))
            assert await one.answer() == ways.ask(fetch(offset)).expected[4:]
        one.client.send(framed(left))
    assert results == [([], None)]
    assert one.received == framed(left)
    assert len(one.answered) == len(OFFSETS)
    assert not any(is_failed for _, _, is_failed in one.answered)


@with_a_client
async def test_requests_may_come_in_parts_and_several_at_once(one: Shared, ways: BothWays) -> None:
    frames = [fetch(offset) for offset in (0, 500, 25)]
    data = b"".join(map(framed, frames))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.serve, HELLO)
        assert await one.receive(len(HELLO)) == HELLO
        for start, end in ((0, 2), (2, 30), (30, len(data))):
            one.client.send(data[start:end])
            await trio.sleep(0.02)
        for frame in frames:
            assert await one.answer() == ways.ask(frame).expected[4:]
        one.client.shutdown(socket.SHUT_WR)
    assert len(one.answered) == 3


@with_a_client
async def test_requests_that_came_before_an_answer_was_sent_are_answered(
    one: Shared, ways: BothWays
) -> None:
    frames = [fetch(offset) for offset in OFFSETS[:20]]
    one.client.send(b"".join(map(framed, frames)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.serve, HELLO)
        assert await one.receive(len(HELLO)) == HELLO
        for frame in frames:
            assert await one.answer() == ways.ask(frame).expected[4:]
        one.client.shutdown(socket.SHUT_WR)
    assert len(one.answered) == len(frames)


@with_a_client
async def test_a_request_that_was_received_before_is_answered(one: Shared, ways: BothWays) -> None:
    one.received.extend(framed(fetch(0)) + framed(fetch(25))[:9])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.serve, HELLO)
        assert await one.receive(len(HELLO)) == HELLO
        assert await one.answer() == ways.ask(fetch(0)).expected[4:]
        one.client.send(framed(fetch(25))[9:])
        assert await one.answer() == ways.ask(fetch(25)).expected[4:]
        one.client.shutdown(socket.SHUT_WR)
    assert one.received == b""


@with_a_client
async def test_a_client_that_has_ended_comes_back(one: Shared, ways: BothWays) -> None:
    one.client.shutdown(socket.SHUT_WR)
    assert await one.serve(HELLO) == ([], None)
    assert one.received == b""


@with_a_client
async def test_a_client_that_is_gone_is_an_error(one: Shared, ways: BothWays) -> None:
    one.client.close()
    with pytest.raises(OSError, match="Broken pipe"):
        await one.serve(HELLO)


@with_a_client
async def test_a_quiet_client_comes_back_after_a_second(one: Shared, ways: BothWays) -> None:
    assert await one.serve(HELLO) == ([], None)
    assert await one.receive(len(HELLO)) == HELLO
    assert await one.serve(HELLO) == ([], None)  # and can be served again


@with_a_client
async def test_a_client_without_room_comes_back_with_the_rest(one: Shared, ways: BothWays) -> None:
    whole = bytes(range(256)) * 20_000
    left, begun = await one.serve(b"head", whole)
    assert begun is None
    rest = b"".join(bytes(piece) for piece in left)
    sent = 4 + len(whole) - len(rest)
    assert 0 < sent < len(whole)
    assert await one.receive(sent) + rest == b"head" + whole


@with_a_client
async def test_a_client_with_little_room_gets_all(one: Shared, ways: BothWays) -> None:
    whole = bytes(range(256)) * 20_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.serve, whole)
        assert await one.receive(len(whole)) == whole
        one.client.shutdown(socket.SHUT_WR)


@with_a_client
async def test_a_large_request_comes_back(one: Shared, ways: BothWays) -> None:
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(one.client))
            await stream.send_all(framed(bytes(200_000)))

        nursery.start_soon(send)
        assert await one.serve(HELLO) == ([], None)
        nursery.cancel_scope.cancel()
    assert 64 * 1024 < len(one.received) < 200_000


@with_a_client
async def test_a_busy_client_comes_back_to_be_counted(one: Shared, ways: BothWays) -> None:
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            await one.receive(len(HELLO))
            for _ in range(1000):
                one.client.send(framed(fetch(0, most=100)))
                await one.answer()
            one.client.send(framed(fetch(25)))

        nursery.start_soon(ask)
        while len(one.answered) < 1000:
            left, begun = await one.serve(HELLO if not one.answered else b"\0\0\0\0")
            assert (left, begun) == ([], None)
        nursery.cancel_scope.cancel()
    assert len(one.answered) == 1000


def test_a_file_that_ends_is_an_error(tmp_path):
    copy = copy_of("current", tmp_path, ["orders-0"])
    ways = BothWays(copy, snapshot=True)
    assert [ways.ask(fetch(0)).is_quick for _ in range(2)] == [False, True]
    (path,) = (copy / "orders-0").glob("00000000000000000000.log")
    pieces, _ = ways.quick.answer(fetch(0), extension.Scratch())
    os.truncate(path, size_of(pieces) // 2)

    async def main() -> None:
        async with shared(ways) as (one,):
            with pytest.raises(ShortFileError, match=r"0{20}\.log"):
                await one.serve(*pieces)

    trio.run(main)


def test_what_is_not_in_the_page_cache_comes_back(ways):
    made, _ = ways.quick.answer(fetch(0), extension.Scratch())
    (part,) = (piece for piece in made if isinstance(piece, FileSlice))
    os.fsync(part.file.fd)  # a changed page would stay
    os.posix_fadvise(part.file.fd, 0, 0, os.POSIX_FADV_DONTNEED)
    if is_cached(part):
        pytest.skip("the file system keeps the pages")

    async def main() -> None:
        async with shared(ways) as (one,):
            one.client.send(framed(fetch(0)))
            left, begun = await one.serve(HELLO)
            assert begun is None
            # The headers were not there, or the records behind them.
            assert not left or bytes_of(left) == ways.ask(fetch(0)).expected
            assert one.received == (b"" if left else framed(fetch(0)))

    trio.run(main)


@pytest.mark.parametrize(
    ("answer", "can"),
    [(None, True), (BlockingIOError(), True), (OSError(errno.EOPNOTSUPP, ""), False)],
)
def test_files_are_served_where_the_system_tells_what_is_in_the_page_cache(
    ways, monkeypatch, answer, can
):
    pieces, _ = ways.quick.answer(fetch(0), extension.Scratch())
    asked = []

    def preadv(fd: int, *_: object) -> int:
        asked.append(fd)
        if answer is not None:
            raise answer
        return 1

    monkeypatch.setattr(os, "preadv", preadv)
    polling = Polling(1)
    assert [polling.can_serve(pieces) for _ in range(2)] == [can, can]
    assert len(asked) == 1
    assert not polling.can_serve(pieces[:1])  # without a file


def is_cached(part: FileSlice) -> bool:
    try:
        return os.preadv(part.file.fd, [bytearray(1)], part.position, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False


@pytest.mark.parametrize("seed", range(3))
def test_clients_can_be_taken_back_at_any_moment(ways, seed):
    chance = Random(seed)

    async def ask(one: Shared) -> None:
        while True:
            one.client.send(framed(fetch(0, most=5000)))
            await one.answer()

    async def serve(one: Shared) -> None:
        with trio.move_on_after(chance.random() * 0.05):
            await one.serve(framed(b"first"))

    async def main() -> None:
        for _ in range(20):
            async with shared(ways, 8) as clients, trio.open_nursery() as asking:
                for one in clients:
                    asking.start_soon(ask, one)
                async with trio.open_nursery() as nursery:
                    for one in clients:
                        nursery.start_soon(serve, one)
                asking.cancel_scope.cancel()

    trio.run(main)
