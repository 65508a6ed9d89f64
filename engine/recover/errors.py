"""Errors of a recovery that makes no log dirs."""

from __future__ import annotations

from engine.errors import KafkaStorageError


class RecoverRefusedError(KafkaStorageError):
    """A refused recovery: the reason, and what to do instead."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"{reason}; {hint}")
        self.reason = reason
        self.hint = hint
