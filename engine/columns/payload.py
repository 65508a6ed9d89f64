"""Inflating a batch's payload where the fast way is not there or refused: what came out, and what is wrong."""

from __future__ import annotations

from engine.coding.compression import CompressionType, decompress
from engine.coding.layout import Buffer
from engine.columns.batch_table import Problem
from engine.errors import DecompressionError, LimitExceededError, UnsupportedCodecError


def inflate(
    codec: int, data: Buffer, *, limit: int, magic: int
) -> tuple[bytes, tuple[Problem, str] | None]:
    """Return the payload, or what came out before the damage together with the problem; never raises for damage."""
    try:
        return decompress(CompressionType(codec), data, limit=limit, magic=magic), None
    except DecompressionError as error:
        return error.partial, (Problem.DECOMPRESSION, error.reason)
    except LimitExceededError as error:
        return b"", (Problem.LIMIT, error.reason)
    except UnsupportedCodecError as error:
        return b"", (Problem.CODEC_MISSING, str(error))
