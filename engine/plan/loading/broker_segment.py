"""A segment as a broker loads and recovers it: by Kafka's order of checks, and with what those let through."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from engine.clock import Clock
from engine.coding.varint import to_int64
from engine.errors import (
    CorruptIndexError,
    CorruptRecordError,
    InvalidRecordError,
    OffsetOverflowError,
)
from engine.index.transaction_index import ENTRY
from engine.plan.loading.broker_failure import EXPECTED, BrokerFailure, Outcome, stops
from engine.plan.loading.broker_records import (
    BrokerRecords,
    batch_in,
    find_last_offset,
    find_offset,
    frames,
)
from engine.record.batch_frame import SMALLEST_BATCH
from engine.record.record_batch import RecordBatch
from engine.units import (
    NO_PRODUCER_ID,
    BatchPosition,
    Offset,
    Position,
    TimestampOffset,
)
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.index.writable_index import WritableIndex
from engine.writing.index.writable_lazy_index import LazyWritableIndex
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.log_config import LogConfig
from engine.writing.records.append_origin import AppendOrigin
from engine.writing.segment.segment_files import (
    log_path,
    offset_index_path,
    time_index_path,
    transaction_index_path,
)
from engine.writing.segment.writable_segment import WritableSegment

if TYPE_CHECKING:
    from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
    from engine.writing.state.producer_state_manager import ProducerStateManager

_CURRENT_TXN_VERSION = 0
_WARM_ENTRIES = 8192 // 8
_TRANSACTIONS_AT_ONCE = ENTRY.size << 15
TRANSACTIONS_LIMIT = 1 << 30
"""What is read of a transaction index: the markers of more aborted transactions do not fit into a segment."""


class NotAllGood(Exception):
    """A recovery found something that has to be looked at batch by batch; its state must be made again."""


class BrokerSegment(WritableSegment):
    """See WritableSegment; the records are walked by a broker's rules.

    Attributes:
        finds_by_last_offset: whether offsets are looked up as brokers before 4.1 do.
    """

    finds_by_last_offset = False

    @classmethod
    def open(
        cls,
        folder: StrPath,
        base_offset: Offset,
        config: LogConfig,
        clock: Clock,
        *,
        file_already_exists: bool = False,
        init_file_size: int = 0,
        preallocate: bool = False,
        suffix: str = "",
        disk: Disk = DISK,
    ) -> Self:
        """A segment in a folder; its records file is made when it is not there. See WritableSegment."""
        max_size = config.max_index_size
        return cls(
            BrokerRecords.open(
                log_path(folder, base_offset, suffix),
                file_already_exists=file_already_exists,
                init_file_size=init_file_size,
                preallocate=preallocate,
                disk=disk,
            ),
            LazyWritableIndex.for_offset(
                offset_index_path(folder, base_offset, suffix), base_offset, max_size, disk=disk
            ),
            LazyWritableIndex.for_time(
                time_index_path(folder, base_offset, suffix), base_offset, max_size, disk=disk
            ),
            WritableTransactionIndex(
                base_offset, transaction_index_path(folder, base_offset, suffix), disk=disk
            ),
            base_offset,
            config.index_interval,
            config.random_segment_jitter(),
            clock,
            disk=disk,
        )

    def sanity_check(self, time_index_newly_created: bool) -> None:
        """Look at the indexes of a segment that was just opened, as a broker does.

        Raises:
            FileNotFoundError: there is no offset index.
            CorruptIndexError: the transaction index has a transaction that ends below the segment.
            BrokerFailure: it has one of a version to come.
        """
        path = self.lazy_offset_index.path
        if not self._disk.exists(path):
            raise FileNotFoundError(f"there is no offset index {path}")
        if time_index_newly_created:
            self.time_index.resize(0)
        self._check_transactions()

    def _check_transactions(self) -> None:
        path = self.txn_index.path
        if not self._disk.exists(path):
            return
        with self._disk.open(path, writable=False) as file:
            for position in range(
                0,
                file.size() // ENTRY.size * ENTRY.size,
                _TRANSACTIONS_AT_ONCE,
            ):
                data = file.read_at(position, _TRANSACTIONS_AT_ONCE)
                if position >= TRANSACTIONS_LIMIT:
                    raise BrokerFailure(
                        Outcome.UNKNOWN,
                        "",
                        f"{path} has {file.size()} bytes, more than any segment needs: whether a broker that"
                        " reads all of them finds a damaged one cannot be told",
                    )
                self._check_entries(data[: len(data) // ENTRY.size * ENTRY.size], path)

    def _check_entries(self, data: bytes, path: str) -> None:
        entries = np.frombuffer(data, ENTRY.dtype)
        is_unknown = (
            entries["version"] >> 8 > _CURRENT_TXN_VERSION
        )  # Kafka looks at the first byte only
        odd = np.flatnonzero(is_unknown | (entries["last_offset"] < self.base_offset))
        if not len(odd):
            return
        entry = entries[odd[0]]
        if is_unknown[odd[0]]:
            raise stops(
                "KafkaException",
                f"{path}: a transaction of the unknown version {entry['version']}",
            )
        raise CorruptIndexError(
            "an aborted transaction ends below the segment's base offset",
            path=path,
            expected=f"at least {self.base_offset}",
            found=int(entry["last_offset"]),
        )

    def read_next_offset(self) -> Offset:
        """See SegmentReading; behind the last offset of all comes the least number that there is."""
        return to_int64(super().read_next_offset())

    def translate_offset(self, offset: Offset, start: Position = 0) -> BatchPosition | None:
        """Where a broker finds an offset; None when all lies below."""
        begin = max(_looked_up(self.offset_index, offset), start)
        find = find_last_offset if self.finds_by_last_offset else find_offset
        return find(self.log.file, offset, begin, self.log.end)

    def recover(
        self,
        producer_state: ProducerStateManager,
        leader_epochs: LeaderEpochFileCache | None = None,
        before_truncation: Callable[[], None] | None = None,
    ) -> int:
        """Make the indexes anew, a chunk of batches at a time, as long as all are good.

        Raises:
            NotAllGood: some are not; nothing was cut off. `recover_slowly` is to follow.
        """
        indexes: list[WritableIndex[Any]] = [self.offset_index, self.time_index]
        before = [self._start_of(index) for index in indexes]
        had_transactions = self._disk.exists(self.txn_index.path)
        try:
            return super().recover(producer_state, leader_epochs, self._give_up)
        except (NotAllGood, *EXPECTED) as error:
            # What was put there must not show behind the entries that will be there.
            for index, data in zip(indexes, before, strict=True):
                written = index.size_in_bytes
                with self._disk.open(index.path) as file:
                    file.write_at(0, data[:written].ljust(written, b"\0"))
            if not had_transactions:
                self._forget_transactions()
            raise NotAllGood from error

    def _start_of(self, index: WritableIndex[Any]) -> bytes:
        """As much of an index as the records can fill; it may be preallocated to megabytes."""
        entries = self.log.size // max(self.index_interval_bytes, SMALLEST_BATCH[0]) + 2
        with self._disk.open(index.path, writable=False) as file:
            return file.read_at(0, entries * index.entry_size)

    def _forget_transactions(self) -> None:
        index = self.txn_index
        index.delete_if_exists()
        self.txn_index = WritableTransactionIndex(index.base_offset, index.path, disk=self._disk)

    @staticmethod
    def _give_up() -> None:
        raise NotAllGood

    def recover_slowly(
        self, producer_state: ProducerStateManager, leader_epochs: LeaderEpochFileCache
    ) -> int:
        """Make the indexes anew, batch by batch, and cut off what follows the last good one.

        Returns:
            how many bytes were cut off.

        Raises:
            OffsetOverflowError: a batch's offset is too far from the base offset.
            InvalidOffsetError: offsets are not in order where an index entry is due.
            Exception: what else a broker does not expect.
        """
        self.offset_index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self._max_timestamp_and_offset = None
        valid, indexed = 0, 0
        try:
            for frame in frames(self.log.file, 0, self.log.end):
                batch = batch_in(self.log.file, frame)
                indexed = self._take(batch, valid, indexed)
                valid += frame.size
                if frame.magic >= 2:
                    self._update_state(batch, producer_state, leader_epochs)
        except (CorruptRecordError, InvalidRecordError):
            pass
        truncated = self.log.size - valid
        self.log.truncate_to(valid)
        self.offset_index.trim_to_valid_size()
        self.time_index.maybe_append(*self.max_timestamp_and_offset_so_far, skip_full_check=True)
        self.time_index.trim_to_valid_size()
        return truncated

    def _take(self, batch: RecordBatch, position: Position, indexed: Position) -> Position:
        """Check a batch and give it its entries; where the batch lies that has the last one."""
        batch.ensure_valid()
        last_offset = batch.last_offset
        if not self.can_hold(last_offset):
            raise OffsetOverflowError(
                f"offset {last_offset} in {self.log.path} is too far from {self.base_offset}"
            )
        if batch.max_timestamp > self.max_timestamp_so_far:
            self.note_max_timestamp(TimestampOffset(batch.max_timestamp, last_offset))
        if position - indexed <= self.index_interval_bytes:
            return indexed
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(*self.max_timestamp_and_offset_so_far)
        return position

    def _update_state(
        self,
        batch: RecordBatch,
        producer_state: ProducerStateManager,
        leader_epochs: LeaderEpochFileCache,
    ) -> None:
        epoch, latest = batch.leader_epoch, leader_epochs.latest_epoch
        if epoch >= 0 and (latest is None or epoch > latest):
            leader_epochs.assign(epoch, batch.base_offset)
        if batch.producer_id > NO_PRODUCER_ID:
            info = producer_state.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
            completed = info.append(batch)
            producer_state.update(info)
            if completed is not None:
                self.update_txn_index(completed, producer_state.last_stable_offset(completed))
                producer_state.complete_txn(completed)
        producer_state.update_map_end_offset(batch.last_offset + 1)


def _looked_up(index: WritableOffsetIndex, target: Offset) -> Position:
    """Where an index tells a broker to begin: its very search, since an index may hold anything.

    The last entries are searched first, and the others only when the target is not among them.
    """
    count = index.entries
    if count == 0:
        return 0
    low, high = max(0, count - 1 - _WARM_ENTRIES), count - 1
    if index.entry_at(low).offset >= target:
        if index.entry_at(0).offset > target:
            return 0
        low, high = 0, low
    while low < high:
        middle = (low + high + 1) // 2
        entry = index.entry_at(middle)
        if entry.offset == target:
            return entry.position
        if entry.offset > target:
            high = middle - 1
        else:
            low = middle
    return index.entry_at(low).position
