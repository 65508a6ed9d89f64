"""A partition's log at one moment, with its look-ups.

Offsets, look-ups by time and fates of transactions are those of a broker with this log, with one exception: a
look-up by time that finds a record below the log start goes on in the next segment, where Kafka's ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any

from engine.arrays import np, npt
from engine.columns.batch_table import BatchProblem, Problem
from engine.columns.columns import Columns
from engine.errors import (
    CorruptRecordError,
    InvalidRecordError,
    LimitExceededError,
    OffsetOutOfRangeError,
    UnsupportedCodecError,
)
from engine.files.file_names import transaction_index_name
from engine.lines.record_line import LineOptions
from engine.log.log_segments import LogSegments
from engine.log.segment.fetch import FetchDataInfo, FetchIsolation, offset_metadata, read_up_to
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.log.view import stable_offset
from engine.log.view.log_contents import LogContents
from engine.log.view.time_look_ups import TimeLookUps, first_of_newest
from engine.log.view.transactions import FateFinder, OngoingTxn, TransactionState
from engine.record.fate import Fate
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.state.producer_state_entry import ProducerStateEntry
from engine.units import (
    BatchPosition,
    FoundTimestamp,
    Offset,
    Timestamp,
)


@dataclass(slots=True, eq=False, repr=False)
class LogView(LogContents):
    """A log at one moment; immutable, so threads share it without locks.

    Facts are worked out at the first request and kept; two threads may both do it, with the same result.

    Attributes:
        generation: number of the view of the partition, ascending.
        rewrites: number of times that records shown before may have been replaced or cut off; while it
            stays the same, views only gain records.
        known_transactions: the open transactions at the log end; None until somebody asks for them.
        ended: of a log that is cut, fates of the transactions whose end was cut off, by producer id; the
            others without an end are aborted. None for a whole log.
        losses: what `engine.verdict` knows of the view; None until somebody asks for it.

    Args:
        after: the view before this one.

    Look-ups raise FileNotFoundError for a segment that was deleted, other OSError.
    """

    _: KW_ONLY
    generation: int = 0
    rewrites: int = 0
    after: InitVar[LogView | None] = None
    known_transactions: TransactionState | None = None
    ended: Mapping[int, Fate] | None = None
    losses: object = None
    _times: TimeLookUps | None = field(default=None, init=False)
    _all_segments: LogSegments[LogSegment] | None = field(default=None, init=False)
    _transactions_below: tuple[Offset, TransactionState] | None = field(default=None, init=False)
    _producers: Mapping[int, ProducerStateEntry] | None = field(default=None, init=False)
    _leader_epochs: LeaderEpochCache | None = field(default=None, init=False)
    _topic_id: tuple[str | None] | None = field(default=None, init=False)
    _max_timestamp: tuple[FoundTimestamp | None] | None = field(default=None, init=False)
    _fates: FateFinder | None = field(default=None, init=False)
    _abort_bases: tuple[Offset, ...] | None = field(default=None, init=False)

    def __post_init__(self, after: LogView | None) -> None:
        LogContents.__post_init__(self)
        if after is not None and after._times is not None and after.rewrites == self.rewrites:
            known = len(after.base_offsets)
            is_same = self.base_offsets is after.base_offsets
            if is_same or self.base_offsets[:known] == after.base_offsets:
                start = self.log_start_offset
                self._times = after._times.of_later_view(max(known - 1, 0), start)

    # State, worked out once

    @property
    def segments(self) -> LogSegments[LogSegment]:
        """All segments by base offset."""
        known = self._all_segments
        if known is None:
            known = self._all_segments = LogSegments(map(self.segment_at, range(len(self))))
        return known

    @property
    def open_transactions(self) -> tuple[OngoingTxn, ...]:
        """Transactions without an end, by first offset."""
        return self.transaction_state.ongoing

    @property
    def transaction_state(self) -> TransactionState:
        """The open transactions at the log end; not to be changed."""
        known = self.known_transactions
        if known is None:
            known = stable_offset.transaction_state(self, self.log_end_offset)
            self.known_transactions = known
        return known

    @property
    def producers(self) -> Mapping[int, ProducerStateEntry]:
        """The idempotent producers at the log end, by id; not to be changed."""
        known = self._producers
        if known is None:
            # Imported here: look-ups do without it.
            from engine.log.view.active_producers import active_producers

            known = self._producers = active_producers(self)
        return known

    @property
    def last_stable_offset(self) -> Offset:
        """First offset of the first open transaction, else the log end; read_committed reads up to it.

        A broker also keeps it at or below the high watermark, which the files state only late.
        """
        ongoing = self.open_transactions
        if not ongoing:
            return self.log_end_offset
        return max(ongoing[0].first_offset, self.log_start_offset)

    def end(self, *, committed: bool) -> Offset:
        """Return the end of the log for a reader: its end, or for read_committed the last stable offset."""
        return self.last_stable_offset if committed else self.log_end_offset

    def first_unstable_offset(self, until: Offset) -> Offset:
        """Return the last stable offset of the log when it ended at `until`."""
        if until >= self.log_end_offset:
            return self.last_stable_offset
        known = self._transactions_below
        if known is None or known[0] != until:
            known = until, stable_offset.transaction_state(self, until)
            self._transactions_below = known
        ongoing = known[1].ongoing
        return max(ongoing[0].first_offset, self.log_start_offset) if ongoing else until

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Leader epochs of the checkpoint, or of the batches where that is missing or broken."""
        known = self._leader_epochs
        if known is None:
            known = self._leader_epochs = stable_offset.leader_epochs(self)
        return known

    @property
    def topic_id(self) -> str | None:
        """Topic id in base64, from partition.metadata; None when that is missing or broken."""
        known = self._topic_id
        if known is None:
            known = self._topic_id = (stable_offset.topic_id(self.log),)
        return known[0]

    # Look-ups by offset

    def locate(self, offset: Offset) -> tuple[LogSegment, BatchPosition] | None:
        """Return the first batch that reaches an offset of [log start, log end), and its segment; None outside.

        In a gap, which compaction leaves, it is the batch after the gap. The checksum is not checked.
        """
        if not self.log_start_offset <= offset < self.log_end_offset:
            return None
        for segment in self.segments_from(offset):
            found = segment.locate(offset)
            if found is not None:
                return segment, found
        return None

    def batch(
        self, offset: Offset, before_large: Callable[[int], object] | None = None
    ) -> tuple[LogSegment, BatchRun] | None:
        """Return the batch that holds an offset, with its checksum checked, as a run of one row.

        None when the offset is outside [log start, log end) or in a gap between batches. The batch may lack
        the record: compaction keeps the offsets in a batch's header.

        Args:
            offset: offset of a record.
            before_large: called with the size of a large batch before it is read.

        Raises:
            CorruptRecordError: the batch is damaged, or damage may have taken it.
        """
        if not self.log_start_offset <= offset < self.log_end_offset:
            self._refuse_unread(offset)
            return None
        segment = self._segment_with(offset)
        run = segment.batch(offset, before_large)
        if run is not None:
            return segment, run
        earlier = self.reaching(segment)
        if earlier is not None and offset < earlier.next_offset:
            run = earlier.batch(offset, before_large)
            return None if run is None else (earlier, run)
        segment.check_gap(offset, self.next_base(segment))
        return None

    def _segment_with(self, offset: Offset) -> LogSegment:
        """Return the segment of an offset of [log start, log end); the first one begins at or below the log start."""
        return self.segment_at(bisect_right(self.base_offsets, offset) - 1)

    def _sound_segment(self, offset: Offset) -> LogSegment:
        """Return a segment whose good batch of an offset of [log start, log end) is that of the log."""
        return self._segment_with(offset)

    def _refuse_unread(self, offset: Offset) -> None:
        """Raise CorruptRecordError when unreadable bytes at the log end may hold an offset."""
        unread = self.unread_end if offset >= self.log_end_offset else None
        if unread is None or self._active is None:
            return
        end = self.log.end_of_clean_stop()
        if end is None or not self.log_end_offset <= end <= offset:
            path, position = self._active.path, self._active.end
            raise CorruptRecordError(unread.reason, path=path, position=position)

    def record(self, offset: Offset) -> tuple[Columns, int] | None:
        """Return columns with the record of exactly this offset, and its row in them.

        None when the offset is outside [log start, log end) or was removed by compaction.

        Raises:
            CorruptRecordError, InvalidRecordError, LimitExceededError, UnsupportedCodecError: the record is,
                or may be, in a batch that cannot be read.
        """
        if self.log_start_offset <= offset < self.log_end_offset:
            alone = self._sound_segment(offset).record(offset)
            if alone is not None:
                return alone, 0
        found = self.batch(offset)
        if found is None:
            return None
        segment, run = found
        budgets = self.log.budgets
        columns = run.decoded(0, budgets)
        places = np.flatnonzero(columns.offset == offset)
        if len(places):
            return columns, int(places[0])
        if columns.problems:
            raise _decode_error(columns.problems[0], segment.path, run)
        return None

    def line(self, offset: Offset, options: LineOptions) -> tuple[bytes, Timestamp] | None:
        """Return the line of the record with exactly this offset, and its timestamp.

        None when there is no such record, or when only `batch` can tell: damage, a transaction, a large batch.
        """
        if not self.log_start_offset <= offset < self.log_end_offset:
            return None
        return self._sound_segment(offset).line(offset, options)

    @property
    def tiers(self) -> tuple[Offset, Offset | None]:
        """The start of what is on local disks, and the end of what is in tiered copies; None without those."""
        return self.log_start_offset, None

    # Look-ups by time

    def offset_for_time(
        self, timestamp: Timestamp, *, records_only: bool = False
    ) -> FoundTimestamp | None:
        """Return the first record, in offset order, at or after a time; None without one.

        Args:
            timestamp: time in milliseconds.
            records_only: leave out control records, which ListOffsets counts.

        Raises:
            UnsupportedCodecError: the codec of a batch that may hold the record is not installed.
        """
        times = self._times
        if times is None:
            times = self._times = TimeLookUps()
        return times.find(self, timestamp, records_only=records_only)

    @property
    def max_timestamp(self) -> FoundTimestamp | None:
        """The first record with the largest timestamp; None when no record has a timestamp."""
        known = self._max_timestamp
        if known is None:
            known = self._max_timestamp = (first_of_newest(self),)
        return known[0]

    # Transactions

    @property
    def abort_bases(self) -> tuple[Offset, ...]:
        """Base offsets of the segments with an index of aborted transactions, ascending."""
        if self._abort_bases is None:
            has_file, real = self.listing.has_file, self.listing.real
            self._abort_bases = tuple(
                base for base in self.base_offsets if has_file(real(transaction_index_name(base)))
            )
        return self._abort_bases

    def fates(self, segment: LogSegment, run: BatchRun) -> npt.NDArray[np.uint8] | None:
        """Return a Fate for each row of a run; None when no row is transactional."""
        known = self._fates
        if known is None:
            known = self._fates = FateFinder(
                self.segments_from,
                lambda: self.open_transactions,
                self.log.markers,
                lambda: stable_offset.indexed_aborts(self),
                self.ended,
            )
        return known.fates(segment, run)

    # Fetches

    def read(
        self,
        start_offset: Offset,
        max_size: int,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        *,
        min_one_message: bool = False,
    ) -> FetchDataInfo:
        """Return the batches from the first that reaches an offset, as a fetch request does.

        Raises:
            OffsetOutOfRangeError: the offset is below the log start or above the log end.
            ValueError: `max_size` is negative.
        """
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"{self.name} has offsets {self.log_start_offset} to {self.log_end_offset},"
                f" not {start_offset}"
            )
        end = self.end_metadata
        bound = offset_metadata(self.segments_from, end, self._first_unseen(isolation))
        found, _ = read_up_to(
            self.segments_from,
            end,
            start_offset,
            max_size,
            bound,
            min_one_message=min_one_message,
        )
        return found

    def _first_unseen(self, isolation: FetchIsolation) -> Offset:
        """Return the first offset that a reader does not see."""
        if isolation is FetchIsolation.LOG_END:
            return self.log_end_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.high_watermark
        return self.first_unstable_offset(self.high_watermark)


def _decode_error(problem: BatchProblem, path: str, run: BatchRun) -> Exception:
    """Return the error for the first batch of a run, which does not decode whole."""
    facts: Mapping[str, Any] = {"path": path, "position": run.position}
    if problem.code == Problem.CODEC_MISSING:
        return UnsupportedCodecError(problem.detail)
    if problem.code == Problem.LIMIT:
        return LimitExceededError(problem.detail, limit="inflated_bytes", **facts)
    if problem.code == Problem.DECOMPRESSION:
        return CorruptRecordError(problem.detail, **facts)
    return InvalidRecordError(problem.detail, index=problem.record_index, **facts)
