"""Look at all copies of a partition: its one log, the losing tails, its transactions. What is found can be sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, takewhile
from typing import TypeAlias

from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.cut.cluster_cut import CutEnd
from engine.errors import DamagedFileError, KafkaStorageError
from engine.files.file_names import LEADER_EPOCH_CHECKPOINT, producer_snapshot_name
from engine.log.log_directory import Unread
from engine.log.segment.scan import BatchRun
from engine.log.view.log_bound import LogBound
from engine.log.view.log_view import LogView
from engine.log.view.transactions import events
from engine.rebuild.assembly.lineage import latest_epoch
from engine.rebuild.assembly.merging import MergedCopies
from engine.rebuild.assembly.pieces import Dropped, Piece
from engine.rebuild.beside.known_facts import KnownFacts
from engine.rebuild.options import RebuildOptions
from engine.rebuild.partition_rebuild import Advance
from engine.rebuild.planning import PlannedLog, plan_log
from engine.rebuild.selection import Chosen
from engine.record.control_records import end_marker_of
from engine.record.fate import Fate
from engine.record.record_batch import make_batch
from engine.recover.partitions.copies import PartitionCopy
from engine.recover.partitions.saved_pieces import SavedPiece, saved
from engine.state.producer_snapshot import ProducerSnapshot
from engine.units import EpochEntry, Offset, Timestamp, TopicPartition
from engine.verdict.loss import Loss

MOST_MARKERS = 200_000
"""Markers of a partition that are kept, the newest ones."""


@dataclass(frozen=True, slots=True)
class SurveyedCopy:
    """A copy, as its files have it.

    Attributes:
        path: its folder.
        node_id: its node; None if unknown.
        source: index of its source.
        epoch: leader epoch of its newest batch; -1 without one.
        start, end: bounds by its records files.
        high_watermark, recovery_point, log_start: by the checkpoints; None without an entry.
        proven_end: the largest end that any of its files states: a larger one than `end` shows that it was cut.
        is_leading: whether the result follows its leader epochs.
    """

    path: str
    node_id: int | None
    source: int
    epoch: int
    start: Offset
    end: Offset
    high_watermark: Offset | None
    recovery_point: Offset | None
    log_start: Offset | None
    proven_end: Offset
    is_leading: bool = False


@dataclass(frozen=True, slots=True)
class SeenMarker:
    """An end marker.

    Attributes:
        producer_id, epoch: of its batch.
        is_commit: whether it commits.
        coordinator_epoch: epoch of the coordinator that wrote it.
        offset, timestamp: of its record.
        data_epoch: epoch of the data that it ends in this partition; None if there is none.
        is_aside: whether it is in a losing tail.
    """

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int
    offset: Offset
    timestamp: Timestamp
    data_epoch: int | None
    is_aside: bool = False


@dataclass(frozen=True, slots=True)
class OpenData:
    """The data of a transaction without an end marker.

    Attributes:
        producer_id, epoch: of its first batch.
        first_offset: of its first batch.
        timestamp: the largest one of its batches, by the producer's clock.
        not_before: timestamp of the newest marker before its last batch, by a broker's clock; -1 without one.
    """

    producer_id: int
    epoch: int
    first_offset: Offset
    timestamp: Timestamp
    not_before: Timestamp


@dataclass(frozen=True, slots=True)
class LostEndMarker:
    """A transaction whose end marker was in damage: the producer's next transaction follows.

    Attributes:
        producer_id, epoch: of its data.
        offset: of the damage, between its data and the next transaction's.
        timestamp: the largest one of its data.
    """

    producer_id: int
    epoch: int
    offset: Offset
    timestamp: Timestamp


_Followed: TypeAlias = tuple[OpenData, Offset, Offset]
"""Data without an end, the base offset of its last batch, and where the producer's next transaction is."""


