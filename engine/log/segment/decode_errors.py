"""The exception for a batch that does not decode whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.columns.batch_table import BatchProblem, Problem
from engine.errors import (
    CorruptRecordError,
    InvalidRecordError,
    LimitExceededError,
    UnsupportedCodecError,
)
from engine.log.segment.scan import BatchRun


def decode_error(problem: BatchProblem, path: str, run: BatchRun, row: int = 0) -> Exception:
    """The error for a batch that does not decode whole."""
    facts: Mapping[str, Any] = {
        "path": path,
        "position": int(run.table["position"][row]),
    }
    if problem.code == Problem.CODEC_MISSING:
        return UnsupportedCodecError(problem.detail)
    if problem.code == Problem.LIMIT:
        return LimitExceededError(problem.detail, limit="inflated_bytes", **facts)
    if problem.code == Problem.DECOMPRESSION:
        return CorruptRecordError(problem.detail, **facts)
    return InvalidRecordError(problem.detail, index=problem.record_index, **facts)
