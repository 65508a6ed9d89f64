"""Limits on the cost of an input; each field is an option of the commands."""

from __future__ import annotations

from dataclasses import dataclass

MiB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Limits that apply whatever the bytes state; exceeding one is an error at that place."""

    batch_bytes: int = 256 * MiB
    """Largest batch on disk, in bytes."""
    inflated_bytes: int = 64 * MiB
    """Largest size of a batch's decompressed records, in bytes."""
    records_per_batch: int = 1_000_000
    headers_per_record: int = 10_000
    open_files: int = 512
    """Most source files that stay open for reuse, besides those in use."""
    cached_bytes: int = 64 * MiB
    """Most bytes of decoded text in the cache."""
    key_map_bytes: int = 64 * MiB
    """Most bytes of the maps of keys that look-ups by key make."""
    checkpoint_bytes: int = 64 * MiB
    """Largest checkpoint, snapshot or metadata file, in bytes."""
    replayed_bytes: int = 512 * MiB
    """Most bytes of memory for the state of one partition of an internal topic."""


DEFAULT_BUDGETS = Budgets()
