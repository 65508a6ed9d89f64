"""Words for the errors in a batch's frame (offset, length, magic)."""

from __future__ import annotations

from engine.columns.batch_table import Stop
from engine.errors import CorruptRecordError, LimitExceededError
from engine.record.batch_frame import LOG_OVERHEAD, SMALLEST_BATCH, SMALLEST_LENGTH


def frame_error(stop: int, position: int, length: int, magic: int) -> Exception:
    """Return the error for a walk that ended at an impossible frame."""
    if stop == Stop.UNKNOWN_MAGIC:
        return CorruptRecordError(
            "unknown magic", position=position, expected="0, 1 or 2", found=magic
        )
    if stop == Stop.TOO_LARGE:
        return LimitExceededError(
            f"a batch states a length of {length} bytes", limit="batch_bytes", position=position
        )
    smallest = SMALLEST_LENGTH
    if length >= SMALLEST_LENGTH and magic in SMALLEST_BATCH:
        smallest = SMALLEST_BATCH[magic] - LOG_OVERHEAD
    return CorruptRecordError(
        "batch length too small", position=position, expected=f"{smallest} or more", found=length
    )
