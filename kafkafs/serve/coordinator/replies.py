"""Answers that a client waits for until the others of its group are ready."""

from __future__ import annotations

import trio

from kafkafs.serve.coordinator.limits import ByteAccount
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields


class MemberRefused(Exception):
    """A request of a member that is answered with an error.

    Attributes:
        code: the error.
    """

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Reply:
    """The answer to one request; the first that is sent counts."""

    def __init__(self) -> None:
        self._sent = trio.Event()
        self._fields: Fields = {}

    def send(self, fields: Fields) -> None:
        """Give the answer."""
        if not self._sent.is_set():
            self._fields = fields
            self._sent.set()

    async def wait(self) -> Fields:
        """Return the answer once there is one."""
        await self._sent.wait()
        return self._fields


class WaitingRoom:
    """Requests that wait for their answers; each holds its bytes until then.

    Args:
        most: most bytes of all that wait.
    """

    def __init__(self, most: int) -> None:
        self._account = ByteAccount(most)

    def has_room(self, size: int) -> bool:
        """Return whether another request of `size` bytes may wait."""
        return self._account.has_room(size)

    async def answer(self, reply: Reply, size: int) -> Fields:
        """Return the answer to a request of `size` bytes once there is one."""
        self._account.held += size
        try:
            return await reply.wait()
        finally:
            self._account.held -= size
