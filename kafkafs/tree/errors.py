"""Errors of the tree: a missing node, or bytes that cannot be returned.

Damage is raised by the engine as a DamagedFileError, a missing codec as an UnsupportedCodecError. The tree does
not know errno values; `kafkafs/fuse/errnos.py` has the table.
"""

from __future__ import annotations

from kafkafs.decode.failures import Cancelled, ChangedFileError, KafkaFsError

__all__ = [
    "Cancelled",
    "ChangedFileError",
    "KafkaFsError",
    "MaskedError",
    "NotADirectory",
    "NotFound",
]

BYTES = (
    "has bytes of records, which cannot be masked: read records/, committed/ or offset/N, which are"
)
NAMES = "has keys of records as names, which the mask hides: search the lines of records/"
REPLAYED = (
    "is made of records of {}, which the mask hides: leave that topic out of the policy to see it"
)


class NotFound(KafkaFsError, LookupError):
    """The path does not exist: an invalid name, or a record, file or partition that is not there."""

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(path)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.reason or 'no such file or folder'}"


class NotADirectory(KafkaFsError):
    """The path continues below a file or a link."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: not a folder"


class MaskedError(KafkaFsError):
    """The bytes, or a name, would show what a mask hides."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
