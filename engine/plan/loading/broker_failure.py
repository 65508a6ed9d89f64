"""Failures of a broker's loading: Kafka's exception, and the outcome for the broker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import Enum

from engine.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptRecordError,
    DecompressionError,
    InvalidOffsetError,
    InvalidRecordError,
    InvalidTxnStateError,
    KafkaStorageError,
    LimitExceededError,
    LogDirFailureError,
    OffsetOverflowError,
    ProducerStateError,
    StateError,
    UnsupportedCodecError,
)
from engine.files.file_names import PARTITION_METADATA, FileKind
from engine.files.read_failures import failure_text
from engine.files.unreadable import MEDIA_ERRORS
from engine.rights.file_rights import Denied


class Outcome(Enum):
    """Outcome of a log's loading, the worst last.

    LOADS: clients can use the log.
    LOG_DIR_OFFLINE: an I/O error for Kafka. The broker no longer uses the log dir; without another one it halts.
    BROKER_STOPS: any other exception. The broker does not start.
    UNKNOWN: the files could not be read here.
    """

    LOADS = "loads"
    LOG_DIR_OFFLINE = "log-dir-offline"
    BROKER_STOPS = "broker-does-not-start"
    UNKNOWN = "unknown"


_DENIED = "AccessDeniedException"
_AT_ONCE = ("IOException", "MalformedInputException")
"""Exceptions of checkpoints and partition.metadata; those of the loader only count when all logs are loaded."""


class BrokerFailure(Exception):
    """A broker does not load a log.

    Attributes:
        outcome: outcome for the broker.
        java: class name of Kafka's exception; "" if unknown.
        reason: a sentence.
    """

    def __init__(self, outcome: Outcome, java: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.java = java
        self.reason = reason

    @property
    def is_denied(self) -> bool:
        """Whether the broker's user may not use a file."""
        return self.java == _DENIED

    @property
    def at_once(self) -> bool:
        """Whether the log dir goes offline at once, not only after all logs are loaded."""
        return self.outcome is Outcome.LOG_DIR_OFFLINE and self.java in _AT_ONCE


def stops(java: str, reason: str) -> BrokerFailure:
    """Return a failure that ends the start."""
    return BrokerFailure(Outcome.BROKER_STOPS, java, reason)


def offline(java: str, reason: str) -> BrokerFailure:
    """Return a failure that takes the log dir offline."""
    return BrokerFailure(Outcome.LOG_DIR_OFFLINE, java, reason)


def denied(found: Iterable[Denied], risks: list[str]) -> BrokerFailure | None:
    """Return the failure of a broker whose user may not use files.

    None if there are none, or if they cannot be looked at, which is told where they are read. What a broker meets
    only after its start is added to `risks`.
    """
    try:
        files = list(found)
    except OSError:
        return None
    late = [each for each in files if each.is_late]
    if late:
        risks.append(f"{_denied(late)}: the log dir goes offline once the broker looks into it")
    at_start = [each for each in files if not each.is_late]
    return offline(_DENIED, _denied(at_start)) if at_start else None


def _denied(files: Sequence[Denied]) -> str:
    more = f"; {len(files) - 1} more are like it: kafkafs check names them" if files[1:] else ""
    return f"{files[0].path}: {files[0].sentence}{more}"


def unreadable(error: Exception, *, ends_start: bool = False) -> BrokerFailure:
    """Return the failure of a file that cannot be read here.

    Args:
        error: why not.
        ends_start: whether a broker that gets the same error does not start; otherwise the log dir goes offline.
    """
    reason = f"it cannot be read here: {failure_text(error)}"
    if isinstance(error, OSError) and error.errno in MEDIA_ERRORS:
        then = "does not start" if ends_start else "takes the log dir offline"
        reason += f"; a broker that gets this error too {then}"
    return BrokerFailure(Outcome.UNKNOWN, "", reason)


_JAVA: tuple[tuple[type[Exception], str], ...] = (
    (DecompressionError, "KafkaException"),
    (CorruptRecordError, "CorruptRecordException"),
    (InvalidRecordError, "InvalidRecordException"),
    (CorruptIndexError, "CorruptIndexException"),
    (UnsupportedCodecError, "IllegalArgumentException"),
    (InvalidTxnStateError, "InvalidTxnStateException"),
    (ProducerStateError, "ApiException"),
    (InvalidOffsetError, "InvalidOffsetException"),
    (OffsetOverflowError, "IndexOffsetOverflowException"),
    (StateError, "IllegalStateException"),
    (KafkaStorageError, "KafkaException"),
    (ValueError, "IllegalArgumentException"),
    (OverflowError, "IllegalArgumentException"),
    (LookupError, "IllegalStateException"),
    (StopIteration, "NoSuchElementException"),
)


EXPECTED = (
    BrokerFailure,
    KafkaStorageError,
    OSError,
    ValueError,
    LookupError,
    ArithmeticError,
    MemoryError,
    StopIteration,
)
"""Errors of our loading code."""


def _opened_folder(path: str) -> str:
    """Return Java's exception for a folder that is opened as a file."""
    name = os.path.basename(path)
    if name in (PARTITION_METADATA, FileKind.LEADER_EPOCH_CHECKPOINT.value):
        return "IOException"  # it opens these to read, and that fails later
    is_index = name.endswith((FileKind.OFFSET_INDEX.value, FileKind.TIME_INDEX.value))
    return "FileNotFoundException" if is_index else "FileSystemException"


def failure_of(error: Exception, *, ends_start: bool = False) -> BrokerFailure:
    """Return a broker's failure for an error of our loading code; `ends_start` as for `unreadable`.

    An OSError here means nothing for a broker, except for a file that is missing or is a folder: a broker finds that, too.
    """
    if isinstance(error, BrokerFailure):
        return error
    cause = error.__cause__
    if isinstance(error, LogDirFailureError) and isinstance(cause, Exception):
        return failure_of(cause, ends_start=ends_start)
    if isinstance(error, FileNotFoundError):
        return offline("NoSuchFileException", str(error))
    if isinstance(error, IsADirectoryError):
        return offline(_opened_folder(str(error.filename)), f"{error.filename} is a folder")
    if isinstance(error, OSError | LimitExceededError | CorruptCheckpointError | MemoryError):
        return unreadable(error, ends_start=ends_start)
    for kind, java in _JAVA:
        if isinstance(error, kind):
            return stops(java, str(error))
    raise error
