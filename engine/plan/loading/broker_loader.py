"""A log as a broker loads it, with all that is not ours: see LogLoader in Kafka, and `versions` for older ones.

What differs from `engine.writing.log.log_loader`, which is kinder to a log: which names count (`java_text`); each
segment without an offset index is recovered at once, before those that precede it are; a missing time index
stays missing; an empty segment at the end of a log whose end is missing stays; what contradicts itself empties
the segment or ends the broker.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property

from engine.errors import (
    CorruptIndexError,
    InvalidOffsetError,
    OffsetOverflowError,
)
from engine.files.file_names import FileKind, FileState, log_file_name
from engine.plan.loading.broker_epochs import NoCheckpoint
from engine.plan.loading.broker_failure import BrokerFailure, Outcome, stops
from engine.plan.loading.broker_producers import BrokerProducers
from engine.plan.loading.broker_segment import BrokerSegment, NotAllGood
from engine.plan.loading.java_text import offset_in_name
from engine.units import MAX_INT64, Offset
from engine.writing.log.log_loader import LoadedLogOffsets, LogLoader, _SegmentOverflow
from engine.writing.log.producer_rebuild import rebuild_producer_state
from engine.writing.segment.segment_files import time_index_path
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.snapshot_file import SnapshotFiles

_DELETED = FileState.DELETED.value
_CLEANED = FileState.CLEANED.value
_SWAP = FileState.SWAP.value
_SNAPSHOT_DELETED = FileKind.KRAFT_CHECKPOINT.value + _DELETED
_INDEXES = tuple(
    kind.value for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
)
_LOG = FileKind.LOG.value


class BrokerLoader(LogLoader):
    """Loads one log as a broker would. Raises BrokerFailure where a broker does not load it."""

    segment_type: type[BrokerSegment] = BrokerSegment
    """How segments are read; older brokers read some otherwise."""
    _forgets_snapshots = False
    _snapshots: SnapshotFiles | None = None
    """What the last recovery of a segment left, so that the next need not list the folder."""

    @cached_property
    def recovered(self) -> set[Offset]:
        """The base offsets of the segments whose records were all read; grows while the log is loaded."""
        return set()

    def _load(self) -> LoadedLogOffsets:
        self._clear_leftovers()
        self._splitting_overflows(self._load_segments)
        self._finish_swaps()
        if self._is_being_deleted:
            recovered = self._nothing_to_recover()
        else:
            recovered = self._splitting_overflows(self._recover)
            self._segments.active_segment.resize_indexes(self._config.max_index_size)
        return self._fit_state(recovered)

    # Leftovers

    def _clear_leftovers(self) -> None:
        swaps = self._remove_unfinished()
        first, end = MAX_INT64, -MAX_INT64 - 1
        for name in swaps:
            if not name.removesuffix(_SWAP).endswith(_LOG):
                continue
            segment = self._open_swap(self._offset_in(name))
            first = min(first, segment.base_offset)
            end = max(end, segment.read_next_offset())
            segment.close_handlers()
        for name in self._files():
            offset = None if name.endswith(_SWAP) else offset_in_name(name)
            if offset is not None and first <= offset < end:
                self._disk.remove(self._at(name))
        for name in self._files():
            if name.endswith(_SWAP):
                self._disk.rename(self._at(name), self._at(name.removesuffix(_SWAP)))

    def _finish_swaps(self) -> None:
        """Nothing: what was complete is in its place before segments are opened."""

    def _open_swap(self, base_offset: Offset) -> BrokerSegment:
        return self.segment_type.open(
            self._folder, base_offset, self._config, self._clock, suffix=_SWAP, disk=self._disk
        )

    def _remove_unfinished(self) -> list[str]:
        """Remove what is not complete; the names of the swap files that are left."""
        cleaned: list[str] = []
        swaps: list[str] = []
        for name in self._files():
            if name.endswith(_DELETED) and not name.endswith(_SNAPSHOT_DELETED):
                self._disk.remove(self._at(name))
            elif name.endswith(_CLEANED):
                self._offset_in(name)
                cleaned.append(name)
            elif name.endswith(_SWAP):
                swaps.append(name)
        first_cleaned = min((self._offset_in(name) for name in cleaned), default=MAX_INT64)
        undone = [name for name in swaps if self._offset_in(name) >= first_cleaned]
        for name in undone + cleaned:
            self._disk.remove(self._at(name))
        return [name for name in swaps if name not in undone]

    def _files(self) -> list[str]:
        return [
            name for name in self._disk.list(self._folder) if not self._disk.is_dir(self._at(name))
        ]

    def _at(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _offset_in(self, name: str) -> Offset:
        offset = offset_in_name(name)
        if offset is None:
            java = "NumberFormatException" if "." in name else "StringIndexOutOfBoundsException"
            raise stops(java, f"{self._at(name)} has no offset before its first dot")
        if offset < 0:
            raise BrokerFailure(Outcome.UNKNOWN, "", f"{self._at(name)} has a negative offset")
        return offset

    # Opening the segments

    def _load_segments(self) -> None:
        self._segments.close()
        self._segments.clear()
        for name in self._files():
            if name.endswith(_INDEXES):
                log_name = log_file_name(self._offset_in(name))
                if not self._disk.exists(self._at(log_name)):
                    self._disk.remove(self._at(name))
            elif name.endswith(_LOG):
                self._load_one(self._offset_in(name))

    def _load_one(self, base_offset: Offset) -> None:
        has_time_index = self._disk.exists(time_index_path(self._folder, base_offset))
        segment = self._open(base_offset, file_already_exists=True)
        try:
            segment.sanity_check(not has_time_index)
        except (FileNotFoundError, CorruptIndexError):
            self._recover_segment(segment)
        self._segments.add(segment)

    def _open(self, base_offset: Offset, *, file_already_exists: bool = False) -> WritableSegment:
        if base_offset < 0:
            reason = f"{self._folder} has no records file, and begins at the offset {base_offset}"
            raise BrokerFailure(Outcome.UNKNOWN, "", reason)
        fresh = not file_already_exists
        segment = self.segment_type.open(
            self._folder,
            base_offset,
            self._config,
            self._clock,
            file_already_exists=file_already_exists,
            init_file_size=self._config.initial_file_size if fresh else 0,
            preallocate=fresh and self._config.preallocate,
            disk=self._disk,
        )
        self._opened.append(segment)
        return segment

    # Recovery

    def _recover_segment(self, segment: WritableSegment, before_truncation: object = None) -> int:
        """Make a segment's indexes again and cut what is no batch off; the number of bytes cut."""
        snapshots, self._snapshots = self._snapshots, None
        epochs = self._leader_epochs.with_checkpoint(NoCheckpoint())
        producers = self._producers_before(segment, snapshots)
        # Made once: it writes snapshots, and what is loaded from those has forgotten who has expired.
        before = producers.copied()
        try:
            try:
                truncated = segment.recover(producers, epochs)
                self._take_epochs(epochs)
            except NotAllGood:
                assert isinstance(segment, BrokerSegment)
                producers = before
                truncated = segment.recover_slowly(producers, self._leader_epochs)
        except OffsetOverflowError as error:
            raise _SegmentOverflow(segment) from error
        producers.take_snapshot()
        self._snapshots = producers.snapshots
        self.recovered.add(segment.base_offset)
        return truncated

    def _take_epochs(self, recovered: LeaderEpochFileCache) -> None:
        """Write the epochs that a recovery began, all newer than those before; without any, touch no file."""
        latest = self._leader_epochs.latest_epoch
        self._leader_epochs.assign_all(
            each for each in recovered.epoch_entries if latest is None or each.epoch > latest
        )

    def _producers_before(
        self, segment: WritableSegment, snapshots: SnapshotFiles | None
    ) -> BrokerProducers:
        producers = BrokerProducers(
            self._topic_partition,
            self._folder,
            self._producers.max_transaction_timeout_ms,
            self._producers.config,
            self._clock,
            self._disk,
            snapshots,
        )
        rebuild_producer_state(
            producers,
            self._segments,
            self._log_start,
            segment.base_offset,
            self._clock,
            reload_from_clean_shutdown=False,
        )
        return producers

    def _recover_unflushed(self) -> None:
        unflushed = list(self._segments.values(self._recovery_point, MAX_INT64))
        for at, segment in enumerate(unflushed):
            try:
                truncated = self._recover_segment(segment)
            except InvalidOffsetError:
                truncated = segment.truncate_to(segment.base_offset)
            if truncated > 0:
                self._remove_and_delete_later(unflushed[at + 1 :])
                return

    def _drop_segments_below_log_start(self) -> Offset | None:
        """See LogLoader; Kafka loses sight of the snapshots, and deletes them at once with all others."""
        self._forgets_snapshots = True
        try:
            return super()._drop_segments_below_log_start()
        finally:
            self._forgets_snapshots = False

    def _delete_producer_snapshots_later(self, segments: Iterable[WritableSegment]) -> None:
        self._snapshots = None
        if not self._forgets_snapshots:
            super()._delete_producer_snapshots_later(segments)
