"""Predict what a broker would do to one log's folder: load the log over an overlay and compare."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from engine.clock import SYSTEM_CLOCK, Clock
from engine.files.file_names import FileKind, FolderState, folder_name
from engine.plan.kept_records import NOTHING_KEPT, KeptRecords, verify_kept
from engine.plan.loading.broker_epochs import read_epochs
from engine.plan.loading.broker_failure import (
    EXPECTED,
    BrokerFailure,
    Outcome,
    failure_of,
    stops,
    unreadable,
)
from engine.plan.loading.broker_loading import BrokerLoading, LogToLoad
from engine.plan.loading.broker_versions import BrokerVersion
from engine.plan.loading.java_text import offset_in_name
from engine.plan.lost_records import NOTHING_LOST, Losses, LostOffsets, lost_records, written_ranges
from engine.plan.overlay.file_changes import ChangeKind, FileChange, file_changes
from engine.plan.overlay.overlay_disk import OverlayDisk
from engine.plan.topic_ids import read_topic_id
from engine.record.frame_walk import batch_in, frames
from engine.units import MAX_INT64, EpochEntry, Offset, TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.segment.writable_segment import WritableSegment

_LOG = FileKind.LOG.value


@dataclass(frozen=True, slots=True)
class LogPlan:
    """Outcome of a start for one log.

    Attributes:
        folder: name of the folder in the source.
        partition, state, clean, recovery_point: as in LogToLoad.
        outcome: whether the log loads.
        java, reason: class and reason of the exception, if it does not load.
        log_start, log_end: offsets after the loading; None if it does not load.
        log_end_before: one past the last good record; None if it does not load.
        losses: lost records.
        changes: changes to the folder's files, by name.
        epochs_before, epochs_after: leader epochs; None if they cannot be read.
        topic_id: topic id in partition.metadata; None without one.
        kept: records files that stay.
        renamed_to: new name of a folder that becomes stray, replaces the log, or is deleted.
        has_open_transaction: whether a transaction is open, so that a broker reads the log once more.
        is_at_risk: whether records may be lost for reasons that the log dirs do not show.
        offsets_given_again: number of offsets past the log end that had records before.
        notes: further sentences.
    """

    folder: str
    partition: TopicPartition
    state: FolderState
    clean: bool
    recovery_point: Offset
    outcome: Outcome = Outcome.LOADS
    java: str = ""
    reason: str = ""
    log_start: Offset | None = None
    log_end: Offset | None = None
    log_end_before: Offset | None = None
    losses: Losses = NOTHING_LOST
    changes: tuple[FileChange, ...] = ()
    epochs_before: tuple[EpochEntry, ...] | None = None
    epochs_after: tuple[EpochEntry, ...] | None = None
    topic_id: str | None = None
    kept: KeptRecords = NOTHING_KEPT
    renamed_to: str | None = None
    has_open_transaction: bool = False
    is_at_risk: bool = False
    offsets_given_again: int = 0
    notes: tuple[str, ...] = ()

    @property
    def fails_at_once(self) -> bool:
        """Whether the failure takes the log dir offline at once, not only after all logs are loaded."""
        return BrokerFailure(self.outcome, self.java, self.reason).at_once

    @staticmethod
    def of(log: LogToLoad) -> LogPlan:
        """Return the plan of a log that nothing is known of yet."""
        name = os.path.basename(log.path)
        return LogPlan(name, log.partition, log.state, log.clean, log.recovery_point)

    def failed(self, failure: BrokerFailure) -> LogPlan:
        """Return the plan with a failure as its outcome."""
        return replace(self, outcome=failure.outcome, java=failure.java, reason=failure.reason)

    def noted(self, note: str) -> LogPlan:
        """Return the plan with one more note."""
        return replace(self, notes=(*self.notes, note))

    @property
    def stays_a_log(self) -> bool:
        """Whether the log loads, and is not set aside or deleted: it keeps its name, or becomes the log."""
        names = (None, folder_name(self.partition))
        return self.outcome is Outcome.LOADS and self.renamed_to in names

    @property
    def is_harmless(self) -> bool:
        """Whether the log keeps its records and its end, and has no damage."""
        is_certain = not (self.is_at_risk or self.offsets_given_again)
        return self.keeps_records and self.kept.is_good and is_certain

    @property
    def is_hurt(self) -> bool:
        """Whether it does not load, or has damage, records that go, or gaps: it may have lost records before."""
        is_damaged = self.losses.bytes or self.kept.has_gaps or not self.kept.is_good
        return self.outcome is not Outcome.LOADS or bool(is_damaged)

    @property
    def keeps_records(self) -> bool:
        """Whether the log loads, loses nothing, and keeps its records files and its name."""
        return (
            self.outcome is Outcome.LOADS
            and not self.losses.bytes
            and not self.losses.ranges
            and self.renamed_to is None
            and not self.epochs_changed
            and not any(map(_changes_data, self.changes))
        )

    @property
    def bytes_read(self) -> int:
        """Approximate number of bytes that were read."""
        return sum(change.size_before or 0 for change in self.changes)

    @property
    def epochs_changed(self) -> bool:
        """Whether leader epochs of records change; epochs without records go in any start."""
        if self.epochs_after is None or self.log_end is None or self.state is FolderState.DELETE:
            return False
        before = [each for each in self.epochs_before or () if each.start_offset < self.log_end]
        return self.epochs_before is None or before != list(self.epochs_after)


def plan_log(
    disk: OverlayDisk,
    log: LogToLoad,
    version: BrokerVersion,
    config: LogConfig | None = None,
    clock: Clock = SYSTEM_CLOCK,
    *,
    verifies: bool = True,
    on_read: Callable[[int], None] | None = None,
) -> LogPlan:
    """Load a log on an overlay as a broker does, and return the outcome.

    Args:
        disk: overlay of the log dir; the caller `forget`s the folder.
        log: log to load.
        version: the broker's version.
        config: configuration of the topic; None for the defaults.
        clock: the broker's clock.
        verifies: whether to read the records that the broker does not read.
        on_read: called with the number of bytes of such records.
    """
    loading = BrokerLoading(log, version.rules, disk, config=config, clock=clock)
    plan = LogPlan.of(log)
    try:
        plan = replace(
            plan, epochs_before=_epochs_in(disk, log.path), notes=tuple(_links(disk, log))
        )
        _load(loading, log)
        plan = replace(plan, topic_id=read_topic_id(disk, log.path))
    except EXPECTED as error:
        plan = plan.failed(failure_of(error, ends_start=log.is_metadata))
    finally:
        is_open = plan.outcome is Outcome.LOADS and log.state is not FolderState.DELETE
        hidden = _hidden(loading) if is_open else []
        ends = _ends_of_cut(log, loading)
        loading.close()
    plan = _with_results(disk, log, plan, loading, hidden, ends)
    if not is_open or plan.outcome is not Outcome.LOADS:
        return plan
    try:
        contents = [
            (disk.content(each.log.path), each.base_offset in loading.recovered)
            for each in loading.segments
        ]
        return replace(plan, kept=verify_kept(contents, reads=verifies, on_read=on_read))
    except OSError as error:
        return plan.failed(unreadable(error, ends_start=log.is_metadata))


def _load(loading: BrokerLoading, log: LogToLoad) -> None:
    """Load a log and look up its first open transaction, as a broker does: damage there ends it."""
    loaded = loading.load()
    first = loading.first_unstable
    if first is None:
        return
    if log.is_dir_offline:
        raise stops("KafkaStorageException", f"the log dir of {log.path} is offline")
    segments = loading.segments
    offset, end = max(first.offset, loaded.log_start_offset), loaded.next_offset_metadata.offset
    segment = segments.floor(offset)
    while offset < end and segment is not None and segment.read(offset, 1) is None:
        segment = segments.higher(segment.base_offset)


def _with_results(
    disk: OverlayDisk,
    log: LogToLoad,
    plan: LogPlan,
    loading: BrokerLoading,
    hidden: list[tuple[str, Offset]],
    ends: dict[str, Offset],
) -> LogPlan:
    """Return the plan with all that the loading changed, and with the log's start and end."""
    try:
        changes = file_changes(disk, log.path, log.root, log.relative)
        losses = NOTHING_LOST
        if plan.outcome is not Outcome.UNKNOWN and (hidden or any(map(_changes_data, changes))):
            kept = list(_kept(disk, log.path, changes, _first_base_read(loading)))
            unseen = [(disk.content(os.path.join(log.path, name)), end) for name, end in hidden]
            losses = lost_records(
                log.root, log.relative, changes, log.log_start, kept, unseen, ends
            )
    except OSError as error:
        return plan.failed(unreadable(error, ends_start=log.is_metadata))
    epochs = loading.epochs
    plan = replace(
        plan,
        changes=tuple(changes),
        losses=losses,
        has_open_transaction=loading.first_unstable is not None,
        epochs_after=None if epochs is None else tuple(epochs.epoch_entries),
    )
    if loading.offsets is None or plan.outcome is not Outcome.LOADS:
        return plan
    end = loading.offsets.next_offset_metadata.offset
    return replace(
        plan,
        log_start=loading.offsets.log_start_offset,
        log_end=end,
        log_end_before=max(end, losses.end),
    )


