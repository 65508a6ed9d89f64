"""Errors of schemas and of values that have one."""

from __future__ import annotations

from engine.errors import KafkaStorageError

_MOST_REASON = 500


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
        reason = printable(reason)
        super().__init__(reason if position is None else f"{reason}, at byte {position}")
        self.reason = reason
        self.position = position


def undecodable(error: Exception, what: str) -> UndecodableError:
    """Return the error of a schema that was compiled, or of a value that was decoded, whatever went wrong.

    Schemas and values are hostile, and libraries read them: what nobody foresaw costs the value, not the stream.

    Args:
        error: what was raised.
        what: "the schema" or "the value".
    """
    if isinstance(error, UndecodableError):
        return UndecodableError(error.reason, error.position)
    if isinstance(error, RecursionError):
        return UndecodableError(f"{what} is nested too deeply")
    return UndecodableError(f"{what} cannot be read: {said(error)}"[:_MOST_REASON])


def said(error: Exception) -> str:
    """Return the text of an exception, with its type where it has none, or one that fails."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - protoc's errors fail so at bytes above 7F
        return name
    return text if isinstance(error, ValueError) and text else f"{name}: {text}" if text else name


def printable(text: str) -> str:
    """Return a text that UTF-8 can write: without half of a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode()
