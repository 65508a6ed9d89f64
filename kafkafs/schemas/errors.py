"""Errors of schemas and of values that have one."""

from __future__ import annotations

from engine.errors import KafkaStorageError


class SchemaFileError(KafkaStorageError):
    """A file of schemas, or a file that maps topics to schemas, breaks its format.

    Attributes:
        reason: one sentence.
        path: path of the file.
    """

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason
        self.path = path


class UndecodableError(KafkaStorageError):
    """A key or value does not decode with a schema.

    Attributes:
        reason: one sentence.
        position: position of the byte in the key or value, or in its payload; None if none is to blame.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason if position is None else f"{reason}, at byte {position}")
        self.reason = reason
        self.position = position
