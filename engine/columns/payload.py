"""Inflate a batch's payload when the fast way is missing or failed: the bytes so far, and the problem."""

from __future__ import annotations

from engine.coding.compression import CompressionType, decompress
from engine.coding.layout import Buffer
from engine.columns.batch_table import Problem
from engine.errors import DecompressionError, LimitExceededError, UnsupportedCodecError


def inflate(
    codec: int, data: Buffer, *, limit: int, magic: int
) -> tuple[bytes, tuple[Problem, str] | None]:
    """Return the inflated payload, or the bytes before the damage with the problem. Never raises for damage."""
    try:
        return decompress(CompressionType(codec), data, limit=limit, magic=magic), None
    except DecompressionError as error:
        return error.partial, (Problem.DECOMPRESSION, error.reason)
    except LimitExceededError as error:
        return b"", (Problem.LIMIT, error.reason)
    except UnsupportedCodecError as error:
        return b"", (Problem.CODEC_MISSING, str(error))
