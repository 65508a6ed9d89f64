"""What ends the loading of a log in a broker: which exception, and what a broker does about it."""

from __future__ import annotations

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
    UnreadableError,
    UnsupportedCodecError,
)
from engine.files.read_failures import failure_text


class Outcome(Enum):
    """What becomes of a log, the worst last.

    LOADS: it is there for clients.
    LOG_DIR_OFFLINE: an I/O error in Kafka's eyes. The log dir is not used any more, with all its logs; a
        broker whose log dirs all failed halts.
    BROKER_STOPS: any other exception. The broker does not start.
    UNKNOWN: what is on the disk could not be read here, so nothing can be told.
    """

    LOADS = "loads"
    LOG_DIR_OFFLINE = "log-dir-offline"
    BROKER_STOPS = "broker-does-not-start"
    UNKNOWN = "unknown"


_AT_ONCE = ("IOException", "MalformedInputException")
"""What checkpoints and partition.metadata throw; Kafka's LogManager only collects what the loader throws."""


class BrokerFailure(Exception):
    """A log that a broker does not load.

    Attributes:
        outcome: what comes of it.
        java: the exception in Kafka, by its class name; "" where nobody knows.
        reason: a sentence.
    """

    def __init__(self, outcome: Outcome, java: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.java = java
        self.reason = reason

    @property
    def at_once(self) -> bool:
        """Whether a log dir that it takes out is out at once, not only when all logs are loaded."""
        return self.outcome is Outcome.LOG_DIR_OFFLINE and self.java in _AT_ONCE


def stops(java: str, reason: str) -> BrokerFailure:
    """An exception that the broker does not survive."""
    return BrokerFailure(Outcome.BROKER_STOPS, java, reason)


def offline(java: str, reason: str) -> BrokerFailure:
    """An exception that takes the log dir out."""
    return BrokerFailure(Outcome.LOG_DIR_OFFLINE, java, reason)


def unreadable(error: Exception) -> BrokerFailure:
    """What is on the disk cannot be read here: nothing can be told."""
    reason = f"it cannot be read here: {failure_text(error)}"
    if isinstance(error, UnreadableError):
        reason += "; a broker that gets this error too takes the log dir offline"
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
"""What loading code raises."""


def failure_of(error: Exception) -> BrokerFailure:
    """What an error of our loading code is in a broker.

    An OSError is our own trouble with the source, and says nothing of a broker's; but not that a file is gone
    in the midst of it all, which is a broker's too.
    """
    if isinstance(error, BrokerFailure):
        return error
    cause = error.__cause__
    if isinstance(error, LogDirFailureError) and isinstance(cause, Exception):
        return failure_of(cause)
    if isinstance(error, FileNotFoundError):
        return offline("NoSuchFileException", str(error))
    if isinstance(error, OSError | LimitExceededError | CorruptCheckpointError | MemoryError):
        return unreadable(error)
    for kind, java in _JAVA:
        if isinstance(error, kind):
            return stops(java, str(error))
    raise error
