"""Requests are read whole however they arrive, and nothing is read that is no request."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kafkafs.serve.budgets import ServeBudgets
from kafkafs.serve.network.byte_budget import ByteBudget
from kafkafs.serve.network.frames import MalformedRequest, RequestReader

BUDGETS = ServeBudgets(request_bytes=100)
REQUEST = b"\0\0\0\x0a" + b"0123456789"


class Arriving:
    """A connection that gives its bytes in pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def requests(pieces: list[bytes]) -> list[bytes]:
    """All requests of a connection."""

    async def read() -> list[bytes]:
        reader = RequestReader(Arriving(pieces), BUDGETS)
        found = []
        while await reader.has_more():
            found.append(await reader.body(await reader.length()))
        return found

    return trio.run(read)


@pytest.mark.parametrize(
    "pieces",
    [
        [REQUEST * 3],
        [bytes([each]) for each in REQUEST * 3],
        [REQUEST[:7], REQUEST[7:] + REQUEST * 2],
    ],
    ids=["whole", "byte by byte", "across borders"],
)
def test_requests_are_the_same_however_they_arrive(pieces):
    assert requests(list(pieces)) == [b"0123456789"] * 3


@pytest.mark.parametrize(
    "head",
    [
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x07",
        b"\0\0\0\x65",
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_an_impossible_length_is_refused_before_its_bytes_are_read(head):
    with pytest.raises(MalformedRequest, match="not 8 to 100"):
        requests([head])


@pytest.mark.parametrize("end", range(1, len(REQUEST)))
def test_a_connection_that_ends_within_a_request_is_an_error(end):
    with pytest.raises(MalformedRequest, match="the connection ended"):
        requests([REQUEST[:end]])


def order_of(most: int, *wanted: tuple[str, int]) -> list[str]:
    """The owners that get room while the first one holds its bytes, then "free", then the others."""

    async def main() -> list[str]:
        budget, order = ByteBudget(most), list[str]()

        async def other(owner: str, size: int) -> None:
            async with budget.room(size, owner):
                order.append(owner)

        (owner, size), *others = wanted
        async with trio.open_nursery() as nursery, budget.room(size, owner):
            for each in others:
                nursery.start_soon(other, *each)
                await trio.testing.wait_all_tasks_blocked()
            order.append("free")
        return order

    return trio.run(main)


def test_bytes_above_the_budget_wait_for_room():
    assert order_of(100, ("a", 60), ("b", 60), ("c", 60)) == ["free", "b", "c"]


def test_one_owner_leaves_half_of_the_room_to_others():
    assert order_of(100_000, ("a", 40_000), ("a", 20_000), ("b", 60_000)) == ["b", "free", "a"]


def test_a_small_request_waits_for_nobody():
    assert order_of(1 << 20, ("a", 1 << 20), ("b", 1000), ("b", 20_000)) == ["b", "free", "b"]


def test_a_request_above_the_whole_budget_passes_alone():
    assert order_of(10, ("a", 1000)) == ["free"]
