"""Why no log dir was made."""

from __future__ import annotations

from engine.errors import KafkaStorageError
from engine.files.read_failures import failure_text


class RebuildRefusedError(KafkaStorageError):
    """What was asked for is not done: a reason, and what to do instead."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"{reason}; {hint}")
        self.reason = reason
        self.hint = hint


class CopyUnreadableError(KafkaStorageError):
    """A file or folder of a source that cannot be read, so that its partition is left out.

    Attributes:
        path, error: which, as shown to people, and why.
    """

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(failure_text(error))
        self.path = path
        self.error = error


class RebuildFailedError(KafkaStorageError):
    """Log dir could not be made as it should be; nothing is left of it."""
