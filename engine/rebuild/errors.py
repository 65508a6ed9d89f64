"""Errors of a rebuild that makes no log dir."""

from __future__ import annotations

from engine.errors import KafkaStorageError
from engine.files.read_failures import failure_text


class RebuildRefusedError(KafkaStorageError):
    """A refused rebuild: the reason, and what to do instead."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"{reason}; {hint}")
        self.reason = reason
        self.hint = hint


class CopyUnreadableError(KafkaStorageError):
    """A file or folder of a source cannot be read, so its partition is left out.

    Attributes:
        path, error: shown path of the file or folder, and the error.
    """

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(failure_text(error))
        self.path = path
        self.error = error


class RebuildFailedError(KafkaStorageError):
    """A log dir could not be made correctly; nothing is left of it."""
