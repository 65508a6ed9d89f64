"""What the tree answers when it has no node or no bytes to give.

Damage is not here: it comes up from the engine as a DamagedFileError with its facts, and a codec that is
not installed as an UnsupportedCodecError. No errno is known on this level; the FUSE adapter has the table.
"""

from __future__ import annotations

from kafkafs.decode.failures import Cancelled, ChangedFileError, KafkaFsError

__all__ = ["Cancelled", "ChangedFileError", "KafkaFsError", "NotADirectory", "NotFound"]


class NotFound(KafkaFsError, LookupError):
    """No such path: a name that means nothing, or a record, file or partition that is not there."""

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(path)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.reason or 'no such file or folder'}"


class NotADirectory(KafkaFsError):
    """A path goes on below a file or a link."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: not a folder"
