"""Requests on a connection: a length of four bytes, and as many bytes."""

from __future__ import annotations

from typing import Protocol

from engine.coding.fixed_width import read_int32
from kafkafs.serve.budgets import ServeBudgets

_LENGTH = 4
_READ = 64 * 1024
_SMALLEST = 8
"""Bytes: a request has at least a key, a version and a correlation id."""

_TLS = b"\x16\x03"
"""First bytes of a client that speaks TLS."""


class MalformedRequest(Exception):
    """A client sent bytes that are no request; its connection is closed."""


def whole_end(received: bytearray) -> int:
    """Return the end of the first request, which begins with its length; 0 if not all of its bytes have come."""
    if len(received) < _LENGTH:
        return 0
    end = _LENGTH + read_int32(received, 0)
    return end if _LENGTH <= end <= len(received) else 0


class ByteStream(Protocol):
    """The receiving side of a connection."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return some bytes, none at the end."""


class RequestReader:
    """Reads requests from a connection.

    Args:
        stream: the connection.
        budgets: limits.

    Attributes:
        received: the bytes that have come and belong to no request yet.
    """

    def __init__(self, stream: ByteStream, budgets: ServeBudgets) -> None:
        self._stream = stream
        self._budgets = budgets
        self.received = bytearray()

    async def has_more(self) -> bool:
        """Wait for the next byte; return False at the end of the connection."""
        if not self.received:
            self.received += await self._stream.receive_some(_READ)
        return bool(self.received)

    async def length(self, *, least: int = _SMALLEST, most: int | None = None) -> int:
        """Return the length of the next request, which follows.

        Args:
            least, most: limits of the length; by default those of a request.

        Raises:
            MalformedRequest: the length is impossible or above the limit, or the connection ended.
        """
        await self._fill(_LENGTH)
        length = read_int32(self.received, 0)
        limit = self._budgets.request_bytes if most is None else most
        if not least <= length <= limit:
            seen = bytes(self.received[:16])
            if seen.startswith(_TLS):
                raise MalformedRequest("the client speaks TLS, the server does not: see --tls-cert")
            raise MalformedRequest(
                f"the request states {length} bytes, not {least} to {limit};"
                f" it begins with {seen!r}"
            )
        return length

    async def body(self, length: int) -> bytes:
        """Return the bytes after the length.

        Raises:
            MalformedRequest: the connection ended within the request.
        """
        end = _LENGTH + length
        await self._fill(end)
        found = bytes(self.received[_LENGTH:end])
        self.drop(found)
        return found

    def whole(self) -> bytes | None:
        """Return the next request if all its bytes have come; it stays here until it is dropped."""
        end = whole_end(self.received)
        return bytes(self.received[_LENGTH:end]) if end else None

    def drop(self, frame: bytes) -> None:
        """Forget the next request."""
        del self.received[: _LENGTH + len(frame)]

    async def _fill(self, size: int) -> None:
        while len(self.received) < size:
            data = await self._stream.receive_some(_READ)
            if not data:
                raise MalformedRequest(
                    f"the connection ended after {len(self.received)} of {size} bytes of a request"
                )
            self.received += data
