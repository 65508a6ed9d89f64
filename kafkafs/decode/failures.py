"""What can stop decoding besides damage: nobody waits any more, or the file is another one by now."""

from __future__ import annotations

from engine.errors import DamagedFileError, KafkaStorageError


class KafkaFsError(KafkaStorageError):
    """The root of the views' own errors."""


class Cancelled(KafkaFsError):
    """The caller of a long operation said that nobody waits for it any more; what was done is kept."""


class ChangedFileError(DamagedFileError):
    """A file does not hold any more what was read from it before: the log was truncated under a reader."""