@dataclass(frozen=True, slots=True)
class AsideTail:
    """Records of a copy that lost against those of a newer leader.

    Attributes:
        copy: index of the copy.
        first_offset, next_offset: their offsets.
        epoch: their leader epoch.
        records: their number.
        pieces: their batches.
    """

    copy: int
    first_offset: Offset
    next_offset: Offset
    epoch: int
    records: int
    pieces: tuple[SavedPiece, ...]


@dataclass(slots=True)
class PartitionSurvey:
    """What all copies of a partition hold together.

    Attributes:
        partition: topic and partition.
        copies: the readable copies.
        pieces: the batches of the log, in offset order.
        start, end: its log start and log end.
        is_cut: whether copies have offsets above the end, of after the moment that is asked for.
        records: number of its records.
        epochs: its leader epochs.
        largest_epoch: of all batches, checkpoints and coordinators in markers; -1 without one.
        coordinator_epoch: the largest of all markers; -1 without one.
        largest_producer_id: of all batches and snapshots; -1 without one.
        max_timestamp: of all batches; -1 without one.
        open: transactions without an end marker.
        lost_ends: transactions whose end marker was in damage.
        markers: end markers in the log and in losing tails.
        data_epochs: epochs of each producer's transactional data.
        clocks_ahead: producers with data of a later time than the broker's that ended it.
        missing: offsets that may have had records.
        dropped: parts of copies that are left out.
        aside: losing tails.
        notes: sentences for the report.
        unread: files that could not be read.
        reason: why there is no log; "" if there is one.
    """

    partition: TopicPartition
    copies: list[SurveyedCopy] = field(default_factory=list)
    pieces: list[SavedPiece] = field(default_factory=list)
    start: Offset = 0
    end: Offset = 0
    is_cut: bool = False
    records: int = 0
    epochs: list[EpochEntry] = field(default_factory=list)
    largest_epoch: int = -1
    coordinator_epoch: int = -1
    largest_producer_id: int = -1
    max_timestamp: Timestamp = -1
    open: list[OpenData] = field(default_factory=list)
    lost_ends: list[LostEndMarker] = field(default_factory=list)
    markers: list[SeenMarker] = field(default_factory=list)
    data_epochs: dict[int, set[int]] = field(default_factory=dict)
    clocks_ahead: set[int] = field(default_factory=set)
    missing: list[Loss] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    aside: list[AsideTail] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    reason: str = ""

    @property
    def leading(self) -> int:
        """Index of the copy whose leader epochs the log follows."""
        return next((at for at, each in enumerate(self.copies) if each.is_leading), 0)

    @property
    def high_watermark(self) -> Offset:
        """Largest high watermark of the copies; 0 without one."""
        return max((each.high_watermark or 0 for each in self.copies), default=0)


def readable(copies: Sequence[PartitionCopy]) -> list[PartitionCopy]:
    """Return the copies whose folders can be listed, in order; a piece counts its copy among these."""
    return [each for each in copies if each.log.view_or_none() is not None]


def survey(
    partition: TopicPartition,
    copies: Sequence[PartitionCopy],
    facts: KnownFacts,
    advance: Advance,
    then: CutEnd | None = None,
) -> PartitionSurvey:
    """Read all copies of a partition, up to its end at a moment if one is given; nothing is written."""
    found = PartitionSurvey(partition)
    logs = readable(copies)
    if not logs:
        found.reason = "no copy can be read"
        return _with_problems(found, copies)
    chosen = Chosen(partition, [each.log for each in logs])
    try:
        stop = None if then is None else LogBound(then.offset)
        options = RebuildOptions(stop=stop, whole_batches=True)
        _fill(found, logs, plan_log(chosen, options, partial(advance, "read"), facts))
        if then is not None:
            _leave_out_later(found, then)
    except (OSError, DamagedFileError) as error:
        found.reason = f"it cannot be read: {error}"
    _with_problems(found, copies)
    for each in copies:
        each.log.forget()
    return found


