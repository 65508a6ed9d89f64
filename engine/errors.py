"""What can be wrong with a log: few classes, each with the facts.

The disk lies: a subclass of DamagedFileError, with the file, the byte position, what was expected and
what was found. The caller lies: ValueError and its kin. Not there: None, or OffsetOutOfRangeError.
"""

from __future__ import annotations

import errno as _errno
import os


class KafkaStorageError(Exception):
    """Root of all errors of the engine."""


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


class CorruptMessageError(DamagedFileError):
    """Bytes are not the message that they should be; `position` counts from the buffer's start.

    Attributes:
        kafka_says: the message of the exception that Kafka's own reading ends with; None: it has none.
    """

    def __init__(self, reason: str, *, kafka_says: str | None = None, **facts: object) -> None:
        super().__init__(reason, **facts)  # type: ignore[arg-type]
        self.kafka_says = kafka_says


class UnknownVersionError(CorruptMessageError):
    """A message of a type or version that is not known here."""


class CorruptSnapshotError(DamagedFileError):
    """A producer snapshot does not parse or its checksum is wrong."""


class CorruptCheckpointError(DamagedFileError):
    """A checkpoint, partition.metadata or meta.properties file does not parse; `line` counts from 1."""

    def __init__(self, reason: str, *, line: int | None = None, **facts: object) -> None:
        super().__init__(reason if line is None else f"{reason} (line {line})", **facts)  # type: ignore[arg-type]
        self.line = line


class LimitExceededError(DamagedFileError):
    """Bytes ask for more than a budget allows; `limit` names the budget's field."""

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


class UnreadableError(OSError):
    """Bytes of a file that the device cannot read.

    Attributes:
        path: the file, as shown to people.
        position, length: the unreadable stretch of the file, in whole blocks but for the file's end.
        reason: one sentence with the stretch and the system's error.
    """

    def __init__(self, errno: int, path: str, position: int, length: int) -> None:
        reason = self.sentence(position, length, errno)
        super().__init__(errno, reason, path)
        self.path = path
        self.position = position
        self.length = length
        self.reason = reason

    @staticmethod
    def sentence(position: int, length: int, errno: int) -> str:
        """Return the reason, for a stretch and an errno."""
        return f"{length} bytes at byte {position} cannot be read ({os.strerror(errno)})"

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    def __reduce__(self) -> tuple[type[UnreadableError], tuple[int | None, str, int, int]]:
        return type(self), (self.errno, self.path, self.position, self.length)


class SourceGoneError(OSError):
    """Folder of a source is no longer there: deleted, emptied, unmounted, replaced, or its disk is gone."""

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
    """An operation that does not fit what was done before: appending to a closed builder, and the like."""


class InvalidTimestampError(KafkaStorageError, ValueError):
    """A timestamp that is not allowed, or too far from the clock; `batch_index_errors` as in RecordValidationError."""

    def __init__(self, reason: str, batch_index_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(reason)
        self.batch_index_errors = batch_index_errors


class RecordTooLargeError(KafkaStorageError, ValueError):
    """A batch larger than max.message.bytes."""


class RecordBatchTooLargeError(KafkaStorageError, ValueError):
    """Batches that are together larger than a segment may be."""


class RecordValidationError(KafkaStorageError, ValueError):
    """Records that a leader refuses.

    Attributes:
        batch_index_errors: the place of each in its batch, and what is wrong with it.
    """

    def __init__(self, reason: str, batch_index_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(reason)
        self.batch_index_errors = batch_index_errors


class UnsupportedForMessageFormatError(KafkaStorageError, ValueError):
    """Something that the format of an older magic cannot hold."""


class ProducerStateError(KafkaStorageError, ValueError):
    """An append that contradicts what is known of its producer."""


class InvalidProducerEpochError(ProducerStateError):
    """An epoch below the producer's newest."""


class OutOfOrderSequenceError(ProducerStateError):
    """A sequence that does not follow the producer's last."""


class InvalidTxnStateError(ProducerStateError):
    """A marker or a record that does not fit the producer's transaction."""


class TransactionCoordinatorFencedError(ProducerStateError):
    """A marker of a coordinator that is not the newest any more."""


class OffsetsOutOfOrderError(InvalidOffsetError):
    """A follower's batches whose offsets do not ascend."""


class UnexpectedAppendOffsetError(InvalidOffsetError):
    """A follower's batches that begin before the log's end.

    Attributes:
        first_offset, last_offset: of what was to be appended.
    """

    def __init__(self, reason: str, first_offset: int, last_offset: int) -> None:
        super().__init__(reason)
        self.first_offset = first_offset
        self.last_offset = last_offset


class InconsistentTopicIdError(KafkaStorageError, ValueError):
    """A topic id other than the one that partition.metadata has."""


class InconsistentBrokerMetadataError(KafkaStorageError):
    """Log dirs whose meta.properties contradict each other."""


class LogDirFailureError(KafkaStorageError, OSError):
    """A log dir that cannot be used any more, or not now; `log_dir` is which, `errno` why when it is known."""

    def __init__(self, reason: str, log_dir: str, errno: int | None = None) -> None:
        KafkaStorageError.__init__(self, reason)
        self.reason = reason
        self.log_dir = log_dir
        self.errno = errno

    def __str__(self) -> str:
        return self.reason


class DirectoryLockedError(KafkaStorageError):
    """A log dir that another process holds; `pid` is which, when the system says so."""

    def __init__(self, reason: str, pid: int | None = None) -> None:
        super().__init__(reason)
        self.pid = pid


class LogCleaningAbortedError(KafkaStorageError):
    """A cleaning that was told to stop."""


class ThreadShutdownError(KafkaStorageError):
    """A background task that was told to end."""
