"""Fetch the batches of one partition from an offset on, as a leader answers a consumer."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.files.source_files import EXHAUSTED, SourceFile
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.record.attributes import TimestampType
from engine.record.encoding.batch_encoding import encode_empty_batch
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
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.file_slice import FileSlice, Piece, size_of
from kafkafs.serve.rare_lines import RareLines
from kafkafs.serve.records.aborted_transactions import Aborted, FetchedRange, aborted_in
from kafkafs.serve.records.batch_choice import (
    DamagedOffsets,
    GoodBatches,
    find_batches,
    position_of,
)
from kafkafs.serve.records.conversions import Conversions, OldFormats
from kafkafs.serve.records.partition_look import (
    UNKNOWN_OFFSET,
    Key,
    PartitionLook,
    PartitionLooks,
)

_SHORTAGE = "no descriptor is left for files: consumers wait for some of their partitions; raise `ulimit -n`"
_MOST_LOSSES = 1000
"""Places with lost offsets that one answer leaves out; behind more of them a batch without records is sent."""


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


@dataclass(slots=True)
class FetchedBatches:
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
    high_watermark: Offset = UNKNOWN_OFFSET
    last_stable_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
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
        skip_damaged: leave damage out: answer with the batches behind it, or at the log end with one without records.
        old_formats: what becomes of batches of magic 0 and 1.
    """

    skip_damaged: bool = False
    old_formats: OldFormats = OldFormats.AS_IS


DEFAULT_RULES = FetchRules()