def _leave_out_later(found: PartitionSurvey, then: CutEnd) -> None:
    """Leave out markers of losing tails that are later than a moment, and tell what is gone since."""
    found.is_cut = any(each.end > found.end for each in found.copies)
    found.markers = [m for m in found.markers if not m.is_aside or m.timestamp <= then.time]
    if then.gone is not None:
        found.notes.append(f"gone since the moment: {then.gone}")


def _with_problems(found: PartitionSurvey, copies: Iterable[PartitionCopy]) -> PartitionSurvey:
    found.unread = [
        Unread(each.log.display(entry["file"]), entry["reason"], entry["errno"])
        for each in copies
        for entry in each.log.problems.entries()
        if "errno" in entry
    ]
    return found


def _fill(found: PartitionSurvey, logs: Sequence[PartitionCopy], planned: PlannedLog) -> None:
    merged, new = planned.merged, planned.log
    pieces = [piece for segment in new.segments for piece in segment.pieces]
    found.copies = [
        _copy_facts(copy, view, merged, at)
        for at, (copy, view) in enumerate(zip(logs, merged.views, strict=True))
    ]
    found.pieces = saved(pieces)
    found.start, found.end = new.log_start_offset, new.log_end_offset
    found.records = sum(piece.records for piece in planned.pieces)
    found.epochs = list(new.epochs)
    found.missing, found.dropped = planned.missing, planned.dropped
    found.notes = planned.notes
    found.largest_producer_id = max(
        [merged.largest_producer_id, *map(_largest_in_snapshots, merged.views)]
    )
    found.max_timestamp = max(
        (stamp.timestamp for view in merged.views if (stamp := view.max_timestamp)), default=-1
    )
    found.aside = _aside(merged)
    if planned.has_transactions:
        _note_transactions(found, pieces, merged.diverged)
    found.coordinator_epoch = max((each.coordinator_epoch for each in found.markers), default=-1)
    found.largest_epoch = max(
        [
            found.coordinator_epoch,
            *(piece.epoch for piece in (*pieces, *merged.diverged)),
            *(entry.epoch for view in merged.views for entry in _checkpointed_epochs(view)),
        ]
    )


def _copy_facts(copy: PartitionCopy, view: LogView, merged: MergedCopies, at: int) -> SurveyedCopy:
    checkpoints = view.log.checkpoints
    salvaged, epochs = merged.copies[at], merged.known_epochs[at]
    return SurveyedCopy(
        copy.path,
        copy.node_id,
        copy.source,
        latest_epoch(salvaged.pieces, epochs),
        view.base_offsets[0] if view.base_offsets else view.log_start_offset,
        salvaged.log_end_offset,
        checkpoints.high_watermark(view.partition),
        checkpoints.recovery_point(view.partition),
        checkpoints.log_start_offset(view.partition),
        merged.proven_ends[at].offset,
        at == merged.leading,
    )


def _checkpointed_epochs(view: LogView) -> Sequence[EpochEntry]:
    """Return the leader epochs of the checkpoint, also those that start past the log end."""
    with suppress(OSError, KafkaStorageError):
        data = view.log.read_side_file(LEADER_EPOCH_CHECKPOINT)
        return list(parse_leader_epochs(data, path=LEADER_EPOCH_CHECKPOINT))
    return []


def _largest_in_snapshots(view: LogView) -> int:
    """Return the largest producer id of the newest readable producer snapshot; -1 without one."""
    for offset in reversed(view.listing.producer_snapshots):
        name = producer_snapshot_name(offset)
        with suppress(OSError, KafkaStorageError):
            data = view.log.read_side_file(name)
            return max((each.producer_id for each in ProducerSnapshot.iterate(data)), default=-1)
    return -1


