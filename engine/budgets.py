"""What an input may cost, in one place; each field is a flag of the commands."""

from __future__ import annotations

from dataclasses import dataclass

MiB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Bounds that hold whatever the bytes claim; what exceeds one is an error at its place."""

    batch_bytes: int = 256 * MiB
    """A batch as it lies on disk."""
    inflated_bytes: int = 64 * MiB
    """A batch's records after decompression."""
    records_per_batch: int = 1_000_000
    headers_per_record: int = 10_000
    open_files: int = 512
    """Source files held open at once, besides those in use."""
    cached_bytes: int = 64 * MiB
    """Decoded text kept for reuse."""
    checkpoint_bytes: int = 64 * MiB
    """A checkpoint, snapshot or metadata file."""
    replayed_bytes: int = 512 * MiB
    """The state of one partition of an internal topic, in memory."""


DEFAULT_BUDGETS = Budgets()
