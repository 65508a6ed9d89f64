"""What a broker would do to one log's folder, found by letting it: our loading code over an overlay."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace

from engine.clock import SYSTEM_CLOCK, Clock
from engine.files.file_names import FileKind, FolderState
from engine.files.source_files import SourceRoot
from engine.log.log_segments import LogSegments
from engine.plan.kept_records import NOTHING_KEPT, KeptRecords, verify_kept
from engine.plan.loading.broker_epochs import BrokerEpochCheckpoint, read_epochs
from engine.plan.loading.broker_failure import (
    EXPECTED,
    BrokerFailure,
    Outcome,
    failure_of,
    stops,
    unreadable,
)
from engine.plan.loading.broker_records import batch_in, frames
from engine.plan.loading.broker_versions import BrokerVersion
from engine.plan.loading.java_text import offset_in_name
from engine.plan.lost_records import NOTHING_LOST, Losses, LostOffsets, lost_records, written_ranges
from engine.plan.overlay.file_changes import ChangeKind, FileChange, file_changes
from engine.plan.overlay.overlay_disk import OverlayDisk
from engine.plan.topic_ids import read_topic_id
from engine.units import EpochEntry, Offset, TopicPartition
from engine.writing.log.log_loader import LoadedLogOffsets, LogLoader
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.scheduler import DeferredScheduler
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
    ProducerStateManagerConfig,
)

MAX_TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000
_LOG = FileKind.LOG.value
_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class LogToLoad:
    """A log's folder and what its log dir says of it.

    Attributes:
        root, relative: where the folder is in the source.
        path: where it is on the overlay.
        partition: whose log it is.
        state: what the folder's name says.
        clean: whether the broker before is taken to have stopped properly.
        recovery_point, log_start: as the checkpoints have them, else 0.
        is_dir_offline: whether its log dir has failed before.
    """

    root: SourceRoot
    relative: str
    path: str
    partition: TopicPartition
    state: FolderState
    clean: bool
    recovery_point: Offset = 0
    log_start: Offset = 0
    is_dir_offline: bool = False


@dataclass(frozen=True, slots=True)
class LogPlan:
    """What becomes of one log.

    Attributes:
        folder: its name in the source.
        partition, state, clean, recovery_point: as in LogToLoad.
        outcome: whether it loads.
        java, reason: the exception by its class and what it is about, where it does not.
        log_start, log_end: after the loading; None where it does not load.
        log_end_before: one past the last record that is good; None where it does not load.
        losses: what is taken away.
        changes: to the folder's files, by name.
        epochs_before, epochs_after: leader epochs; None where they cannot be read.
        topic_id: as partition.metadata has it; None without one.
        kept: what is in the records files that stay.
        renamed_to: the new name of a folder that is set aside as stray, or takes another one's place, or is deleted.
        has_open_transaction: whether a transaction is open in it, so that a broker reads it once more.
        is_at_risk: whether records may go for reasons that the log dirs do not tell.
        offsets_given_again: how many offsets past the log end were given before.
        notes: what else to know, in sentences.
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
        """Whether the failure takes the log dir out at once, not only after all logs are loaded."""
        return BrokerFailure(self.outcome, self.java, self.reason).at_once

    def failed(self, failure: BrokerFailure) -> LogPlan:
        """The same log, ended by a failure."""
        return replace(self, outcome=failure.outcome, java=failure.java, reason=failure.reason)

    @property
    def is_harmless(self) -> bool:
        """Whether the log loads, loses nothing, keeps its records files, its name and its end, and no damage was found."""
        is_certain = not (self.is_at_risk or self.offsets_given_again)
        return self.keeps_records and self.kept.is_good and is_certain

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
        """About how much of it was read."""
        return sum(change.size_before or 0 for change in self.changes)

    @property
    def epochs_changed(self) -> bool:
        """Whether leader epochs of records are others afterwards; those without records go in any start."""
        if self.epochs_after is None or self.log_end is None or self.state is FolderState.DELETE:
            return False
        before = [each for each in self.epochs_before or () if each.start_offset < self.log_end]
        return self.epochs_before is None or before != list(self.epochs_after)


@dataclass
class _Loaded:
    """What was made while a log was loaded."""

    segments: LogSegments[WritableSegment] = field(default_factory=LogSegments)
    epochs: LeaderEpochFileCache | None = None
    offsets: LoadedLogOffsets | None = None
    recovered: Container[Offset] = ()
    has_open_transaction: bool = False
    topic_id: str | None = None


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
    """What a broker makes of a log; the overlay has the folder as it would be then.

    Args:
        disk: with the log dir on it; `forget` the folder when done with it.
        log: which one.
        version: of the broker.
        config: of its topic; the defaults without one.
        clock: tells the broker's time.
        verifies: whether to read the records that the broker does not.
        on_read: is told how many bytes of those were read.
    """
    loaded, tasks = _Loaded(), DeferredScheduler()
    plan = LogPlan(
        os.path.basename(log.path), log.partition, log.state, log.clean, log.recovery_point
    )
    try:
        plan = replace(
            plan, epochs_before=_epochs_in(disk, log.path), notes=tuple(_links(disk, log))
        )
        _load(disk, log, version, config or LogConfig(), clock, loaded, tasks)
    except EXPECTED as error:
        plan = plan.failed(failure_of(error))
    finally:
        is_open = plan.outcome is Outcome.LOADS and log.state is not FolderState.DELETE
        hidden = _hidden(loaded) if is_open else []
        ends = _ends_of_cut(log, loaded)
        for segment in loaded.segments:
            segment.close_handlers()
    plan = _with_results(disk, log, plan, loaded, hidden, ends)
    if not is_open or plan.outcome is not Outcome.LOADS:
        return plan
    try:
        contents = [
            (disk.content(each.log.path), each.base_offset in loaded.recovered)
            for each in loaded.segments
        ]
        return replace(plan, kept=verify_kept(contents, reads=verifies, on_read=on_read))
    except OSError as error:
        return plan.failed(unreadable(error))


