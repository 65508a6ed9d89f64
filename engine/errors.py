"""What can be wrong with a log: few classes, each with the facts.

The disk lies: a subclass of DamagedFileError, with the file, the byte position, what was expected and
what was found. The caller lies: ValueError and its kin. Not there: None, or OffsetOutOfRangeError.
"""

from __future__ import annotations

import errno as _errno


class KafkaStorageError(Exception):
    """The root of all errors of the engine."""


class DamagedFileError(KafkaStorageError):
    """Bytes of a file contradict its format.

    Attributes:
        reason: one sentence without the facts below.
        path: the file, as shown to people; None when the bytes came from a buffer.
        position: absolute byte position in the file where the damaged thing starts.
        expected, found: what the format asks for and what the bytes say, when that is the point.
    """

    def __init__(
        self,
        reason: str,
        *,
        path: str | None = None,
        position: int | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.position = position
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        text = self.reason
        if self.expected is not None or self.found is not None:
            text += f": expected {self.expected}, found {self.found}"
        if self.path is not None:
            text += f" in {self.path}"
        if self.position is not None:
            text += f" at byte {self.position}"
        return text


class CorruptRecordError(DamagedFileError):
    """A batch's frame (length, magic, checksum) is wrong."""


class DecompressionError(CorruptRecordError):
    """A batch's compressed bytes do not inflate; `partial` is what came out before the damage."""

    def __init__(self, reason: str, *, partial: bytes = b"", **facts: object) -> None:
        super().__init__(reason, **facts)  # type: ignore[arg-type]
        self.partial = partial


class InvalidRecordError(DamagedFileError):
    """A record inside a batch of the right checksum breaks the format; `index` is its place in the batch."""

    def __init__(self, reason: str, *, index: int | None = None, **facts: object) -> None:
        super().__init__(reason, **facts)  # type: ignore[arg-type]
        self.index = index


class CorruptIndexError(DamagedFileError):
    """An index contradicts itself."""


class CorruptSnapshotError(DamagedFileError):
    """A producer snapshot does not parse or its checksum is wrong."""


class CorruptCheckpointError(DamagedFileError):
    """A checkpoint, partition.metadata or meta.properties file does not parse; `line` counts from 1."""

    def __init__(self, reason: str, *, line: int | None = None, **facts: object) -> None:
        super().__init__(reason if line is None else f"{reason} (line {line})", **facts)  # type: ignore[arg-type]
        self.line = line


class LimitExceededError(DamagedFileError):
    """The bytes ask for more than a budget allows; `limit` names the budget's field."""

    def __init__(self, reason: str, *, limit: str, **facts: object) -> None:
        super().__init__(reason, **facts)  # type: ignore[arg-type]
        self.limit = limit


class UnsupportedCodecError(KafkaStorageError):
    """A codec whose library is not installed; the message names the package."""


class InvalidOffsetError(KafkaStorageError, ValueError):
    """An offset that the operation cannot take."""


class OffsetOutOfRangeError(KafkaStorageError, LookupError):
    """An offset below the log start or past the log end."""


class OffsetOverflowError(KafkaStorageError, OverflowError):
    """An offset too far from its segment's base for 31 bits."""


class InvalidNameError(KafkaStorageError, ValueError):
    """A file, folder or topic name that Kafka would not have written."""


class SourceRefusedError(KafkaStorageError, OSError):
    """A source entry that is not read on purpose: a link, a device, a FIFO, another file system."""

    def __init__(self, reason: str, path: str) -> None:
        KafkaStorageError.__init__(self, reason)
        self.errno = _errno.EIO
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class SourceError(KafkaStorageError):
    """A source that cannot be opened at all: one sentence, and a hint on what to do."""

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
