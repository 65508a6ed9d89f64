"""What a batch's frame (offset, length, magic) can do wrong, in words."""

from __future__ import annotations

from engine.columns.batch_table import Stop
from engine.errors import CorruptRecordError, LimitExceededError

SMALLEST_LENGTH = 14
LOG_OVERHEAD = 12
UP_TO_MAGIC = 17
"""Bytes of a header that must be there to tell its batch's size and magic."""
SMALLEST_BATCH = {0: 26, 1: 34, 2: 61}
"""Bytes on disk of a batch without records, or a message with null key and value, by magic."""


def frame_error(stop: int, position: int, length: int, magic: int) -> Exception:
    """The error for a walk that ended at a frame which cannot be a batch's."""
    if stop == Stop.UNKNOWN_MAGIC:
        return CorruptRecordError(
            "unknown magic", position=position, expected="0, 1 or 2", found=magic
        )
    if stop == Stop.TOO_LARGE:
        return LimitExceededError(
            f"a batch states a length of {length} bytes", limit="batch_bytes", position=position
        )
    smallest = SMALLEST_BATCH.get(magic, 26) - LOG_OVERHEAD if length >= SMALLEST_LENGTH else 14
    return CorruptRecordError(
        "batch length too small", position=position, expected=f"{smallest} or more", found=length
    )