def _changes_data(change: FileChange) -> bool:
    """Return whether a records file is changed, renamed or removed."""
    return change.name.endswith(_LOG) and change.change is not ChangeKind.CREATED


def _first_base_read(loading: BrokerLoading) -> Offset:
    """Return the base offset of the segment with the log start: no reader looks into those before."""
    if loading.offsets is None:
        return -MAX_INT64 - 1
    segment = loading.segments.floor(loading.offsets.log_start_offset)
    return -MAX_INT64 - 1 if segment is None else segment.base_offset


def _kept(
    disk: OverlayDisk, folder: str, changes: list[FileChange], first_base: Offset
) -> Iterator[LostOffsets]:
    """Yield the offsets in records files that replace others, from a base offset on."""
    for change in changes:
        name = change.new_name or change.name
        is_new = change.change in (ChangeKind.CREATED, ChangeKind.REWRITTEN) or (
            change.change is ChangeKind.RENAMED and not change.deleted_later
        )
        base_offset = offset_in_name(name) if is_new and name.endswith(_LOG) else None
        if base_offset is not None and base_offset >= first_base:
            yield from written_ranges([(base_offset, disk.content(os.path.join(folder, name)))])


def _hidden(loading: BrokerLoading) -> list[tuple[str, Offset]]:
    """Return the records files that may have records past the log end, each with the log end."""
    segments, offsets = loading.segments, loading.offsets
    active = segments.last
    if active is None or offsets is None:
        return []
    end = offsets.next_offset_metadata.offset
    before = segments.lower(active.base_offset)
    suspects = []
    if before is not None and _may_pass(before, end):
        suspects.append(before)
    if not _index_leads_to_end(active):
        suspects.append(active)
    return [(os.path.basename(each.log.path), end) for each in suspects]


