"""Make a new log dir from others, with the same offsets, that a broker loads.

The result gets the target's name only after everything is written, synced, loaded once as a broker
does, and read again. After a failure nothing is left.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from functools import partial

from engine.checkpoint.meta_properties import parse_meta_properties
from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.clock import SYSTEM_CLOCK
from engine.errors import DamagedFileError
from engine.files.file_names import (
    BOOTSTRAP_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    FileKind,
)
from engine.files.read_failures import failure_text
from engine.log.log_directory import LogSource, Unread, open_source
from engine.plan.loading.java_text import offset_in_name
from engine.rebuild.bounds import refuse_bounds
from engine.rebuild.broker_mode import load_as_broker, refuse_oversized
from engine.rebuild.errors import CopyUnreadableError, RebuildFailedError, RebuildRefusedError
from engine.rebuild.manifest import COMPLETE, FORMAT, FileHash
from engine.rebuild.new_checkpoints import NewCheckpoints
from engine.rebuild.options import Mode, RebuildOptions
from engine.rebuild.planning import PlannedLog, plan_log
from engine.rebuild.rebuilt import EmptyResultError, Rebuilt
from engine.rebuild.report import (
    Json,
    broker_report,
    describe_options,
    holds_records,
    log_report,
)
from engine.rebuild.selection import Chosen, LeftOut, select
from engine.rebuild.staging import Staging, refuse_target, sync_tree
from engine.rebuild.verification import verified_files
from engine.rebuild.writing import Loaded, loaded_without_writing, write_file, write_log
from engine.topics.topic_names import CLUSTER_METADATA
from engine.writing.disk import DISK, Disk

Advance = Callable[[str, int], None]
"""Callback for progress: the kind ("read", "written", "verified") and the number of bytes."""

_CHECKPOINT_LIMIT = 64 << 20


def rebuild(
    source: str | Sequence[str],
    target: str | None,
    options: RebuildOptions | None = None,
    *,
    merge: Sequence[str] = (),
    disk: Disk = DISK,
    advance: Advance | None = None,
) -> Rebuilt:
    """Make a log dir.

    Args:
        source: log dirs, a partition's folder, or a .log file.
        target: path of the result; None to write nothing and only return the report.
        options: options of the rebuild.
        merge: further copies of the same partitions: replicas.
        disk: disk to write with.
        advance: called with progress.

    Raises:
        RebuildRefusedError: the rebuild is refused; EmptyResultError: the result would have no records.
        RebuildFailedError: the result is not as planned, or a broker loads none of the logs.
        SourceError: a source cannot be read.
        OSError: a source cannot be read or the disk fails. The target does not exist then.
    """
    asked = options or RebuildOptions()
    _refuse_options(asked, merge, target)
    named = [source] if isinstance(source, str) else list(source)
    if target is not None:
        refuse_target(target, [*named, *merge])
    sources: list[LogSource] = []
    try:
        sources.append(_open(named))
        sources += [_open([each]) for each in merge]
        return _Rebuild(sources, target, asked, disk, advance or _nothing).run()
    finally:
        for each in sources:
            each.close()


def _open(paths: list[str]) -> LogSource:
    """Return a source; while a broker writes to it, a snapshot of this moment."""
    source = open_source(paths)
    if source.broker_pid is None:
        return source
    source.close()
    return open_source(paths, snapshot=True)


def _nothing(_: str, __: int) -> None:
    return None


def _refuse_options(options: RebuildOptions, merge: Sequence[str], target: str | None) -> None:
    if options.mode is not Mode.BROKER:
        return
    asked = [*options.salvages_only, *(["merge"] if merge else [])]
    if asked:
        raise RebuildRefusedError(
            f"a broker has no --{asked[0]}", "leave it out, or use --mode salvage"
        )
    if target is None:
        raise RebuildRefusedError(
            "--mode broker must write a copy to know the result", "see kafkafs plan"
        )


class _Rebuild:
    """One rebuild."""

    def __init__(
        self,
        sources: list[LogSource],
        target: str | None,
        options: RebuildOptions,
        disk: Disk,
        advance: Advance,
    ) -> None:
        self.sources = sources
        self.target = target
        self.options = options
        self.disk = disk
        # A staged log dir is synced once, before it gets its name; loading would sync each file several times.
        self.unsynced_disk = disk.without_syncs()
        self.advance = advance
        self.selection = select(sources, options)
        self.reports: list[Json] = []
        self.lost_something = False
        self.copies_unread: list[Unread] = []
        self.unread_partitions: list[str] = []
        self._not_loaded: list[str] = []
        self.checksums: dict[str, int] = {}
        self.checkpoints = NewCheckpoints()

    def run(self) -> Rebuilt:
        """Return the plan only, or write, verify and publish."""
        if self.options.mode is Mode.BROKER and self.sources[0].broker_pid is not None:
            raise RebuildRefusedError(
                "a broker has the source open, and a copy of its files would be torn",
                "stop it, take a snapshot of the volume, or use --mode salvage",
            )
        refuse_bounds(self.options, self.selection.chosen)
        if self.target is None:
            for chosen in self.selection.chosen:
                planned = self._plan(chosen)
                if planned is not None:
                    would = loaded_without_writing(
                        planned.log, has_transactions=planned.has_transactions
                    )
                    self._note(planned, would)
            result = self._rebuilt(None, self._manifest([]), [])
            self._refuse_empty(result)
            return result
        staging = Staging(self.target, self.disk)
        try:
            self._write(staging)
            self._refuse_empty(self._rebuilt(None, self._manifest([]), []))
            files = verified_files(
                staging.path, self.checksums, self.disk, self._advance("verified")
            )
            manifest = self._manifest(files)
            staging.write_manifest(manifest)
            sync_tree(staging.path, self.disk, self.options.owner, folders=False)
            staging.publish()
        except BaseException:
            staging.discard()
            raise
        return self._rebuilt(staging.target, manifest, staging.removed)

    def _refuse_empty(self, result: Rebuilt) -> None:
        """Refuse a result without records unless it is allowed.

        Raises:
            RebuildFailedError: a broker loads none of the logs.
            EmptyResultError: no record is left for another reason.
        """
        if self.options.allow_empty or any(map(holds_records, self.reports)):
            return
        if not self.reports and self._not_loaded:
            raise RebuildFailedError("; ".join(self._not_loaded))
        start, stop = self.options.start, self.options.stop
        reason = "the result would have no records"
        if start is not None and stop is not None:
            reason = "no record is between --from and --to"
        elif start is not None or stop is not None:
            reason = "no record is " + ("before --to" if start is None else "at or after --from")
        raise EmptyResultError(reason, "to write it anyway, pass --allow-empty", result)

    def _rebuilt(self, target: str | None, manifest: Json, removed: list[str]) -> Rebuilt:
        return Rebuilt(
            target,
            self.reports,
            self.selection.left_out,
            manifest,
            self.lost_something,
            self._unread(),
            self.unread_partitions,
            removed,
        )

    # Partitions

    def _plan(self, chosen: Chosen) -> PlannedLog | None:
        """Return the plan of a partition's log; None if it cannot be read and is left out."""
        try:
            return plan_log(chosen, self.options, self._advance("read"))
        except (OSError, DamagedFileError) as error:
            self._leave_out_unread(chosen, error)
            return None

    def _leave_out(self, chosen: Chosen, reason: str) -> None:
        """Leave out a requested partition, and continue."""
        log = chosen.copies[0]
        self.selection.left_out.append(LeftOut(log.root.display(log.folder), reason, is_loss=True))
        self.lost_something = True

    def _leave_out_unread(self, chosen: Chosen, error: Exception) -> None:
        self._leave_out(chosen, f"it cannot be read: {failure_text(error)}")
        self.unread_partitions.append(str(chosen.partition))

    def _unread(self) -> list[Unread]:
        found = [*self.copies_unread]
        for source in self.sources:
            found += source.unread()
        return list({each.path: each for each in found}.values())

    def _note(self, planned: PlannedLog, loaded: Loaded) -> None:
        self.reports.append(log_report(planned, loaded))
        self.lost_something |= planned.lost_something

    def _write(self, staging: Staging) -> None:
        for chosen in self.selection.chosen:
            if self.options.mode is Mode.BROKER:
                self._write_as_broker(chosen, staging)
            else:
                self._write_salvaged(chosen, staging)
        self._write_root_files(staging)
        sync_tree(staging.path, self.disk, self.options.owner)

    def _write_salvaged(self, chosen: Chosen, staging: Staging) -> None:
        planned = self._plan(chosen)
        if planned is None:
            return
        folder = str(planned.log.partition)
        try:
            loaded, checksums = write_log(
                staging.path,
                planned.log,
                self.unsynced_disk,
                self._advance("written"),
            )
        except RebuildFailedError as error:
            self.disk.remove_tree(os.path.join(staging.path, folder))
            self._leave_out(chosen, str(error))
            return
        self.checksums |= {os.path.join(folder, name): crc for name, crc in checksums.items()}
        self._note(planned, loaded)
        self.checkpoints.add(
            planned.log.partition,
            loaded.log_start_offset,
            loaded.log_end_offset,
            first_base=planned.log.segments[0].base_offset,
            high_watermark=planned.high_watermark,
            cleaner_offset=planned.cleaner_offset,
        )

    def _write_as_broker(self, chosen: Chosen, staging: Staging) -> None:
        log = chosen.copies[0]
        checkpoints, source = log.checkpoints, log.topic_partition
        clean = self.options.clean
        if clean is None:
            clean = checkpoints.stopped_cleanly()
        try:
            refuse_oversized(chosen)
            loaded = load_as_broker(
                chosen,
                staging.path,
                clean,
                self.unsynced_disk,
                self._advance("written"),
            )
        except (CopyUnreadableError, RebuildFailedError) as failure:
            if isinstance(failure, CopyUnreadableError):
                self.copies_unread.append(Unread.of(failure.path, failure.error))
                self._leave_out_unread(chosen, failure)
            else:
                self._not_loaded.append(f"{log.name}: {failure}")
                self._leave_out(chosen, str(failure))
            folder = os.path.join(staging.path, str(chosen.partition))
            if self.disk.exists(folder):
                self.disk.remove_tree(folder)
            return
        self.copies_unread += [Unread.of(each.path, each.error) for each in loaded.unread]
        topic_id = self.options.topic_ids.get(chosen.partition.topic)
        if topic_id is not None:
            path = os.path.join(staging.path, str(chosen.partition), PARTITION_METADATA)
            data = render_partition_metadata(PartitionMetadata(0, topic_id))
            self.disk.replace_atomically(path, data)
        self.reports.append(broker_report(chosen, loaded, clean))
        self.lost_something |= loaded.log_end_offset < loaded.end_before
        names = self.disk.list(os.path.join(staging.path, str(chosen.partition)))
        bases = [offset_in_name(name) for name in names if name.endswith(FileKind.LOG.value)]
        self.checkpoints.add(
            chosen.partition,
            loaded.log_start_offset,
            loaded.log_end_offset,
            first_base=min((base for base in bases if base is not None), default=0),
            high_watermark=checkpoints.high_watermark(source),
            cleaner_offset=checkpoints.cleaner_offset(source),
        )

    def _advance(self, kind: str) -> Callable[[int], None]:
        """Return the progress callback of one kind."""
        return partial(self.advance, kind)

    # The log dir

    def _write_root_files(self, staging: Staging) -> None:
        """Write the checkpoints and meta.properties, but no .kafka_cleanshutdown: a recovery is cheap and safe."""
        files = self.checkpoints.files()
        log_dir = self.sources[0].log_dirs[0]
        names = [META_PROPERTIES] if self.options.meta_properties else []
        if any(each.partition.topic == CLUSTER_METADATA for each in self.selection.chosen):
            names.append(BOOTSTRAP_CHECKPOINT)
        for name in names if log_dir is not None else []:
            assert log_dir is not None
            try:
                data = log_dir.read(name, limit=_CHECKPOINT_LIMIT)
                if name == META_PROPERTIES:
                    parse_meta_properties(data, path=name)
                files[name] = data
            except FileNotFoundError:
                continue
            except OSError as error:
                self.copies_unread.append(Unread.of(log_dir.display(name), error))
            except DamagedFileError as error:
                reason = f"it is damaged: {error}"
                self.selection.left_out.append(LeftOut(log_dir.display(name), reason))
        for name, data in files.items():
            write_file(os.path.join(staging.path, name), data, self.disk)

    def _manifest(self, files: list[FileHash]) -> Json:
        now = datetime.datetime.fromtimestamp(SYSTEM_CLOCK.now_ms() // 1000, datetime.UTC)
        return {
            "format": FORMAT,
            "state": COMPLETE,
            "target": self.target,
            "created": now.isoformat().replace("+00:00", "Z"),
            "sources": [root.path for source in self.sources for root in source.roots],
            "options": describe_options(self.options),
            "partitions": self.reports,
            "leftOut": [each._asdict() for each in self.selection.left_out],
            "unread": [each._asdict() for each in self._unread()],
            "unreadPartitions": self.unread_partitions,
            "files": [each._asdict() for each in files],
        }
