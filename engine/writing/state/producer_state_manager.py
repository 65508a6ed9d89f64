"""Producer state of a log: last batches, open transactions, and snapshots of them.

See ProducerStateManager in Kafka. It recognizes duplicates and sequence gaps, and gives the last
stable offset. Transactions that a broker has verified with their coordinator are not tracked.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

from engine.clock import SYSTEM_CLOCK, Clock
from engine.disk.disk import DISK, Disk
from engine.errors import CorruptSnapshotError
from engine.files.file_names import producer_snapshot_name
from engine.state.producer_state_entry import ProducerStateEntry
from engine.units import NO_PRODUCER_ID, LogOffsetMetadata, Offset, Timestamp, TopicPartition
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import ProducerAppendInfo
from engine.writing.state.producer_map import ProducerMap
from engine.writing.state.producer_rules import OUR_PRODUCER_RULES, ProducerRules
from engine.writing.state.snapshot_file import SnapshotFile, SnapshotFiles, write_snapshot
from engine.writing.state.transactions_by_offset import TxnMetadata, UnstableTransactions

logger = logging.getLogger(__name__)

LATE_TRANSACTION_BUFFER_MS = 5 * 60 * 1000
"""Milliseconds over its timeout after which an open transaction is late."""


class ProducerStateManagerConfig(NamedTuple):
    """`producer_id_expiration_ms`: milliseconds after its last batch or marker until a producer expires."""

    producer_id_expiration_ms: int = 86_400_000


class ProducerStateManager:
    """Producers by id, up to an offset of the log: `map_end_offset`.

    An append prepares an update, applies each batch to it, writes the batches, and only then calls
    `update`, `complete_txn` and `update_map_end_offset`. Only `has_late_transaction` and the
    methods about snapshot files are safe from several threads.

    Args:
        topic_partition: partition of the log.
        folder: folder of the log, with the snapshots.
        max_transaction_timeout_ms: timeout of a transaction.
        config: expiration of producers.
        clock: measures how long snapshots take; all other times are arguments.
        disk: disk to read and write with.
        rules: rules for valid snapshots and control batches.
        snapshots: snapshots in the folder, owned from now on; None to list them.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        folder: str | os.PathLike[str],
        max_transaction_timeout_ms: int,
        config: ProducerStateManagerConfig | None = None,
        clock: Clock = SYSTEM_CLOCK,
        disk: Disk = DISK,
        *,
        rules: ProducerRules = OUR_PRODUCER_RULES,
        snapshots: SnapshotFiles | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.folder = Path(folder)
        self.max_transaction_timeout_ms = max_transaction_timeout_ms
        self.config = config or ProducerStateManagerConfig()
        self._clock = clock
        self._disk = disk
        self._rules = rules
        self._producers = ProducerMap()
        self._transactions = UnstableTransactions()
        self._oldest_transaction_timestamp = -1
        self._map_end_offset = 0
        self._snapshot_offset = 0
        self._snapshots = self._load_snapshots() if snapshots is None else snapshots

    def __repr__(self) -> str:
        return f"ProducerStateManager({self.topic_partition}, {len(self._producers)} producers)"

    def fresh(self, snapshots: SnapshotFiles | None = None) -> Self:
        """Return a manager of the same log without producers.

        Args:
            snapshots: snapshots in the folder, owned by the new manager; None to list them.
        """
        return type(self)(
            self.topic_partition,
            self.folder,
            self.max_transaction_timeout_ms,
            self.config,
            self._clock,
            self._disk,
            rules=self._rules,
            snapshots=snapshots,
        )

    def copied(self) -> Self:
        """Return an independent copy, which shares the snapshots."""
        twin = copy(self)
        twin._producers = self._producers.copied()
        twin._transactions = self._transactions.copied()
        return twin

    @property
    def snapshots(self) -> SnapshotFiles:
        """Snapshots in the folder, by offset."""
        return self._snapshots

    @property
    def is_empty(self) -> bool:
        """Whether there is no producer and no ended transaction above the high watermark."""
        return not self._producers and not self._transactions.unreplicated

    @property
    def map_end_offset(self) -> Offset:
        """Offset up to which the log's batches are applied."""
        return self._map_end_offset

    @property
    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        """Live view of all producers by id, in the order of a snapshot."""
        return MappingProxyType(self._producers)

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """Start of the first transaction that is open, or has its marker at or above the high watermark."""
        first = self._transactions.first
        return first and first.first_offset

    @property
    def first_undecided_offset(self) -> Offset | None:
        """Start of the first open transaction, regardless of the high watermark."""
        first = self._transactions.ongoing.first
        return first.first_offset.offset if first else None

    @property
    def latest_snapshot_offset(self) -> Offset | None:
        """Offset of the newest snapshot."""
        return self._snapshots.latest

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """Return the state of a producer, None for an unknown one."""
        return self._producers.get(producer_id)

    def has_late_transaction(self, now_ms: Timestamp) -> bool:
        """Return whether the oldest open transaction is late, precise to about five minutes."""
        last = self._oldest_transaction_timestamp
        limit = self.max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        return last > 0 and now_ms - last > limit

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """Return an update of a producer for an append; the state here does not change before `update`."""
        entry = self.last_entry(producer_id) or ProducerStateEntry(producer_id)
        control_record = self._rules.control_record
        return ProducerAppendInfo(self.topic_partition, producer_id, entry, origin, control_record)

    def update(self, append_info: ProducerAppendInfo) -> None:
        """Apply an update to a producer's state. Raises ValueError for producer id -1."""
        producer_id = append_info.producer_id
        if producer_id == NO_PRODUCER_ID:
            raise ValueError(f"an update of {self.topic_partition} has no producer id")
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerStateEntry(producer_id)
        entry.update(append_info.updated_entry)
        for started in append_info.started_transactions:
            self._transactions.ongoing.put(started)
        self._note_oldest_transaction()

    def update_map_end_offset(self, offset: Offset) -> None:
        """Set the offset up to which batches are applied."""
        self._map_end_offset = offset

    def last_stable_offset(self, completed: CompletedTxn) -> Offset:
        """Return the last stable offset once a transaction is complete: the start of the next one of another producer."""
        return self._transactions.stable_offset_after(completed)

    def complete_txn(self, completed: CompletedTxn) -> None:
        """End a transaction; it stays unstable until the high watermark has passed its marker.

        Raises:
            ValueError: no transaction starts there.
        """
        if not self._transactions.complete(completed):
            raise ValueError(f"{completed} of {self.topic_partition} has not begun")
        self._note_oldest_transaction()

    def on_high_watermark_updated(self, high_watermark: Offset) -> None:
        """Drop ended transactions with markers below the high watermark."""
        self._transactions.unreplicated.remove_ended_before(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: Offset) -> None:
        """Drop ended transactions below the log start. Producers stay, also those without records."""
        self._transactions.unreplicated.remove_ended_before(log_start_offset)
        self._map_end_offset = max(self._map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._snapshot_offset = log_start_offset if latest is None else latest

    def remove_expired_producers(self, now_ms: Timestamp) -> None:
        """Drop producers without a batch or marker for `producer_id_expiration_ms`, except with open transactions."""
        for producer_id in [*self._producers]:
            if self._is_expired(self._producers[producer_id], now_ms):
                del self._producers[producer_id]

    def take_snapshot(self, sync: bool = True) -> Path | None:
        """Write a snapshot at `map_end_offset` and return its path; None if nothing changed since the last one.

        With `sync` the content is on the device on return; the name is once the folder is synced.
        """
        if self._map_end_offset <= self._snapshot_offset:
            return None
        offset = self._map_end_offset
        path = self.folder / producer_snapshot_name(offset)
        began = self._clock.now_ms()
        write_snapshot(path, self._producers.values(), sync=sync, disk=self._disk)
        took = self._clock.now_ms() - began
        logger.info("wrote %s with %d producers in %d ms", path, len(self._producers), took)
        self._snapshots.add(SnapshotFile(path, offset, self._disk))
        self._snapshot_offset = offset
        return path

    def truncate_and_reload(
        self, log_start_offset: Offset, log_end_offset: Offset, now_ms: Timestamp
    ) -> None:
        """Load the state of the newest snapshot at or below the log end.

        Snapshots outside of (log start, log end] are deleted. A state that is already at the log
        end stays. Otherwise `map_end_offset` becomes the loaded snapshot's offset, or the log start
        without one, and the caller applies the batches from there on. A corrupt snapshot is
        deleted.
        """
        for offset in self._snapshots.outside(log_start_offset, log_end_offset):
            self._snapshots.delete(offset)
        if log_end_offset == self._map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._forget_all()
        self._load_from_snapshot(log_start_offset, now_ms)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drop all producers and delete all snapshots."""
        for each in [*self._snapshots]:
            self._snapshots.delete(each)
        self._forget_all()
        self._snapshot_offset = 0
        self._map_end_offset = offset

    def truncate_fully_and_reload_snapshots(self) -> None:
        """Drop all producers, delete the known snapshots, and list the snapshots of the folder again."""
        self.truncate_fully_and_start_at(0)
        self._snapshots = self._load_snapshots()

    def remove_stray_snapshots(self, segment_base_offsets: Collection[Offset]) -> None:
        """List the snapshots of the folder, and delete those that belong to no segment."""
        found = self._load_snapshots()
        found.delete_strays(segment_base_offsets)
        self._snapshots = found

    def update_parent_dir(self, folder: str | os.PathLike[str]) -> None:
        """Update the path after the log's folder was renamed."""
        self.folder = Path(folder)
        self._snapshots.update_parent_dir(folder)

    def load_producer_entry(self, entry: ProducerStateEntry) -> None:
        """Add a producer's entry of a snapshot."""
        self._producers[entry.producer_id] = entry
        first = entry.current_txn_first_offset
        if first is not None:
            self._transactions.ongoing.put(TxnMetadata(entry.producer_id, LogOffsetMetadata(first)))

    def _load_from_snapshot(self, log_start_offset: Offset, now_ms: Timestamp) -> None:
        while (offset := self.latest_snapshot_offset) is not None:
            path = self._snapshots[offset].path
            try:
                entries = self._rules.read_snapshot(path, self._disk)
            except CorruptSnapshotError as error:
                logger.warning("%s", error)
                self._snapshots.delete(offset)
                continue
            logger.info("loading the producers from %s", path)
            for entry in entries:
                if not self._is_expired(entry, now_ms):
                    self.load_producer_entry(entry)
            self._snapshot_offset = self._map_end_offset = offset
            self._note_oldest_transaction()
            return
        self._snapshot_offset = self._map_end_offset = log_start_offset

    def _forget_all(self) -> None:
        self._producers.clear()
        self._transactions.clear()
        self._note_oldest_transaction()

    def _is_expired(self, entry: ProducerStateEntry, now_ms: Timestamp) -> bool:
        if entry.current_txn_first_offset is not None:
            return False
        return now_ms - entry.last_timestamp >= self.config.producer_id_expiration_ms

    def _note_oldest_transaction(self) -> None:
        first = self._transactions.ongoing.first
        entry = self._producers.get(first.producer_id) if first else None
        self._oldest_transaction_timestamp = entry.last_timestamp if entry else -1

    def _load_snapshots(self) -> SnapshotFiles:
        return SnapshotFiles(self._rules.list_snapshots(self.folder, self._disk))
