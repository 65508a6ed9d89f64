"""leader-epoch-checkpoint of a partition: the start offset of each leader epoch, as "epoch offset" lines."""

from __future__ import annotations

from collections.abc import Iterable

from engine.checkpoint.checkpoint_file import parse_checkpoint, render_checkpoint
from engine.checkpoint.decimal_text import parse_int32, parse_int64
from engine.units import EpochEntry


def parse_leader_epochs(data: bytes, *, path: str | None = None) -> list[EpochEntry]:
    """Return the entries in the file's order, which may differ from the order of epochs.

    Raises CorruptCheckpointError, also for negative numbers, and LimitExceededError.
    """
    return parse_checkpoint(data, _entry, path=path)


def render(entries: Iterable[EpochEntry]) -> bytes:
    """Return the file of these entries.

    >>> render([EpochEntry(0, 0), EpochEntry(3, 120)])
    b'0\\n2\\n0 0\\n3 120\\n'
    """
    return render_checkpoint(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def _entry(words: list[str]) -> EpochEntry:
    epoch, start_offset = words
    entry = EpochEntry(parse_int32(epoch), parse_int64(start_offset))
    if min(entry) < 0:
        raise ValueError("negative")
    return entry