def _ends_of_cut(log: LogToLoad, loading: BrokerLoading) -> dict[str, Offset]:
    """Return the next offset of each truncated records file, by name."""
    found = {}
    for segment in loading.segments:
        name = os.path.basename(segment.log.path)
        try:
            if segment.log.end < log.root.stat(os.path.join(log.relative, name)).st_size:
                found[name] = segment.read_next_offset()
        except EXPECTED:
            continue
    return found


def _may_pass(segment: WritableSegment, end: Offset) -> bool:
    try:
        return segment.read_next_offset() > end
    except EXPECTED:
        return True


def _index_leads_to_end(segment: WritableSegment) -> bool:
    """Return whether the last index entry is right, and batches follow from there to the end of the file.

    Then the log end that a broker finds from this entry is right, too.
    """
    try:
        index, file = segment.offset_index, segment.log.file
        position = 0
        if index.entries:
            entry = index.entry_at(index.entries - 1)
            position = entry.position
            frame = next(frames(file, position, segment.log.end))
            if batch_in(file, frame).last_offset != entry.offset:
                return False
        for frame in frames(file, position, segment.log.end):
            position = frame.position + frame.size
        return position == segment.log.end
    except EXPECTED:
        return False


def _epochs_in(disk: OverlayDisk, folder: str) -> tuple[EpochEntry, ...] | None:
    path = os.path.join(folder, FileKind.LEADER_EPOCH_CHECKPOINT.value)
    try:
        return tuple(read_epochs(disk, path)) if disk.exists(path) else ()
    except (OSError, BrokerFailure):
        return None


def _links(disk: OverlayDisk, log: LogToLoad) -> Iterator[str]:
    for name, refused in disk.refused(log.path):
        yield (
            f"{name} is a {refused.kind.value}, which is not followed here;"
            " a broker follows symbolic links"
        )
