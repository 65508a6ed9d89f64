"""What a log must be: a plain list of batches, gone through afresh for every answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.units import EpochEntry

Seen = tuple[int, int, bytes | None, bytes | None]
"""A record as a reader gets it: offset, timestamp, key, value."""


class ModelBatch(NamedTuple):
    records: list[Seen]
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    marker: str = ""
    """"commit" or "abort" for an end marker, else empty."""

    @property
    def base(self) -> int:
        return self.records[0][0]

    @property
    def last(self) -> int:
        return self.records[-1][0]

    @property
    def last_sequence(self) -> int:
        return self.base_sequence + len(self.records) - 1


class Transaction(NamedTuple):
    producer_id: int
    first: int
    marker: int
    is_aborted: bool


@dataclass
class Fates:
    """What the batches, gone through in order, did to producers and transactions."""

    open: dict[int, int] = field(default_factory=dict)
    """First offset by producer id."""
    ended: list[Transaction] = field(default_factory=list)
    last_sequences: dict[int, int] = field(default_factory=dict)
    last_offsets: dict[int, int] = field(default_factory=dict)
    """Of whatever a producer wrote last, markers too."""
    last_data_offsets: dict[int, int] = field(default_factory=dict)


@dataclass
class LogModel:
    batches: list[ModelBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    epochs: list[EpochEntry] = field(default_factory=list)

    def append(self, batch: ModelBatch, leader_epoch: int) -> None:
        self.note_epoch(leader_epoch, batch.base)
        at_end = self.high_watermark >= self.end
        self.batches.append(batch)
        assert batch.base >= self.end
        self.end = batch.last + 1
        if at_end:
            self.high_watermark = min(self.high_watermark, self.end)

    def truncate(self, target: int) -> None:
        self.batches = [batch for batch in self.batches if batch.last < target]
        self.end = target
        self.forget_epochs_without_records()
        self.start = min(self.start, target)
        self.high_watermark = min(self.high_watermark, target)

    def note_epoch(self, epoch: int, start: int) -> None:
        """A later epoch that begins at the same offset leaves no record to the one before."""
        if not self.epochs or self.epochs[-1].epoch < epoch:
            self.epochs = [entry for entry in self.epochs if entry.start_offset < start]
            self.epochs.append(EpochEntry(epoch, start))

    def epochs_with_records(self, epochs: list[EpochEntry] | None = None) -> list[EpochEntry]:
        """Without one at the log end, which loading may forget or find."""
        return [
            entry
            for entry in (self.epochs if epochs is None else epochs)
            if entry.start_offset < self.end
        ]

    def reload(self, end: int) -> None:
        """Where a batch was cut that did not begin at the new end, nothing in the files says so."""
        in_files = max([self.start, *(batch.last + 1 for batch in self.batches)])
        assert in_files <= end <= self.end
        self.end = self.high_watermark = end
        self.forget_epochs_without_records()

    def forget_epochs_without_records(self) -> None:
        self.epochs = self.epochs_with_records()

    def start_over(self, at: int) -> None:
        self.batches, self.epochs = [], []
        self.start = self.end = self.high_watermark = at

    def move_start(self, to: int) -> None:
        self.start = to
        covering = [entry for entry in self.epochs if entry.start_offset <= to]
        if covering:
            kept = [EpochEntry(covering[-1].epoch, to)]
            self.epochs = kept + self.epochs[len(covering) :]

    def fates(self) -> Fates:
        fates = Fates()
        for batch in self.batches:
            producer_id = batch.producer_id
            if producer_id < 0:
                continue
            fates.last_offsets[producer_id] = batch.last
            if batch.marker:
                first = fates.open.pop(producer_id, None)
                if first is not None:
                    is_aborted = batch.marker == "abort"
                    fates.ended.append(Transaction(producer_id, first, batch.base, is_aborted))
                continue
            fates.last_sequences[producer_id] = batch.last_sequence
            fates.last_data_offsets[producer_id] = batch.last
            if batch.is_transactional:
                fates.open.setdefault(producer_id, batch.base)
        return fates

    @property
    def last_stable_offset(self) -> int:
        fates = self.fates()
        unstable = [*fates.open.values()]
        unstable += [txn.first for txn in fates.ended if txn.marker >= self.high_watermark]
        return min([self.high_watermark, *(max(first, self.start) for first in unstable)])

    @property
    def visible(self) -> list[Seen]:
        """What a reader up to the log end gets."""
        return [
            record for batch in self.batches for record in batch.records if record[0] >= self.start
        ]

    @property
    def committed(self) -> list[Seen]:
        """What a reader of committed records gets."""
        bound, ended = self.last_stable_offset, self.fates().ended
        return [
            record
            for batch in self.batches
            if not batch.marker and batch.last < bound
            for record in batch.records
            if record[0] >= self.start and not _is_aborted(batch, ended)
        ]

    def first_at(self, timestamp: int) -> Seen | None:
        """The first record that is not older; timestamps ascend in these logs."""
        return next((record for record in self.visible if record[1] >= timestamp), None)


def _is_aborted(batch: ModelBatch, ended: list[Transaction]) -> bool:
    return batch.is_transactional and any(
        txn.is_aborted
        and txn.producer_id == batch.producer_id
        and txn.first <= batch.base < txn.marker
        for txn in ended
    )
