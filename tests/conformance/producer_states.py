"""The set-up of Kafka's ProducerStateManagerTest: a manager, a clock that stands, appends in one call."""

from __future__ import annotations

from pathlib import Path

from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.state.producer_state_entry import ProducerStateEntry
from engine.units import LogOffsetMetadata, TopicPartition
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import ProducerAppendInfo
from engine.writing.state.producer_state_manager import (
    LATE_TRANSACTION_BUFFER_MS,
    ProducerStateManager,
    ProducerStateManagerConfig,
)
from tests.clocks import MockClock

PARTITION = TopicPartition("test", 0)
PRODUCER = 1
MAX_INT = 2**31 - 1
TRANSACTION_TIMEOUT_MS = 5 * 60 * 1000
LATE_MS = TRANSACTION_TIMEOUT_MS + LATE_TRANSACTION_BUFFER_MS
EXPIRATION_MS = 86_400_000
COMMIT = ControlRecordType.COMMIT
ABORT = ControlRecordType.ABORT


def after(epoch: int, version: int) -> int:
    """The epoch of the marker that follows: from version 2 on it is a new one."""
    return epoch + 1 if version >= 2 else epoch


class States:
    """A manager, its folder and a clock; appends are of producer 1 unless told."""

    def __init__(
        self,
        folder: Path,
        clock: MockClock | None = None,
        partition: TopicPartition = PARTITION,
    ) -> None:
        self.folder = folder
        self.clock = clock or MockClock()
        self.manager = ProducerStateManager(
            partition,
            folder,
            TRANSACTION_TIMEOUT_MS,
            ProducerStateManagerConfig(EXPIRATION_MS),
            self.clock,
        )

    def again(self) -> States:
        """Another manager of the same folder."""
        return States(self.folder, self.clock)

    def reloaded(self, log_start: int, log_end: int, now: int | None = None) -> States:
        """Another manager of the same folder, with what its snapshots say."""
        made = self.again()
        made.manager.truncate_and_reload(log_start, log_end, self.clock.ms if now is None else now)
        return made

    def append(
        self,
        epoch: int,
        sequence: int,
        offset: int,
        timestamp: int | None = None,
        *,
        producer: int = PRODUCER,
        transactional: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> None:
        """A batch of one record."""
        info = self.manager.prepare_update(producer, origin)
        self.data(info, epoch, sequence, sequence, offset, offset, timestamp, transactional)
        self.manager.update(info)
        self.manager.update_map_end_offset(offset + 1)

    def replicate(
        self, epoch: int, sequence: int, offset: int, timestamp: int | None = None
    ) -> None:
        """A batch of one record that comes from the leader."""
        self.append(epoch, sequence, offset, timestamp, origin=AppendOrigin.REPLICATION)

    def data(
        self,
        info: ProducerAppendInfo,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int | None = None,
        transactional: bool = False,
    ) -> None:
        """A batch of data in an append that is being prepared."""
        info.append_data_batch(
            epoch,
            first_sequence,
            last_sequence,
            self.clock.now_ms() if timestamp is None else timestamp,
            LogOffsetMetadata(first_offset),
            last_offset,
            is_transactional=transactional,
        )

    def end(
        self,
        kind: ControlRecordType,
        epoch: int,
        offset: int,
        *,
        producer: int = PRODUCER,
        coordinator_epoch: int = 0,
        timestamp: int | None = None,
        version: int = 0,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
    ) -> CompletedTxn | None:
        """An end marker; unless told, one that a coordinator writes for a transaction of version 0."""
        info = self.manager.prepare_update(producer, origin)
        completed = info.append_end_marker(
            EndTransactionMarker(kind, coordinator_epoch),
            epoch,
            offset,
            self.clock.now_ms() if timestamp is None else timestamp,
            transaction_version=version,
        )
        self.manager.update(info)
        if completed is not None:
            self.manager.complete_txn(completed)
        self.manager.update_map_end_offset(offset + 1)
        return completed

    def entry(self, producer: int = PRODUCER) -> ProducerStateEntry:
        """What is known of a producer, of whom something is."""
        entry = self.manager.last_entry(producer)
        assert entry is not None
        return entry

    def unstable(self) -> int | None:
        """The first unstable offset alone."""
        found = self.manager.first_unstable_offset
        return None if found is None else found.offset

    def is_late(self) -> bool:
        """Whether a transaction is late now."""
        return self.manager.has_late_transaction(self.clock.ms)

    def snapshots(self) -> list[int]:
        """The offsets in the names of all files of the folder."""
        return sorted(int(path.name.removesuffix(".snapshot")) for path in self.folder.iterdir())
