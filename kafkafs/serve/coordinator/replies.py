"""Answers that a client waits for until the others of its group are ready."""

from __future__ import annotations

import trio

from kafkafs.serve.asked import Fields


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
