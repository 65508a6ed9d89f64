"""The leader and its followers, over a pipe in the place of /dev/fuse."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator

import pytest
import trio

from kafkafs.fuse.pyfuse3_patches import fast_loop
from kafkafs.fuse.pyfuse3_patches.fast_loop import FastLoop, StockLoop, install


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        try:
            os.close(fd)
        except OSError:
            continue


class Server:
    """What pyfuse3's session loop does: wait, read a request of one byte, handle it; many tasks at once."""

    def __init__(self, loop: FastLoop, fd: int) -> None:
        self.loop = loop
        self.fd = fd
        self.handled: list[int] = []
        self.ended = 0
        self.reading = 0
        self.gates: dict[int, trio.Event] = {}

    async def task(self) -> None:
        while await self.loop.wait_readable():
            assert self.reading == 0, "two tasks at the descriptor"
            self.reading += 1
            request = os.read(self.fd, 1)
            self.reading -= 1
            if not request:
                break
            if (gate := self.gates.get(request[0])) is not None:
                self.loop.hand_over()
                await gate.wait()
            self.handled.append(request[0])
        self.ended += 1


async def until(condition) -> None:
    with trio.fail_after(5):
        while not condition():  # noqa: ASYNC110  there is no event for all of them
            await trio.sleep(0.001)


async def serve(loop: FastLoop, fd: int, tasks: int, body, gates=()) -> Server:
    server = Server(loop, fd)
    server.gates = {number: trio.Event() for number in gates}
    async with trio.open_nursery() as nursery:
        for _ in range(tasks):
            nursery.start_soon(server.task)
        await body(server)
        nursery.cancel_scope.cancel()
    return server


def test_requests_are_handled_in_order_by_one_task(pipe: tuple[int, int]) -> None:
    async def body(server: Server) -> None:
        os.write(pipe[1], bytes(range(100)))
        await until(lambda: len(server.handled) == 100)

    server = trio.run(serve, FastLoop(pipe[0]), pipe[0], 5, body)
    assert server.handled == list(range(100))


def test_a_handler_that_waits_hands_the_descriptor_over(pipe: tuple[int, int]) -> None:
    async def body(server: Server) -> None:
        os.write(pipe[1], bytes([200, 1, 2, 201, 3]))
        await until(lambda: server.handled == [1, 2, 3])
        server.gates[201].set()
        await until(lambda: server.handled == [1, 2, 3, 201])
        server.gates[200].set()
        await until(lambda: server.handled == [1, 2, 3, 201, 200])
        os.write(pipe[1], bytes([4]))
        await until(lambda: server.handled[-1] == 4)

    trio.run(serve, FastLoop(pipe[0]), pipe[0], 3, body, (200, 201))


def test_when_all_tasks_wait_the_first_that_returns_leads(pipe: tuple[int, int]) -> None:
    async def body(server: Server) -> None:
        os.write(pipe[1], bytes([200, 201, 7]))
        await trio.sleep(0.05)
        assert server.handled == []
        server.gates[200].set()
        await until(lambda: server.handled == [200, 7])

    trio.run(serve, FastLoop(pipe[0]), pipe[0], 2, body, (200, 201))


def test_timers_fire_while_requests_never_stop(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)

    async def body(server: Server) -> None:
        late = []
        for _ in range(20):
            with contextlib.suppress(BlockingIOError):
                os.write(pipe[1], bytes(60_000))
            begin = trio.current_time()
            await trio.sleep(0.002)
            late.append(trio.current_time() - begin)
        assert sorted(late)[10] < 0.05
        assert len(server.handled) > 100

    trio.run(serve, FastLoop(pipe[0]), pipe[0], 2, body)


def test_stop_ends_every_task(pipe: tuple[int, int]) -> None:
    loop = FastLoop(pipe[0])

    async def body(server: Server) -> None:
        await trio.sleep(0.02)
        loop.stop()
        trio.lowlevel.notify_closing(pipe[0])
        await until(lambda: server.ended == 4)

    trio.run(serve, loop, pipe[0], 4, body)


def test_a_hung_up_descriptor_ends_every_task(pipe: tuple[int, int]) -> None:
    async def body(server: Server) -> None:
        await trio.sleep(0.02)
        os.close(pipe[1])
        await until(lambda: server.ended == 4)

    trio.run(serve, FastLoop(pipe[0]), pipe[0], 4, body)


def test_a_cancelled_follower_is_never_made_the_leader(pipe: tuple[int, int]) -> None:
    async def main() -> None:
        loop = FastLoop(pipe[0])
        server = Server(loop, pipe[0])
        server.gates = {200: trio.Event()}
        async with trio.open_nursery() as outer:
            outer.start_soon(server.task)
            await trio.sleep(0.01)
            async with trio.open_nursery() as inner:
                inner.start_soon(server.task)
                await trio.sleep(0.01)
                inner.cancel_scope.cancel()
            outer.start_soon(server.task)
            await trio.sleep(0.01)
            os.write(pipe[1], bytes([200, 5]))
            await until(lambda: server.handled == [5])
            outer.cancel_scope.cancel()

    trio.run(main)


def test_poll_tells_readable_and_nothing(pipe: tuple[int, int]) -> None:
    poll = fast_loop.make_poll(pipe[0])
    assert poll() == 0
    os.write(pipe[1], b"x")
    assert poll() == select.POLLIN
    os.close(pipe[1])
    assert poll() & select.POLLHUP


class _Other:
    """A pyfuse3 that is not as expected."""


class _WithArguments:
    @staticmethod
    async def _wait_fuse_readable(fd: int) -> bool:
        return True


class _AsExpected:
    @staticmethod
    async def _wait_fuse_readable() -> bool:
        return True


def test_install_says_why_another_pyfuse3_cannot_be_sped_up(pipe: tuple[int, int]) -> None:
    for module in (_Other, _WithArguments):
        loop = install(module, fd=pipe[0])
        assert isinstance(loop, StockLoop)
        assert "_wait_fuse_readable" in loop.reason


def test_install_wants_exactly_one_device() -> None:
    loop = install(_AsExpected)
    assert isinstance(loop, StockLoop)
    assert "descriptors of /dev/fuse" in loop.reason


def test_install_replaces_the_wait(pipe: tuple[int, int]) -> None:
    class Module(_AsExpected):
        pass

    loop = install(Module, fd=pipe[0])
    assert isinstance(loop, FastLoop)
    assert Module._wait_fuse_readable == loop.wait_readable


def test_the_installed_pyfuse3_can_be_sped_up() -> None:
    pyfuse3 = pytest.importorskip("pyfuse3")
    assert fast_loop._obstacle(pyfuse3) == ""