def _aside(merged: MergedCopies) -> list[AsideTail]:
    tails = []
    for piece in merged.diverged:
        if piece.origin is None:
            continue
        tails.append(
            AsideTail(
                piece.origin.copy,
                piece.base_offset,
                piece.next_offset,
                piece.epoch,
                piece.records,
                tuple(saved([piece])),
            )
        )
    return tails


def _note_transactions(
    found: PartitionSurvey, pieces: Sequence[Piece], diverged: Sequence[Piece]
) -> None:
    """Follow the transactions through the log, and note the markers of losing tails, too."""
    known: dict[int, OpenData] = {}
    lost: list[_Followed] = []
    ahead = found.clocks_ahead
    for marker in _walk(pieces, known, found.data_epochs, lost, ahead):
        found.markers.append(marker)
    found.lost_ends = list(_in_damage(lost, found.missing))
    found.open = sorted(known.values(), key=lambda each: each.first_offset)
    for piece in diverged:
        found.markers += [
            replace(each, is_aside=True)
            for each in _walk([piece], {}, found.data_epochs, [], ahead)
        ]
    del found.markers[:-MOST_MARKERS]


def _in_damage(lost: Iterable[_Followed], missing: Sequence[Loss]) -> Iterator[LostEndMarker]:
    """Yield transactions whose end marker was in damage, with an offset of the damage for each."""
    taken: set[Offset] = set()
    for data, last, until in lost:
        for loss in missing:
            if loss.first_offset is None or loss.next_offset is None:
                continue
            at = max(loss.first_offset, last + 1)
            at += sum(1 for _ in takewhile(taken.__contains__, count(at)))
            if at < min(loss.next_offset, until):
                taken.add(at)
                yield LostEndMarker(data.producer_id, data.epoch, at, data.timestamp)
                break


def _walk(
    pieces: Sequence[Piece],
    known: dict[int, OpenData],
    epochs: dict[int, set[int]],
    lost: list[_Followed],
    ahead: set[int],
) -> Iterator[SeenMarker]:
    """Yield the end markers of pieces.

    Args:
        pieces: parts of a log.
        known: gets the open transactions by producer.
        epochs: gets the epochs of the data.
        lost: gets the transactions without an end that the producer's next one follows.
        ahead: gets the producers whose clock ran ahead of the brokers'.
    """
    newest = -1
    last: dict[int, Offset] = {}
    for piece in pieces:
        for run in piece.runs():
            for event in events(run):
                stamp = int(run.table["max_timestamp"][event.row])
                producer = event.producer_id
                before = known.get(producer)
                own = event.producer_epoch - (event.ended is not None)
                if before is not None and own > before.epoch:
                    lost.append((before, last[producer], event.base_offset))
                    del known[producer]
                last[producer] = event.base_offset
                if event.ended is None:
                    epochs.setdefault(producer, set()).add(event.producer_epoch)
                    before = known.get(producer)
                    if before is None:
                        first = event.base_offset
                        before = OpenData(producer, event.producer_epoch, first, stamp, newest)
                    known[producer] = replace(
                        before, timestamp=max(before.timestamp, stamp), not_before=newest
                    )
                    continue
                data = known.pop(producer, None)
                if data is not None and data.timestamp > stamp:
                    ahead.add(producer)
                newest = max(newest, stamp)
                yield SeenMarker(
                    producer,
                    event.producer_epoch,
                    event.ended is Fate.COMMITTED,
                    _coordinator_epoch(run, event.row),
                    event.base_offset,
                    stamp,
                    None if data is None else data.epoch,
                )
            del run  # free it before the next one is read: a batch may be as large as the budget


def _coordinator_epoch(run: BatchRun, row: int) -> int:
    start = int(run.table["position"][row]) - run.start_position
    data = memoryview(run.buffer)[start : start + int(run.table["size"][row])]
    batch = make_batch(data, file_position=start, path=None)
    try:
        return max(
            (end_marker_of(record).coordinator_epoch for record in batch.records()), default=-1
        )
    except (KafkaStorageError, ValueError):
        return -1
