"""Write the log of a partition into the log dirs of its replicas: once from its copies, then from the first replica."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from engine import processes
from engine.disk.disk import Disk
from engine.rebuild.assembly.layout import lay_out
from engine.rebuild.beside.new_checkpoints import CheckpointEntries, NewCheckpoints
from engine.rebuild.errors import RebuildFailedError
from engine.rebuild.partition_rebuild import Advance, SummedProgress
from engine.rebuild.target.records_files import RecordsFiles, WrittenFile
from engine.rebuild.target.staging import sync_tree
from engine.rebuild.writing import RebuiltLog, write_file, write_log
from engine.recover.aside import write_aside
from engine.recover.journal import Journal, WrittenPartition
from engine.recover.partitions.copies import PartitionCopy
from engine.recover.partitions.saved_pieces import CopyFiles
from engine.recover.partitions.survey import readable
from engine.recover.placing import ReplicaPlace
from engine.recover.planning import PlannedPartition, RecoveryPlan
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import EpochEntry


def write_partitions(
    plan: RecoveryPlan, target: str, disk: Disk, jobs: int, advance: Advance, journal: Journal
) -> dict[str, WrittenFile]:
    """Write all partitions, and the checkpoints of their log dirs; return the records files by path below the target.

    What an interrupted run wrote is taken over.

    Raises:
        RebuildFailedError: a broker would not load a log as it was written.
        OSError: a source cannot be read or the disk fails.
    """
    every = [each for each in plan.partitions.values() if each.has_log]
    taken_over = journal.taken_over(every)
    for each in plan.partitions.values():
        for place in each.places:
            disk.make_folder(os.path.join(target, place.folder))
    planned = [each for at, each in enumerate(every) if at not in taken_over]
    writer = _Writer(plan, target, disk)
    weights = [sum(piece.piece.size for piece in each.survey.pieces) for each in planned]

    def write(place: int, note: Callable[[tuple[str, int]], None]) -> WrittenPartition:
        progress = SummedProgress(note)
        written = writer.write(planned[place], progress)
        progress.send()
        return written

    if jobs < 2 or len(planned) < 2:
        done = ((at, writer.write(each, advance)) for at, each in enumerate(planned))
    else:
        done = processes.in_any_order(
            write, range(len(planned)), jobs, weights, lambda note: advance(*note)
        )
    found = [(every[at], written) for at, written in taken_over.items()]
    with closing(done):
        for at, written in done:
            journal.note(planned[at], written)
            found.append((planned[at], written))
    _write_checkpoints(found, target, disk)
    return {
        f"{place.folder}/{each.partition}/{name}": file
        for each, written in found
        for place in each.places
        for name, file in written.files.items()
    }


def _write_checkpoints(
    found: Sequence[tuple[PlannedPartition, WrittenPartition]], target: str, disk: Disk
) -> None:
    checkpoints: dict[str, NewCheckpoints] = {}
    for planned, written in found:
        start, end = written.start, written.end
        entries = CheckpointEntries(planned.partition, start, end, written.first_base, end, None)
        for place in planned.places:
            checkpoints.setdefault(place.folder, NewCheckpoints()).add(entries)
    for folder, made in checkpoints.items():
        for name, data in made.files().items():
            write_file(os.path.join(target, folder, name), data, disk)


class _Writer:
    """Writes partitions one by one.

    Args:
        plan: what to write.
        target: folder of all nodes.
        disk: disk to write with.
    """

    def __init__(self, plan: RecoveryPlan, target: str, disk: Disk) -> None:
        self._plan = plan
        self._target = target
        self._disk = disk
        # A folder is synced once; loading would sync each file several times.
        self._unsynced = disk.without_syncs()

    def write(self, planned: PlannedPartition, advance: Advance) -> WrittenPartition:
        """Write a partition; its folders are synced on return."""
        copies = readable(self._plan.cluster.found.copies[planned.partition])
        new = _log(planned, copies)
        written = partial(advance, "written")
        first, *others = planned.places
        with RecordsFiles(self._unsynced, written, 1) as records:
            log_dir = os.path.join(self._target, first.folder)
            loaded = write_log(log_dir, new, self._unsynced, records)
            sync_tree(os.path.join(log_dir, str(planned.partition)), self._disk)
            files = records.written()
        for place in others:
            self._copy(planned, first, place, advance)
        write_aside(
            planned.survey, CopyFiles([each.log for each in copies]), self._target, self._disk
        )
        for copy in copies:
            copy.log.forget()
        if loaded.log_end_offset != planned.end:
            raise RebuildFailedError(
                f"{planned.partition} would end at {loaded.log_end_offset}, not {planned.end}"
            )
        start, end = loaded.log_start_offset, loaded.log_end_offset
        return WrittenPartition(start, end, new.segments[0].base_offset, files)

    def _copy(
        self, planned: PlannedPartition, first: ReplicaPlace, other: ReplicaPlace, advance: Advance
    ) -> None:
        name = str(planned.partition)
        source = os.path.join(self._target, first.folder, name)
        target = os.path.join(self._target, other.folder, name)
        self._disk.make_new_folder(target)
        for each in self._disk.list(source):
            self._unsynced.copy_new(os.path.join(source, each), os.path.join(target, each))
            advance("written", self._disk.size(os.path.join(target, each)))
        sync_tree(target, self._disk)


def _log(planned: PlannedPartition, copies: Sequence[PartitionCopy]) -> RebuiltLog:
    survey = planned.survey
    pieces = CopyFiles([each.log for each in copies]).restored(survey.pieces)
    pieces += planned.appended
    epochs = list(survey.epochs)
    if planned.appended:
        epochs.append(EpochEntry(planned.leader_epoch, planned.appended[0].base_offset))
    segments = lay_out(pieces, survey.start, planned.end, epochs=LeaderEpochCache(epochs))
    return RebuiltLog(
        planned.partition, segments, survey.start, planned.end, epochs, planned.topic_id, {}
    )
