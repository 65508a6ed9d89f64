"""The cleaning of one log: of each key the last record stays.

First the keys of the dirty part go into an offset map. Then the segments, from the first up to the end of the map,
are written anew without the records that the map knows a later one of, in groups: each becomes one segment with the
suffix .cleaned, which takes their place when it is whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from engine.broker.cleaning.batch_filter import BatchFilter, LastRecord
from engine.broker.cleaning.chunks import CleanedChunk, chunks_of
from engine.broker.cleaning.cleaned_transactions import CleanedTransactionMetadata
from engine.broker.cleaning.cleaner_stats import CleanerStats
from engine.broker.cleaning.filtered_chunk import filter_chunk
from engine.broker.cleaning.log_to_clean import LogToClean
from engine.broker.cleaning.offset_map import OffsetMap
from engine.broker.cleaning.segment_groups import group_segments_by_size
from engine.broker.cleaning.throttler import Throttler
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.clock import Clock
from engine.errors import LogCleaningAbortedError, OffsetOverflowError
from engine.record.memory_records import MemoryRecords
from engine.units import Offset, Timestamp, TopicPartition
from engine.writing.disk import DISK, Disk
from engine.writing.log.unified_log import UnifiedLog
from engine.writing.segment.segment_replacement import create_new_cleaned_segment
from engine.writing.segment.writable_segment import WritableSegment

log = logging.getLogger(__name__)


class Cleaner:
    """Cleans logs, one at a time.

    Args:
        offset_map: for the keys of the dirty part; what does not fit waits for the next cleaning.
        clock: tells the time.
        io_buffer_size: bytes to read at a time; a larger batch is read whole.
        load_factor: which part of the map's slots may be taken.
        throttler: slows it down.
        check_done: called often; raises LogCleaningAbortedError to stop.
        budgets: what a batch may take to be decoded.
        disk: where the logs lie.

    Attributes:
        offset_map: as it was given.

    Raises:
        ValueError: not even one key would fit into the map.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        clock: Clock,
        *,
        io_buffer_size: int,
        load_factor: float,
        throttler: Throttler,
        check_done: Callable[[TopicPartition], object],
        budgets: Budgets = DEFAULT_BUDGETS,
        disk: Disk = DISK,
    ) -> None:
        if offset_map.slots * load_factor <= 1:
            raise ValueError(
                f"an offset map of {offset_map.slots} slots, of which {load_factor:.0%} may be taken,"
                " holds no key"
            )
        self.offset_map = offset_map
        self._clock = clock
        self._io_buffer_size = io_buffer_size
        self._load_factor = load_factor
        self._throttler = throttler
        self._check_done = check_done
        self._budgets = budgets
        self._disk = disk

    def clean(
        self, cleanable: LogToClean, now: Timestamp | None = None
    ) -> tuple[Offset, CleanerStats]:
        """Clean a log.

        Args:
            cleanable: which, and what part.
            now: the time that delete horizons are compared with; the clock's by default.

        Returns:
            the first offset that was not cleaned, and the numbers.

        Raises:
            LogCleaningAbortedError: it was told to stop, or a segment had to be split first.
            CorruptRecordError, InvalidRecordError: a batch is damaged.
            OSError: the disk fails. LogDirFailureError: it did before.
        """
        of = cleanable.log
        start, end = cleanable.first_dirty_offset, cleanable.first_uncleanable_offset
        stats = CleanerStats(self._clock.now_ms())
        if now is None:
            now = self._clock.now_ms()
        legacy_horizon = _legacy_delete_horizon(of, start)
        self.build_offset_map(of, start, end, self.offset_map, stats)
        stats.map_complete_time = self._clock.now_ms()
        clean_end = self.offset_map.latest_offset + 1
        groups = group_segments_by_size(
            of.segments_between(0, clean_end),
            of.config.segment_size,
            of.config.max_index_size,
            end,
        )
        log.info("cleaning offsets %d to %d of %s into %d segments", start, end, of, len(groups))
        transactions = CleanedTransactionMetadata()
        for group in groups:
            self.clean_segments(
                of, group, self.offset_map, now, stats, transactions, legacy_horizon, end
            )
        stats.buffer_utilization = self.offset_map.utilization
        stats.end_time = self._clock.now_ms()
        return clean_end, stats

    # The keys

    def build_offset_map(
        self,
        of: UnifiedLog,
        start: Offset,
        end: Offset,
        offset_map: OffsetMap,
        stats: CleanerStats,
    ) -> None:
        """Put the keys of [start, end) into a map, as many as may; raises what `clean` raises."""
        offset_map.clear()
        dirty = of.segments_between(start, end)
        bounds = [segment.base_offset for segment in dirty[1:]] + [end]
        transactions = CleanedTransactionMetadata()
        transactions.add_aborted_transactions(of.collect_aborted_transactions(start, end))
        for segment, bound in zip(dirty, bounds, strict=False):
            self._check_done(of.topic_partition)
            if self._map_segment(of, segment, start, offset_map, transactions, stats):
                log.info("the offset map is full within %s", segment)
                return
            # Offsets that are missing before the next segment are clean too.
            offset_map.update_latest_offset(bound - 1)

    def _map_segment(
        self,
        of: UnifiedLog,
        segment: WritableSegment,
        start: Offset,
        offset_map: OffsetMap,
        transactions: CleanedTransactionMetadata,
        stats: CleanerStats,
    ) -> bool:
        """Put the keys of a segment; whether the map was full before its end."""
        position = segment.offset_index.lookup(start).position
        limit = int(offset_map.slots * self._load_factor)
        for chunk in chunks_of(segment.log, position, self._io_buffer_size, budgets=self._budgets):
            self._check_done(of.topic_partition)
            self._throttler.maybe_throttle(chunk.size)
            if _map_chunk(chunk, start, limit, offset_map, transactions, stats):
                return True
            stats.map_bytes_read += chunk.size
        return False

    # The segments

    def clean_segments(
        self,
        of: UnifiedLog,
        segments: Sequence[WritableSegment],
        offset_map: OffsetMap,
        now: Timestamp,
        stats: CleanerStats,
        transactions: CleanedTransactionMetadata,
        legacy_delete_horizon_ms: Timestamp,
        upper_bound_offset: Offset,
    ) -> None:
        """Put one segment, without the records that may go, in the place of several; raises what `clean` raises.

        Args:
            of: the log.
            segments: neighbours.
            offset_map: the last offset of each key.
            now: the time that delete horizons are compared with.
            stats: counts.
            transactions: as they are before the first segment.
            legacy_delete_horizon_ms: segments that were modified later keep tombstones of magic 0 and 1.
            upper_bound_offset: where this round of cleaning ends.
        """
        cleaned = create_new_cleaned_segment(
            of.folder, of.config, segments[0].base_offset, clock=of.clock, disk=self._disk
        )
        modified = segments[-1].last_modified
        try:
            transactions.cleaned_index = cleaned.txn_index
            last_records = _last_records_of_active_producers(of)
            for place, segment in enumerate(segments):
                following = segments[place + 1 : place + 2]
                bound = following[0].base_offset if following else segment.read_next_offset()
                transactions.add_aborted_transactions(
                    of.collect_aborted_transactions(segment.base_offset, bound)
                )
                decides = BatchFilter(
                    now,
                    of.config.delete_retention_ms,
                    offset_map,
                    transactions,
                    last_records,
                    upper_bound_offset,
                    segment.last_modified > legacy_delete_horizon_ms,
                    stats,
                )
                self._clean_into(of, segment, cleaned, decides)
            cleaned.on_become_inactive_segment()
            cleaned.flush()
            cleaned.set_last_modified(modified)
            self._check_done(of.topic_partition)
        except BaseException:
            _discard(cleaned)
            raise
        of.replace_segments([cleaned], list(segments))

    def _clean_into(
        self,
        of: UnifiedLog,
        source: WritableSegment,
        destination: WritableSegment,
        decides: BatchFilter,
    ) -> None:
        """Append what stays of a segment to another, which no one reads yet."""
        try:
            self._check_done(of.topic_partition)
            for chunk in chunks_of(source.log, 0, self._io_buffer_size, budgets=self._budgets):
                self._check_done(of.topic_partition)
                self._throttler.maybe_throttle(chunk.size)
                kept = filter_chunk(chunk, decides)
                decides.stats.messages_read += kept.messages_read
                decides.stats.bytes_read += kept.bytes_read
                decides.stats.messages_written += kept.messages_retained
                decides.stats.bytes_written += kept.bytes_retained
                if kept.output:
                    destination.append(kept.max_offset, MemoryRecords(kept.output))
                    self._throttler.maybe_throttle(len(kept.output))
        except OffsetOverflowError as error:
            log.info("%s is split before it is cleaned: %s", source, error)
            _discard(destination)
            of.split_overflowed_segment(source)
            raise LogCleaningAbortedError(
                f"a segment of {of.topic_partition} had offsets too far from its base: it was split"
            ) from error


