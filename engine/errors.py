"""Errors of the engine: few classes, each with the facts.

For damage a subclass of DamagedFileError, with the file, the byte position, the expected and the
found value. For a wrong argument ValueError or a subclass. For a missing record None, or
OffsetOutOfRangeError.
"""

from __future__ import annotations

import errno as _errno
import os
from typing import Any


class KafkaStorageError(Exception):
    """Root of all errors of the engine. A process may raise them again that another one has sent."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[KafkaStorageError], args: Any, facts: dict[str, Any]) -> KafkaStorageError:  # noqa: ANN401
    """Return an error with its facts; the arguments of its constructor are not known."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


class DamagedFileError(KafkaStorageError):
    """Bytes of a file contradict its format.

    Attributes:
        reason: one sentence without the facts below.
        path: path of the file, for messages; None if the bytes came from a buffer.
        position: absolute byte position of the damage in the file.
        expected, found: value that the format requires and value in the bytes, if relevant.
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
        text = self.reason + _stated(self.expected, self.found)
        if self.path is not None:
            text += f" in {self.path}"
        if self.position is not None:
            text += f" at byte {self.position}"
        return text


def _stated(expected: object, found: object) -> str:
    """Return the end of a sentence with the expected and the found value, as far as there are such."""
    stated = {"expected": expected, "found": found}
    facts = [f"{name} {value}" for name, value in stated.items() if value is not None]
    return f": {', '.join(facts)}" if facts else ""


class CorruptRecordError(DamagedFileError):
    """A batch's frame (length, magic, checksum) is wrong."""


class DecompressionError(CorruptRecordError):
    """A batch's compressed bytes do not inflate; `partial` has the output before the damage."""

    def __init__(self, reason: str, *, partial: bytes = b"", **facts: object) -> None:
        super().__init__(reason, **facts)  # type: ignore[arg-type]
        self.partial = partial


class InvalidRecordError(DamagedFileError):
    """A record in a batch with a valid checksum breaks the format; `index` is its index in the batch."""

    def __init__(self, reason: str, *, index: int | None = None, **facts: object) -> None:
        super().__init__(reason, **facts)  # type: ignore[arg-type]
        self.index = index


class CorruptIndexError(DamagedFileError):
    """An index contradicts itself."""


class CorruptMessageError(DamagedFileError):
    """Bytes do not parse as a message; `position` counts from the buffer's start.

    Attributes:
        kafka_says: message of the exception that Kafka's reader throws; None without a message.
    """

    def __init__(self, reason: str, *, kafka_says: str | None = None, **facts: object) -> None:
        super().__init__(reason, **facts)  # type: ignore[arg-type]
        self.kafka_says = kafka_says


class UnknownVersionError(CorruptMessageError):
    """A message of an unknown type or version."""


class CorruptSnapshotError(DamagedFileError):
    """A producer snapshot does not parse or its checksum is wrong."""


class CorruptCheckpointError(DamagedFileError):
    """A checkpoint, partition.metadata or meta.properties file does not parse; `line` counts from 1."""

    def __init__(self, reason: str, *, line: int | None = None, **facts: object) -> None:
        super().__init__(reason if line is None else f"{reason} (line {line})", **facts)  # type: ignore[arg-type]
        self.line = line


class LimitExceededError(DamagedFileError):
    """Bytes exceed a budget; `limit` names the budget's field."""

    def __init__(self, reason: str, *, limit: str, **facts: object) -> None:
        super().__init__(reason, **facts)  # type: ignore[arg-type]
        self.limit = limit


class UnsupportedCodecError(KafkaStorageError):
    """The library of a codec is not installed; the message names the package."""


class InvalidOffsetError(KafkaStorageError, ValueError):
    """An offset that the operation does not accept."""


class OffsetOutOfRangeError(KafkaStorageError, LookupError):
    """An offset below the log start or past the log end."""


class OffsetOverflowError(KafkaStorageError, OverflowError):
    """An offset more than 31 bits above its segment's base offset."""


class InvalidNameError(KafkaStorageError, ValueError):
    """A file, folder or topic name that Kafka would not have written."""


class SourceRefusedError(KafkaStorageError, OSError):
    """A source entry that is refused: a link, a device, a FIFO, another file system."""

    def __init__(self, reason: str, path: str) -> None:
        KafkaStorageError.__init__(self, reason)
        self.errno = _errno.EIO
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


STORE_FAILURES = {
    _errno.EREMCHG: "the object was changed in the store after it was listed",
    _errno.ENOMEDIUM: "the object is no longer in the store",
    _errno.EKEYREJECTED: "the store refuses access to the object",
    _errno.ENONET: "the object is archived",
    _errno.EUSERS: "the store asks for fewer requests",
    _errno.ENOLINK: "the store does not answer",
    _errno.ECOMM: "the store answers with an error",
    _errno.ENOSR: "no room is left for a private copy",
}
"""What each errno of an object's bytes means; no file system uses them."""


