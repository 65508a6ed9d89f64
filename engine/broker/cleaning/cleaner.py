"""Clean one log: keep the last record of each key.

First the keys of the dirty part are put into an offset map. Then the segments, from the first to
the end of the map, are rewritten in groups without the records for which the map has a later
offset. Each group becomes one segment with the suffix .cleaned, which replaces the group when it is
complete.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from engine.broker.cleaning.batch_filter import BatchFilter, LastRecord
from engine.broker.cleaning.chunks import CleanedChunk, PlainRun, chunks_of
from engine.broker.cleaning.cleaned_transactions import CleanedTransactionMetadata
from engine.broker.cleaning.cleaner_stats import CleanerStats
from engine.broker.cleaning.filtered_chunk import filter_chunk
from engine.broker.cleaning.log_to_clean import LogToClean
from engine.broker.cleaning.segment_groups import group_segments_by_size
from engine.broker.cleaning.throttler import Throttler
from engine.broker.log.unified_log import UnifiedLog
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.clock import Clock
from engine.errors import LogCleaningAbortedError, OffsetOverflowError
from engine.index.offset_map import HashedOffsetMap
from engine.record.memory_records import MemoryRecords
from engine.units import Offset, Timestamp, TopicPartition
from engine.writing.segment.segment_replacement import create_new_cleaned_segment
from engine.writing.segment.writable_segment import WritableSegment

logger = logging.getLogger(__name__)


class Cleaner:
    """Cleaner of logs, one at a time.

    Args:
        offset_map: map for the keys of the dirty part; keys that do not fit wait for the next cleaning.
        clock: source of the time.
        io_buffer_size: bytes to read at a time; a larger batch is read whole.
        load_factor: share of the map's slots that may be used.
        throttler: limits the rate of reads and writes.
        check_done: called often; raises LogCleaningAbortedError to stop.
        budgets: limits of a decoded batch.

    Attributes:
        offset_map: the given map.

    Raises:
        ValueError: the map has no room for a key.
    """

    def __init__(
        self,
        offset_map: HashedOffsetMap,
        clock: Clock,
        *,
        io_buffer_size: int,
        load_factor: float,
        throttler: Throttler,
        check_done: Callable[[TopicPartition], object],
        budgets: Budgets = DEFAULT_BUDGETS,
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

    def clean(
        self, cleanable: LogToClean, now: Timestamp | None = None
    ) -> tuple[Offset, CleanerStats]:
        """Clean a log.

        Args:
            cleanable: the log, and the part to clean.
            now: time to compare delete horizons with; by default the clock's.

        Returns:
            the first uncleaned offset, and the statistics.

        Raises:
            LogCleaningAbortedError: the cleaning was stopped, or a segment had to be split first.
            CorruptRecordError, InvalidRecordError: a batch is damaged.
            OSError: the disk fails. LogDirFailureError: the disk failed before.
        """
        log = cleanable.log
        start, end = cleanable.first_dirty_offset, cleanable.first_uncleanable_offset
        stats = CleanerStats(self._clock.now_ms())
        if now is None:
            now = self._clock.now_ms()
        legacy_horizon = _legacy_delete_horizon(log, start)
        self.build_offset_map(log, start, end, self.offset_map, stats)
        stats.map_complete_time = self._clock.now_ms()
        clean_end = self.offset_map.latest_offset + 1
        groups = group_segments_by_size(
            log.segments_between(0, clean_end),
            log.config.segment_size,
            log.config.max_index_size,
            end,
        )
        logger.info(
            "cleaning offsets %d to %d of %s into %d segments", start, end, log, len(groups)
        )
        transactions = CleanedTransactionMetadata()
        for group in groups:
            self.clean_segments(
                log, group, self.offset_map, now, stats, transactions, legacy_horizon
            )
        stats.buffer_utilization = self.offset_map.utilization
        stats.end_time = self._clock.now_ms()
        return clean_end, stats

    # Keys

    def build_offset_map(
        self,
        log: UnifiedLog,
        start: Offset,
        end: Offset,
        offset_map: HashedOffsetMap,
        stats: CleanerStats,
    ) -> None:
        """Put the keys of [start, end) into a map, as many as fit. Raises as `clean` does."""
        offset_map.clear()
        dirty = log.segments_between(start, end)
        bounds = [segment.base_offset for segment in dirty[1:]] + [end]
        transactions = CleanedTransactionMetadata()
        transactions.add_aborted_transactions(log.collect_aborted_transactions(start, end))
        for segment, bound in zip(dirty, bounds, strict=False):
            self._check_done(log.topic_partition)
            if self._map_segment(log, segment, start, offset_map, transactions, stats):
                logger.info("the offset map is full within %s", segment)
                return
            # Missing offsets before the next segment count as clean.
            offset_map.latest_offset = bound - 1

    def _map_segment(
        self,
        log: UnifiedLog,
        segment: WritableSegment,
        start: Offset,
        offset_map: HashedOffsetMap,
        transactions: CleanedTransactionMetadata,
        stats: CleanerStats,
    ) -> bool:
        """Put the keys of a segment; return whether the map was full before its end."""
        position = segment.offset_index.lookup(start).position
        limit = int(offset_map.slots * self._load_factor)
        for chunk in chunks_of(segment.log, position, self._io_buffer_size, budgets=self._budgets):
            self._check_done(log.topic_partition)
            self._throttler.maybe_throttle(chunk.size)
            if _map_chunk(chunk, start, limit, offset_map, transactions, stats):
                return True
            stats.map_bytes_read += chunk.size
        return False

    # Segments

    def clean_segments(
        self,
        log: UnifiedLog,
        segments: Sequence[WritableSegment],
        offset_map: HashedOffsetMap,
        now: Timestamp,
        stats: CleanerStats,
        transactions: CleanedTransactionMetadata,
        legacy_delete_horizon_ms: Timestamp,
    ) -> None:
        """Replace several segments by one without the removable records. Raises as `clean` does.

        Args:
            log: log of the segments.
            segments: adjacent segments.
            offset_map: last offset of each key.
            now: time to compare delete horizons with.
            stats: statistics to update.
            transactions: state of transactions before the first segment.
            legacy_delete_horizon_ms: segments modified later keep tombstones of magic 0 and 1.
        """
        cleaned = create_new_cleaned_segment(log.log_folder, segments[0].base_offset)
        modified = segments[-1].files.last_modified
        try:
            transactions.cleaned_index = cleaned.txn_index
            last_records = _last_records_of_active_producers(log)
            for place, segment in enumerate(segments):
                following = segments[place + 1 : place + 2]
                bound = following[0].base_offset if following else segment.read_next_offset()
                transactions.add_aborted_transactions(
                    log.collect_aborted_transactions(segment.base_offset, bound)
                )
                decides = BatchFilter(
                    now,
                    log.config.delete_retention_ms,
                    offset_map,
                    transactions,
                    last_records,
                    log.high_watermark,
                    segment.files.last_modified > legacy_delete_horizon_ms,
                    stats,
                )
                self._clean_into(log, segment, cleaned, decides)
            cleaned.on_become_inactive_segment()
            cleaned.flush()
            cleaned.files.set_last_modified(modified)
            self._check_done(log.topic_partition)
        except BaseException:
            _discard(cleaned)
            raise
        log.replace_segments([cleaned], list(segments))

    def _clean_into(
        self,
        log: UnifiedLog,
        source: WritableSegment,
        destination: WritableSegment,
        decides: BatchFilter,
    ) -> None:
        """Append the kept records of a segment to a new one, which nobody reads yet."""
        try:
            self._check_done(log.topic_partition)
            for chunk in chunks_of(source.log, 0, self._io_buffer_size, budgets=self._budgets):
                self._check_done(log.topic_partition)
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
            logger.info("%s is split before it is cleaned: %s", source, error)
            _discard(destination)
            log.split_overflowed_segment(source)
            raise LogCleaningAbortedError(
                f"a segment of {log.topic_partition} had offsets too far from its base: it was split"
            ) from error


def _map_chunk(
    chunk: CleanedChunk,
    start: Offset,
    limit: int,
    offset_map: HashedOffsetMap,
    transactions: CleanedTransactionMetadata,
    stats: CleanerStats,
) -> bool:
    """Put the keys of a chunk; return whether the map was full before its end."""
    for part in chunk.parts():
        if isinstance(part, PlainRun):
            if _map_run(part, start, limit, offset_map, stats):
                return True
            transactions.begin_aborted_up_to(int(part.rows["last_offset"].max()))
            continue
        row, batch = part
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
            offset_map.latest_offset = batch.last_offset
    return False


def _map_run(
    run: PlainRun, start: Offset, limit: int, offset_map: HashedOffsetMap, stats: CleanerStats
) -> bool:
    """Put the keys of plain batches; return whether the map was full before their end."""
    seen = offset_map.put_keys(run.columns, start, limit)
    stats.map_messages_read += seen
    is_full = seen < len(run.columns)
    whole = run.table[run.first : run.columns.row[seen]] if is_full else run.rows
    ends = whole["last_offset"][whole["last_offset"] >= start]
    if len(ends) and not (is_full and ends[-1] < offset_map.latest_offset):
        offset_map.latest_offset = int(ends[-1])
    return is_full


def _legacy_delete_horizon(log: UnifiedLog, first_dirty_offset: Offset) -> Timestamp:
    """Return the time after which modified segments keep tombstones of magic 0 and 1.

    It is the last clean segment's modification time less delete.retention.ms.
    """
    clean = log.segments_between(0, first_dirty_offset)
    return clean[-1].files.last_modified - log.config.delete_retention_ms if clean else 0


def _last_records_of_active_producers(log: UnifiedLog) -> dict[int, LastRecord]:
    with log.lock:
        return {
            producer_id: LastRecord(
                entry.last_data_offset if entry.last_data_offset >= 0 else None,
                entry.producer_epoch,
            )
            for producer_id, entry in log.producer_state.active_producers.items()
        }


def _discard(cleaned: WritableSegment) -> None:
    """Remove an incomplete segment; if that fails, the next load of the log removes it."""
    try:
        cleaned.files.delete_if_exists()
    except OSError:
        logger.exception("%s cannot be removed", cleaned)