def _load(
    disk: OverlayDisk,
    log: LogToLoad,
    version: BrokerVersion,
    config: LogConfig,
    clock: Clock,
    loaded: _Loaded,
    tasks: DeferredScheduler,
) -> None:
    """Load the log, in the order of Kafka's UnifiedLog.create."""
    loaded.epochs = LeaderEpochFileCache(
        log.partition, BrokerEpochCheckpoint(log.path, disk), tasks
    )
    producers = ProducerStateManager(
        log.partition,
        log.path,
        MAX_TRANSACTION_TIMEOUT_MS,
        ProducerStateManagerConfig(),
        clock,
        disk,
        rules=version.rules.producers,
    )
    loader = LogLoader(
        WritableLogFolder(log.path, log.partition, config, tasks, clock, disk=disk),
        log.clean,
        loaded.segments,
        log.log_start,
        log.recovery_point,
        loaded.epochs,
        producers,
        version.rules,
    )
    loaded.recovered = loader.recovered
    try:
        loaded.offsets = loader.load()
    finally:
        # Where this loading ends for an offset that is none, a broker goes on to look up the transaction.
        loaded.has_open_transaction = producers.first_unstable_offset is not None
    if loaded.has_open_transaction and log.is_dir_offline:
        raise stops("KafkaStorageException", f"the log dir of {log.path} is offline")
    _find_first_unstable(loaded.segments, loaded.offsets, producers)
    loaded.topic_id = read_topic_id(disk, log.path)


def _find_first_unstable(
    segments: LogSegments[WritableSegment],
    loaded: LoadedLogOffsets,
    producers: ProducerStateManager,
) -> None:
    """Look up where the first open transaction begins, as a broker does: damage there ends it."""
    first = producers.first_unstable_offset
    if first is None:
        return
    offset, end = max(first.offset, loaded.log_start_offset), loaded.next_offset_metadata.offset
    segment = segments.floor(offset)
    while offset < end and segment is not None and segment.read(offset, 1) is None:
        segment = segments.higher(segment.base_offset)


def _with_results(
    disk: OverlayDisk,
    log: LogToLoad,
    plan: LogPlan,
    loaded: _Loaded,
    hidden: list[tuple[str, Offset]],
    ends: dict[str, Offset],
) -> LogPlan:
    try:
        changes = file_changes(disk, log.path, log.root, log.relative)
        losses = NOTHING_LOST
        if plan.outcome is not Outcome.UNKNOWN and (hidden or any(map(_changes_data, changes))):
            kept = list(_kept(disk, log.path, changes))
            unseen = [(disk.content(os.path.join(log.path, name)), end) for name, end in hidden]
            losses = lost_records(
                log.root, log.relative, changes, log.log_start, kept, unseen, ends
            )
    except OSError as error:
        return plan.failed(unreadable(error))
    epochs = loaded.epochs
    plan = replace(
        plan,
        changes=tuple(changes),
        losses=losses,
        topic_id=loaded.topic_id,
        has_open_transaction=loaded.has_open_transaction,
        epochs_after=None if epochs is None else tuple(epochs.epoch_entries),
    )
    if loaded.offsets is None or plan.outcome is not Outcome.LOADS:
        return plan
    end = loaded.offsets.next_offset_metadata.offset
    return replace(
        plan,
        log_start=loaded.offsets.log_start_offset,
        log_end=end,
        log_end_before=max(end, losses.end),
    )


def _changes_data(change: FileChange) -> bool:
    """Whether a records file is not what it was."""
    return change.name.endswith(_LOG) and change.change is not ChangeKind.CREATED


def _kept(disk: OverlayDisk, folder: str, changes: list[FileChange]) -> Iterator[LostOffsets]:
    """The offsets in records files that take the place of others."""
    for change in changes:
        name = change.new_name or change.name
        is_new = change.change in (ChangeKind.CREATED, ChangeKind.REWRITTEN) or (
            change.change is ChangeKind.RENAMED and not change.deleted_later
        )
        base_offset = offset_in_name(name)
        if is_new and name.endswith(_LOG) and base_offset is not None:
            yield from written_ranges([(base_offset, disk.content(os.path.join(folder, name)))])


def _hidden(loaded: _Loaded) -> list[tuple[str, Offset]]:
    """Records files that may hold records beyond the log's end, which nobody sees any more."""
    segments, offsets = loaded.segments, loaded.offsets
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


def _ends_of_cut(log: LogToLoad, loaded: _Loaded) -> dict[str, Offset]:
    """The offset after what is left of each records file that was cut, by name."""
    found = {}
    for segment in loaded.segments:
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
    """Whether the last index entry is right, and batches follow from there to the end of the file.

    Then the log's end that was found from there is right, too.
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
            f"{name} is a {refused.kind.value}: it is not looked at here;"
            " a broker follows symbolic links"
        )
