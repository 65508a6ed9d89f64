"""Fetch the batches of one partition from an offset on, as a leader answers a consumer."""

from __future__ import annotations

import logging
from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.log.log_view import LogView
from engine.log.partition_log import PartitionLog
from engine.record.attributes import TimestampType
from engine.units import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    EpochEntry,
    Offset,
    Position,
)
from engine.writing.records.encoding import encode_empty_batch
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.file_slice import FileSlice, Piece, size_of
from kafkafs.serve.records.aborted_transactions import Aborted, FetchedRange, aborted_in
from kafkafs.serve.records.batch_choice import (
    DamagedOffsets,
    GoodBatches,
    find_batches,
    position_of,
)
from kafkafs.serve.records.conversions import Conversions, OldFormats
from kafkafs.serve.records.proven_ranges import ProvenRanges

logger = logging.getLogger(__name__)

_UNKNOWN_OFFSET = -1
_CHEAP_LOG = 16 * 1024 * 1024
"""Size of a log that is read for its open transactions, though the consumer does not ask for committed records."""


class WantedBatches(NamedTuple):
    """What a consumer asks of a partition.

    Attributes:
        offset: first offset.
        most: largest number of bytes.
        current_epoch: leader epoch that the consumer knows; -1 if it knows none.
        last_epoch: leader epoch of the record before `offset`; -1 if not stated.
    """

    offset: Offset
    most: int
    current_epoch: int = NO_PARTITION_LEADER_EPOCH
    last_epoch: int = NO_PARTITION_LEADER_EPOCH


class FetchedBatches(NamedTuple):
    """Answer for a partition.

    Attributes:
        error: the error; with one there are no batches.
        high_watermark, last_stable_offset, log_start_offset: -1 with an error.
        pieces: the bytes, which may end inside a batch.
        aborted: aborted transactions of the batches; None if the consumer did not ask.
        diverging: epoch and end offset up to which the consumer agrees with the log; None if it agrees.
        current_epoch: newest leader epoch, told to a client that knows an older one; -1 if not told.
    """

    error: ErrorCode = ErrorCode.NONE
    high_watermark: Offset = _UNKNOWN_OFFSET
    last_stable_offset: Offset = _UNKNOWN_OFFSET
    log_start_offset: Offset = _UNKNOWN_OFFSET
    pieces: tuple[Piece, ...] = ()
    aborted: list[Aborted] | None = None
    diverging: EpochEntry | None = None
    current_epoch: int = NO_PARTITION_LEADER_EPOCH

    @property
    def size(self) -> int:
        """Bytes of the batches."""
        return size_of(self.pieces)


class FetchRules(NamedTuple):
    """What the operator chose.

    Attributes:
        skip_damaged: answer a batch without records in place of damage, not an error.
        old_formats: what becomes of batches of magic 0 and 1.
    """

    skip_damaged: bool = False
    old_formats: OldFormats = OldFormats.AS_IS


DEFAULT_RULES = FetchRules()


