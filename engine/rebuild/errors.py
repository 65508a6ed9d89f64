"""Why no log dir was made."""

from __future__ import annotations

from engine.errors import KafkaStorageError


class RebuildRefusedError(KafkaStorageError):
    """What was asked for is not done: a reason, and what to do instead."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"{reason}; {hint}")
        self.reason = reason
        self.hint = hint


class RebuildFailedError(KafkaStorageError):
    """The log dir could not be made as it should be; nothing is left of it."""
