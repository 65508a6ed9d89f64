"""Sentences about bad batches and records, in Kafka's words if Kafka has some."""

from __future__ import annotations

from engine.columns.batch_table import BatchProblem, Problem
from engine.errors import (
    DamagedFileError,
    DecompressionError,
    InvalidRecordError,
    KafkaStorageError,
    LimitExceededError,
)
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import Damage
from engine.record.batch_frame import SMALLEST_LENGTH, UP_TO_MAGIC

_KAFKA = {
    Problem.DECOMPRESSION: "Failed to decompress record stream",
    Problem.RECORD_COUNT: "Incorrect declared batch size, premature EOF reached",
    Problem.LEFTOVER_BYTES: "Incorrect declared batch size, records still remaining in file",
    Problem.UNKNOWN_CODEC: "Unknown compression type id",
    Problem.INVALID_RECORD: "Found invalid record structure",
}


def stop_sentence(damage: Damage, path: str, end: int) -> str:
    """Return why there is no batch at a place."""
    left = end - damage.position
    found = 0 if damage.kind.is_zeros else damage.found
    is_length = damage.kind.is_zeros or damage.kind is DamageKind.BAD_LENGTH
    is_length &= left > UP_TO_MAGIC
    if is_length and found is not None and found < SMALLEST_LENGTH:
        return (
            f"Found record size {found} smaller than minimum record overhead"
            f" ({SMALLEST_LENGTH}) in file {path}."
        )
    return f"{damage.reason} in {path} at byte {damage.position}"


def problem_sentence(problem: BatchProblem, path: str, position: int) -> str:
    """Return why the records of a batch end early."""
    known = _KAFKA.get(problem.code)
    words = problem.detail if known is None else f"{known} ({problem.detail})"
    return f"{words} in {path}, batch at byte {position}, after {_records(problem.record_index)}"


def error_problem(error: KafkaStorageError, row: int, index: int) -> BatchProblem:
    """Return an engine error after `index` records as a BatchProblem."""
    code = Problem.INVALID_RECORD
    if isinstance(error, DecompressionError):
        code = Problem.DECOMPRESSION
    elif isinstance(error, LimitExceededError):
        code = Problem.LIMIT
    elif not isinstance(error, InvalidRecordError):
        code = Problem.CODEC_MISSING
    detail = error.reason if isinstance(error, DamagedFileError) else str(error)
    return BatchProblem(row, code, index, detail)


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