class PartitionFetch:
    """Fetches from partitions; safe from several threads."""

    def __init__(self, cluster: ClusterView, rules: FetchRules) -> None:
        self._cluster = cluster
        self._rules = rules
        self._proven = ProvenRanges()
        self._conversions = Conversions()

    def fetch(
        self,
        log: PartitionLog | None,
        wanted: WantedBatches,
        most: int,
        *,
        committed: bool,
        min_one_batch: bool,
    ) -> FetchedBatches:
        """Return batches of a partition, or the error.

        Args:
            log: the partition; None for an unknown one.
            wanted: offset and limits of the consumer.
            most: bytes that are left for the whole answer.
            committed: whether to stop at the last stable offset.
            min_one_batch: return the first batch whole, whatever its size.
        """
        if log is None:
            return FetchedBatches(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            return self._fetch(log, wanted, min(wanted.most, most), committed, min_one_batch)
        except FileNotFoundError:
            # A broker deleted the segment or the partition after the look; the consumer asks again.
            return FetchedBatches(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except (OSError, KafkaStorageError) as error:
            logger.warning("%s: offset %d: %s", log.name, wanted.offset, error)
            return FetchedBatches(ErrorCode.KAFKA_STORAGE_ERROR)

    def _fetch(
        self,
        log: PartitionLog,
        wanted: WantedBatches,
        most: int,
        committed: bool,
        min_one_batch: bool,
    ) -> FetchedBatches:
        error = self.epoch_error(log, max(wanted.current_epoch, NO_PARTITION_LEADER_EPOCH))
        if error:
            is_fenced = error == ErrorCode.FENCED_LEADER_EPOCH
            epoch = self._cluster.leader_epoch(log) if is_fenced else NO_PARTITION_LEADER_EPOCH
            return FetchedBatches(error, current_epoch=epoch)
        view = log.view()
        answer = FetchedBatches(
            high_watermark=view.log_end_offset,
            last_stable_offset=_stable_offset(view, committed),
            log_start_offset=view.log_start_offset,
            aborted=[] if committed else None,
        )
        if wanted.last_epoch >= 0:
            end = view.leader_epochs.end_offset_for(wanted.last_epoch, view.log_end_offset)
            if end is None or wanted.offset < view.log_start_offset:
                return FetchedBatches(ErrorCode.OFFSET_OUT_OF_RANGE)
            if end[0] < wanted.last_epoch or end[1] < wanted.offset:
                return answer._replace(diverging=EpochEntry(*end), aborted=None)
        if not view.log_start_offset <= wanted.offset <= view.log_end_offset:
            return FetchedBatches(ErrorCode.OFFSET_OUT_OF_RANGE)
        bound = answer.last_stable_offset if committed else view.log_end_offset
        if wanted.offset >= bound:
            return answer
        if most < 0:
            return FetchedBatches(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self._with_batches(view, wanted.offset, bound, answer, most, min_one_batch)

    def epoch_error(self, log: PartitionLog, stated: int) -> ErrorCode:
        """Return the error for the leader epoch that a client states, NONE if it is right or unknown here."""
        none = NO_PARTITION_LEADER_EPOCH
        known = none if stated == none else self._cluster.leader_epoch(log)
        if known in (none, stated):
            return ErrorCode.NONE
        if stated < known:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def _with_batches(
        self,
        view: LogView,
        offset: Offset,
        bound: Offset,
        answer: FetchedBatches,
        most: int,
        min_one_batch: bool,
    ) -> FetchedBatches:
        found = find_batches(view, offset, self._proven)
        if found is None:
            return answer
        if isinstance(found, DamagedOffsets):
            return self._without_lost(view, offset, found, answer)
        segment, start, first_size = found
        limit = position_of(view, segment, bound)
        most = max(most, first_size) if min_one_batch else most
        if 0 < most < first_size:
            return answer._replace(aborted=None)
        stop = start
        if most and limit > start:
            stop = self._proven.good_end(view, segment, start, min(start + most, limit))
        if stop > start and self._rules.old_formats is not OldFormats.AS_IS:
            old, old_end = self._proven.old_part(view, segment, start, limit)
            if old == start:
                return self._without_old(view, offset, found, old_end, answer, most, min_one_batch)
            stop = min(stop, old)
        pieces = (FileSlice(segment.file, start, stop - start),) if stop > start else ()
        if answer.aborted is not None:
            has_transactions = self._proven.has_transactions(view, segment)
            fetched = FetchedRange(segment, offset, start, stop)
            aborted = aborted_in(view, fetched, has_transactions=has_transactions)
            answer = answer._replace(aborted=aborted)
        return answer._replace(pieces=pieces)

    def _without_old(
        self,
        view: LogView,
        offset: Offset,
        found: GoodBatches,
        end: Position,
        answer: FetchedBatches,
        most: int,
        min_one_batch: bool,
    ) -> FetchedBatches:
        """Return batches of magic 2 in place of those of magic 0 and 1, or the error."""
        if self._rules.old_formats is OldFormats.REFUSE:
            return FetchedBatches(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        made = self._conversions.convert(view, found.segment, found.start, end)
        if made.failed is not None and not made.batches:
            return self._without_lost(view, offset, made.failed, answer)
        if len(made.batches[0]) > most and not min_one_batch:
            return answer
        return answer._replace(pieces=(made.up_to(most),))

    def _without_lost(
        self, view: LogView, offset: Offset, lost: DamagedOffsets, answer: FetchedBatches
    ) -> FetchedBatches:
        """Return the error of damage, or a batch without records that takes its place."""
        if not self._rules.skip_damaged:
            return FetchedBatches(ErrorCode.CORRUPT_MESSAGE)
        empty = encode_empty_batch(
            base_offset=offset,
            last_offset=lost.next_offset - 1,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            partition_leader_epoch=max(view.leader_epochs.epoch_for(offset) or 0, 0),
            timestamp_type=TimestampType.CREATE_TIME,
            timestamp=NO_TIMESTAMP,
            is_transactional=False,
            is_control=False,
        )
        return answer._replace(pieces=(bytes(empty),))


def _stable_offset(view: LogView, committed: bool) -> Offset:
    """Return the last stable offset; -1 if it is not asked for and a long log would have to be read."""
    if committed or view.listing.producer_snapshots or view.size < _CHEAP_LOG:
        return view.last_stable_offset
    return _UNKNOWN_OFFSET