class PartitionFetch:
    """Fetches from partitions; safe from several threads.

    Args:
        cluster: the source.
        rules: what the operator chose.

    Attributes:
        looks: what is known of the partitions.
        damage_answers: answers that tell of lost or damaged offsets by an error, or that leave them out.
    """

    def __init__(self, cluster: ClusterView, rules: FetchRules) -> None:
        self._cluster = cluster
        self._rules = rules
        self.looks = PartitionLooks(cluster)
        self._conversions = Conversions()
        self.damage_answers = 0
        self._counting = Lock()
        self._rare = RareLines()

    def fetch(
        self,
        key: Key,
        wanted: WantedBatches,
        most: int,
        *,
        has_id: bool,
        committed: bool,
        min_one_batch: bool,
    ) -> FetchedBatches:
        """Return batches of a partition, or the error.

        Args:
            key: the partition.
            wanted: offset and limits of the consumer.
            most: bytes that are left for the whole answer.
            has_id: whether the key has the topic's id, not its name.
            committed: whether to stop at the last stable offset.
            min_one_batch: return the first batch whole, whatever its size.
        """
        try:
            look = self.looks.of(key, has_id=has_id)
            if look is None:
                return FetchedBatches(self._why_unknown(key, has_id=has_id), aborted=[])
            return self._fetch(look, wanted, min(wanted.most, most), committed, min_one_batch)
        except FileNotFoundError:
            # A broker deleted the segment or the partition after the look; the consumer asks again.
            return FetchedBatches(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except (OSError, KafkaStorageError) as error:
            if isinstance(error, OSError) and error.errno in EXHAUSTED:
                # The files of this answer and of others are closed once these are sent: the consumer asks again.
                self._rare.warn(_SHORTAGE, _SHORTAGE)
                return FetchedBatches(ErrorCode.NONE)
            topic = self._cluster.topic_of_id(key[0]) if has_id else None
            name = key[0] if topic is None else topic.name
            self._rare.failed(error, f"{name}-{key[1]}: offset {wanted.offset}")
            return FetchedBatches(ErrorCode.KAFKA_STORAGE_ERROR)

    def _why_unknown(self, key: Key, *, has_id: bool) -> ErrorCode:
        if has_id and self._cluster.topic_of_id(key[0]) is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _fetch(
        self,
        look: PartitionLook,
        wanted: WantedBatches,
        most: int,
        committed: bool,
        min_one_batch: bool,
    ) -> FetchedBatches:
        view, offset = look.view, wanted.offset
        if wanted.current_epoch >= 0:
            error = self.epoch_error(look.log, wanted.current_epoch)
            if error:
                is_fenced = error == ErrorCode.FENCED_LEADER_EPOCH
                none = NO_PARTITION_LEADER_EPOCH
                epoch = self._cluster.leader_epoch(look.log) if is_fenced else none
                return FetchedBatches(error, current_epoch=epoch)
            if look.ready is not None:
                look.ready.know_epoch(wanted.current_epoch)
        start, end = view.log_start_offset, view.log_end_offset
        answer = FetchedBatches(
            ErrorCode.NONE,
            end,
            look.stable_offset(committed=committed),
            start,
            aborted=[] if committed else None,
        )
        if wanted.last_epoch >= 0:
            found = view.leader_epochs.end_offset_for(wanted.last_epoch, end)
            if found is None or offset < start:
                return FetchedBatches(ErrorCode.OFFSET_OUT_OF_RANGE)
            if found[0] < wanted.last_epoch or found[1] < offset:
                answer.diverging, answer.aborted = EpochEntry(*found), None
                return answer
        if not start <= offset <= end:
            return FetchedBatches(ErrorCode.OFFSET_OUT_OF_RANGE)
        bound = answer.last_stable_offset if committed else end
        if offset >= bound:
            return answer
        if most < 0:
            return FetchedBatches(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self._with_batches(look, offset, bound, answer, most, min_one_batch)

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
        look: PartitionLook,
        offset: Offset,
        bound: Offset,
        answer: FetchedBatches,
        most: int,
        min_one_batch: bool,
    ) -> FetchedBatches:
        """Return the batches from an offset below `bound` on; lost offsets are an error, or left out."""
        sought = offset
        for _ in range(_MOST_LOSSES):
            batches = find_batches(look, sought, most, min_one_batch=min_one_batch)
            if batches is None and sought == offset:
                return answer
            found = (
                self._good(look, sought, bound, batches, answer, most, min_one_batch)
                if isinstance(batches, GoodBatches)
                else batches
            )
            if isinstance(found, FetchedBatches):
                return found
            if sought == offset:
                with self._counting:
                    self.damage_answers += 1
            if not self._rules.skip_damaged:
                return FetchedBatches(ErrorCode.CORRUPT_MESSAGE)
            sought = bound if found is None else found.next_offset
            if sought >= bound:
                break
        answer.pieces = (_empty_batch(look.view, offset, sought),)
        return answer

    def _good(
        self,
        look: PartitionLook,
        offset: Offset,
        bound: Offset,
        found: GoodBatches,
        answer: FetchedBatches,
        most: int,
        min_one_batch: bool,
    ) -> FetchedBatches | DamagedOffsets:
        """Return the answer with the good batches that were found, or the damage where they cannot be converted."""
        view = look.view
        segment, file, start, first_size, stop = found
        limit = position_of(view, segment, bound)
        most = max(most, first_size) if min_one_batch else most
        if 0 < most < first_size:
            answer.aborted = None
            return answer
        stop = min(stop, start + most, limit)
        if stop > start and self._rules.old_formats is not OldFormats.AS_IS:
            old, old_end = look.proof(file).old_part(start, limit)
            if old == start:
                return self._without_old(view, offset, found, old_end, answer, most, min_one_batch)
            stop = min(stop, old)
        elif stop > start:
            look.know_good(segment, file, start)
        if stop > start:
            piece = FileSlice(file, start, stop - start)
            # Only a descriptor can be sent from, and only one of all of the bytes.
            is_sent = type(file) is SourceFile and file.fd >= 0
            answer.pieces = (piece if is_sent else file.read_at(start, stop - start),)
        if answer.aborted is not None:
            has_transactions = look.proof(file).has_transactions
            fetched = FetchedRange(segment, offset, start, max(stop, start))
            answer.aborted = aborted_in(view, fetched, has_transactions=has_transactions)
        return answer

    def _without_old(
        self,
        view: LogView,
        offset: Offset,
        found: GoodBatches,
        end: Position,
        answer: FetchedBatches,
        most: int,
        min_one_batch: bool,
    ) -> FetchedBatches | DamagedOffsets:
        """Return batches of magic 2 in place of those of magic 0 and 1, or the error or damage."""
        if self._rules.old_formats is OldFormats.REFUSE:
            return FetchedBatches(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        made = self._conversions.convert(view, found.segment, found.start, end)
        if made.failed is not None and not made.batches:
            return made.failed
        if len(made.batches[0]) > most and not min_one_batch:
            return answer
        answer.pieces = (made.up_to(most),)
        return answer


def _empty_batch(view: LogView, offset: Offset, end: Offset) -> bytes:
    """Return a batch without records for the offsets of [offset, end), as compaction leaves them."""
    empty = encode_empty_batch(
        base_offset=offset,
        last_offset=end - 1,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        partition_leader_epoch=max(view.leader_epochs.epoch_for(offset) or 0, 0),
        timestamp_type=TimestampType.CREATE_TIME,
        timestamp=NO_TIMESTAMP,
        is_transactional=False,
        is_control=False,
    )
    return bytes(empty)
