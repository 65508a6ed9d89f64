"""State of a producer: its epoch, its last batches and its open transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Self

from engine.record.record_batch import RecordBatch
from engine.units import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Offset,
    Timestamp,
)

BATCHES_TO_RETAIN = 5
"""Most batches that a producer may have in flight, and so the number of duplicates that are recognized."""


class BatchMetadata(NamedTuple):
    """A batch of a producer: its last sequence and offset, and its number of offsets less one."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: Timestamp

    @property
    def first_offset(self) -> Offset:
        """First offset of the batch."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """First sequence of the batch; sequences wrap after 2^31 - 1."""
        return (self.last_sequence - self.offset_delta) % 2**31


class ProducerStateEntry:
    """State of a producer; changed by its appends.

    Attributes:
        producer_id, producer_epoch: of the newest batch or marker; the epoch is -1 before the first.
        coordinator_epoch: of the last transaction marker, -1 before the first.
        last_timestamp: of the last batch or marker.
        current_txn_first_offset: first offset of its open transaction, None without one.
        batches: its last batches of this epoch, oldest first, at most 5.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: Timestamp = NO_TIMESTAMP,
        current_txn_first_offset: Offset | None = None,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = deque(batches, BATCHES_TO_RETAIN)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self._facts().items())
        return f"ProducerStateEntry({facts})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerStateEntry) and self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_empty(self) -> bool:
        """Whether no batch is known; markers may be."""
        return not self.batches

    @property
    def last_batch(self) -> BatchMetadata | None:
        """Newest batch, None if only markers are known."""
        return self.batches[-1] if self.batches else None

    @property
    def first_sequence(self) -> int:
        """First sequence of the oldest batch, or -1."""
        return self.batches[0].first_sequence if self.batches else NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """Last sequence of the newest batch, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def first_data_offset(self) -> Offset:
        """First offset of the oldest batch, or -1."""
        return self.batches[0].first_offset if self.batches else -1

    @property
    def last_data_offset(self) -> Offset:
        """Last offset of the newest batch, or -1."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        """Offset delta of the newest batch, or 0."""
        return self.batches[-1].offset_delta if self.batches else 0

    def copied(self) -> Self:
        """Return a copy that does not change with the original."""
        copy = self.without_batches()
        copy.batches.extend(self.batches)
        return copy

    def without_batches(self) -> Self:
        """Return a copy without batches."""
        return type(self)(
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.current_txn_first_offset,
        )

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        """Add a batch; batches of another epoch are dropped."""
        self._enter_epoch(producer_epoch)
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def end_transaction(
        self, producer_epoch: int, coordinator_epoch: int, timestamp: Timestamp
    ) -> None:
        """Update the state with an end marker."""
        self._enter_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp

    def update(self, newer: ProducerStateEntry) -> None:
        """Update the state with a newer entry; the newer entry's batches are added after the known ones."""
        self._enter_epoch(newer.producer_epoch)
        self.batches.extend(newer.batches)
        self.coordinator_epoch = newer.coordinator_epoch
        self.current_txn_first_offset = newer.current_txn_first_offset
        self.last_timestamp = newer.last_timestamp

    def find_duplicate_batch(self, batch: RecordBatch) -> BatchMetadata | None:
        """Return the known batch with the same epoch and sequences, None for a new batch."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        wanted = (batch.base_sequence, batch.last_sequence)
        for known in self.batches:
            if (known.first_sequence, known.last_sequence) == wanted:
                return known
        return None

    def _enter_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def _facts(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}
