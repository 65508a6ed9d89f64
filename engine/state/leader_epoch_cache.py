"""Leader epochs of a partition and their start offsets.

See LeaderEpochFileCache in Kafka; this is its reading half, immutable.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from engine.units import NO_PARTITION_LEADER_EPOCH, EpochEntry, Offset


class LeaderEpochCache:
    """Epochs and start offsets, both only growing.

    Entries are assigned in the given order as a broker does: an entry with an epoch or offset not
    above all earlier ones replaces those that contradict it. Raises ValueError for negative
    numbers.
    """

    __slots__ = ("_epochs", "_offsets")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[int] = []
        self._offsets: list[Offset] = []
        for entry in entries:
            self._assign(entry)

    def __repr__(self) -> str:
        return f"LeaderEpochCache({self.entries})"

    def __len__(self) -> int:
        return len(self._epochs)

    def __iter__(self) -> Iterator[EpochEntry]:
        return map(EpochEntry, self._epochs, self._offsets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeaderEpochCache) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, oldest first."""
        return list(self)

    @property
    def earliest(self) -> EpochEntry | None:
        """Oldest entry."""
        return self._entry(0) if self._epochs else None

    @property
    def latest(self) -> EpochEntry | None:
        """Newest entry."""
        return self._entry(len(self._epochs) - 1) if self._epochs else None

    def has_begun(self, epoch: int, offset: Offset) -> bool:
        """Return whether the newest entry has this epoch and starts at or below the offset."""
        return bool(self._epochs) and self._epochs[-1] == epoch and self._offsets[-1] <= offset

    def start_offset_of(self, epoch: int) -> Offset | None:
        """Return the start offset of an epoch, None for an unknown epoch."""
        slot = bisect_left(self._epochs, epoch)
        found = slot < len(self._epochs) and self._epochs[slot] == epoch
        return self._offsets[slot] if found else None

    def previous(self, epoch: int) -> EpochEntry | None:
        """Return the newest entry of a smaller epoch."""
        slot = bisect_left(self._epochs, epoch)
        return self._entry(slot - 1) if slot else None

    def next(self, epoch: int) -> EpochEntry | None:
        """Return the oldest entry of a larger epoch."""
        slot = bisect_right(self._epochs, epoch)
        return self._entry(slot) if slot < len(self._epochs) else None

    def epoch_for(self, offset: Offset) -> int | None:
        """Return the epoch of the record at an offset, None below the first entry."""
        slot = bisect_right(self._offsets, offset)
        return self._epochs[slot - 1] if slot else None

    def end_offset_for(self, epoch: int, log_end_offset: Offset) -> tuple[int, Offset] | None:
        """Return the largest known epoch up to `epoch`, and the start offset of the next one.

        For the latest epoch the offset is the log end. For an epoch below all known ones: the epoch
        itself and the first start offset. None for no epoch (-1) or one above the latest.
        """
        if epoch == NO_PARTITION_LEADER_EPOCH:
            return None
        latest = self.latest
        if latest is not None and latest.epoch == epoch:
            return epoch, log_end_offset
        higher = self.next(epoch)
        if higher is None:
            return None
        slot = bisect_right(self._epochs, epoch)
        return (self._epochs[slot - 1] if slot else epoch), higher.start_offset

    def entries_between(self, start_offset: Offset, end_offset: Offset) -> list[EpochEntry]:
        """Return the entries of a log of [start_offset, end_offset); the first one starts at or after `start_offset`."""
        if start_offset >= end_offset:
            return []
        first = max(bisect_right(self._offsets, start_offset) - 1, 0)
        end = bisect_left(self._offsets, end_offset)
        return [
            EpochEntry(epoch, max(offset, start_offset))
            for epoch, offset in zip(self._epochs[first:end], self._offsets[first:end], strict=True)
        ]

    def _entry(self, slot: int) -> EpochEntry:
        return EpochEntry(self._epochs[slot], self._offsets[slot])

    def _assign(self, entry: EpochEntry) -> None:
        epoch, offset = entry
        if epoch < 0 or offset < 0:
            raise ValueError(f"no epoch entry: {entry}")
        if self.has_begun(epoch, offset):
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._offsets[-1] >= offset):
            self._epochs.pop()
            self._offsets.pop()
        self._epochs.append(epoch)
        self._offsets.append(offset)
