"""Errors that stop decoding besides damage: cancelled, or the file was replaced."""

from __future__ import annotations

from engine.errors import DamagedFileError, KafkaStorageError


class KafkaFsError(KafkaStorageError):
    """Base class of errors raised by kafkafs."""


class Cancelled(KafkaFsError):
    """The caller cancelled a long operation; partial results are kept."""


class ChangedFileError(DamagedFileError):
    """A file no longer holds the bytes that were read before: the log was truncated while being read."""