class UnreadableError(OSError):
    """Bytes of a file that the device cannot read.

    Attributes:
        path: path of the file, for messages.
        position, length: unreadable stretch of the file, in whole blocks except at the end of the file.
        cause: why, if that tells more than the errno.
        reason: one sentence with the stretch and the cause, or else the system's error.
    """

    def __init__(self, errno: int, path: str, position: int, length: int, cause: str = "") -> None:
        reason = self.sentence(position, length, errno, cause)
        super().__init__(errno, reason, path)
        self.path = path
        self.position = position
        self.length = length
        self.cause = cause
        self.reason = reason

    @staticmethod
    def sentence(position: int, length: int, errno: int, cause: str = "") -> str:
        """Return the reason, for a stretch, an errno and a cause.

        One byte is all of a file whose size is not known; devices fail by larger blocks.
        """
        if errno == _errno.ENOKEY:
            return cause
        why = cause or STORE_FAILURES.get(errno) or os.strerror(errno)
        if (position, length) == (0, 1):
            return f"the file cannot be read, nor its size ({why})"
        return f"{length} bytes at byte {position} cannot be read ({why})"

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    def __reduce__(self) -> tuple[type[UnreadableError], tuple[int | None, str, int, int, str]]:
        return type(self), (self.errno, self.path, self.position, self.length, self.cause)


class SourceGoneError(OSError):
    """The folder of a source is gone: deleted, emptied, unmounted or replaced, or its disk failed."""

    def __init__(self, number: int, reason: str, path: str) -> None:
        super().__init__(number, reason, path)
        self.reason = reason


class SourceError(KafkaStorageError):
    """A source that cannot be opened at all: one sentence, and a hint on what to do."""

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class StateError(KafkaStorageError, RuntimeError):
    """An operation that does not fit the object's state, such as appending to a closed builder."""


class InvalidTimestampError(KafkaStorageError, ValueError):
    """A timestamp that is not allowed, or too far from the clock; `batch_index_errors` as in RecordValidationError."""

    def __init__(self, reason: str, batch_index_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(reason)
        self.batch_index_errors = batch_index_errors


class RecordTooLargeError(KafkaStorageError, ValueError):
    """A batch larger than max.message.bytes."""


class RecordBatchTooLargeError(KafkaStorageError, ValueError):
    """Batches that together are larger than a segment may be."""


class RecordValidationError(KafkaStorageError, ValueError):
    """Records refused by a leader.

    Attributes:
        batch_index_errors: index of each record in its batch, with the reason.
    """

    def __init__(self, reason: str, batch_index_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(reason)
        self.batch_index_errors = batch_index_errors


class UnsupportedForMessageFormatError(KafkaStorageError, ValueError):
    """A feature that the format of an older magic does not have."""


class ProducerStateError(KafkaStorageError, ValueError):
    """An append that contradicts the producer's state."""


class InvalidProducerEpochError(ProducerStateError):
    """An epoch below the producer's newest epoch."""


class OutOfOrderSequenceError(ProducerStateError):
    """A sequence that does not follow the producer's last one."""


class InvalidTxnStateError(ProducerStateError):
    """A marker or a record that does not fit the producer's transaction."""


class TransactionCoordinatorFencedError(ProducerStateError):
    """A marker of a coordinator that is no longer the newest."""


class OffsetsOutOfOrderError(InvalidOffsetError):
    """A follower's batches have offsets that do not ascend."""


class UnexpectedAppendOffsetError(InvalidOffsetError):
    """A follower's batches start below the log end.

    Attributes:
        first_offset, last_offset: offsets of the batches.
    """

    def __init__(self, reason: str, first_offset: int, last_offset: int) -> None:
        super().__init__(reason)
        self.first_offset = first_offset
        self.last_offset = last_offset


class InconsistentTopicIdError(KafkaStorageError, ValueError):
    """A topic id that differs from the one in partition.metadata."""


class InconsistentBrokerMetadataError(KafkaStorageError):
    """Log dirs with contradictory meta.properties."""


class LogDirFailureError(KafkaStorageError, OSError):
    """A log dir that cannot be used any more, or not now; `log_dir` is its path, `errno` the reason if known."""

    def __init__(self, reason: str, log_dir: str, errno: int | None = None) -> None:
        KafkaStorageError.__init__(self, reason)
        self.reason = reason
        self.log_dir = log_dir
        self.errno = errno

    def __str__(self) -> str:
        return self.reason


class DirectoryLockedError(KafkaStorageError):
    """A log dir locked by another process; `pid` is its process id, if known."""

    def __init__(self, reason: str, pid: int | None = None) -> None:
        super().__init__(reason)
        self.pid = pid


class LogCleaningAbortedError(KafkaStorageError):
    """A cleaning that was aborted."""


class ThreadShutdownError(KafkaStorageError):
    """A background task that was stopped."""