def _map_chunk(
    chunk: CleanedChunk,
    start: Offset,
    limit: int,
    offset_map: OffsetMap,
    transactions: CleanedTransactionMetadata,
    stats: CleanerStats,
) -> bool:
    """Put the keys of a chunk; whether the map was full before its end."""
    for row, batch in chunk.batches():
        if batch.is_control:
            transactions.on_control_batch_read(batch)
            stats.map_messages_read += 1
        elif transactions.on_batch_read(batch):
            stats.map_messages_read += batch.record_count or 0
        else:
            columns = chunk.columns(row, batch)
            seen = offset_map.put_keys(columns, start, limit)
            stats.map_messages_read += seen
            if seen < len(columns):
                return True
        if batch.last_offset >= start:
            offset_map.update_latest_offset(batch.last_offset)
    return False


def _legacy_delete_horizon(of: UnifiedLog, first_dirty_offset: Offset) -> Timestamp:
    """Tombstones of magic 0 and 1 go when the last clean segment is older by the retention than theirs."""
    clean = of.segments_between(0, first_dirty_offset)
    return clean[-1].last_modified - of.config.delete_retention_ms if clean else 0


def _last_records_of_active_producers(of: UnifiedLog) -> dict[int, LastRecord]:
    with of.lock:
        return {
            producer_id: LastRecord(
                entry.last_data_offset if entry.last_data_offset >= 0 else None,
                entry.producer_epoch,
            )
            for producer_id, entry in of.producer_state.active_producers.items()
        }


def _discard(cleaned: WritableSegment) -> None:
    """Remove a segment that did not get whole; what cannot be removed goes when the log is loaded next."""
    try:
        cleaned.delete_if_exists()
    except OSError:
        log.exception("%s cannot be removed", cleaned)
