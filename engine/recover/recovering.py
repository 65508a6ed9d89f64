"""Make the log dirs of a whole cluster out of those of its dead brokers and controllers.

The result gets the target's name only after everything is written, synced, loaded as a broker does, checked, and read
again. After a failure nothing is left; after a kill the same command goes on with what was written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.clock import SYSTEM_CLOCK
from engine.disk.disk import DISK, Disk
from engine.log.log_directory import Unread
from engine.rebuild.partition_rebuild import Advance
from engine.rebuild.target.manifest import COMPLETE, FORMAT, FileHash
from engine.rebuild.target.staging import Staging, refuse_target, unfinished
from engine.rebuild.target.verification import verified_files
from engine.recover.errors import RecoverRefusedError
from engine.recover.journal import JOURNAL, Journal, began
from engine.recover.metadata.snapshot import ClusterOptions, check_cluster, write_cluster
from engine.recover.options import RecoverOptions
from engine.recover.planning import RecoveryPlan, plan_recovery
from engine.recover.reading import opened, read_cluster
from engine.recover.report import Json, recovery_report
from engine.recover.self_check import check_recovered
from engine.recover.writing import write_partitions


@dataclass(frozen=True)
class Recovered:
    """A recovered cluster, or only its plan.

    Attributes:
        target: its folder; None for a plan.
        report: what is in it, what is doubtful or lost, and why; see `engine.recover.report`.
        unread: files that could not be read.
    """

    target: str | None
    report: Json
    unread: list[Unread]


def recover(
    paths: Sequence[str],
    target: str | None,
    options: RecoverOptions | None = None,
    *,
    disk: Disk = DISK,
    advance: Advance | None = None,
) -> Recovered:
    """Recover a cluster.

    Args:
        paths: log dirs of its brokers and controllers, in any order and condition.
        target: folder of the new log dirs; None to write nothing and only return the report.
        options: options of the recovery.
        disk: disk to write with.
        advance: called with progress.

    Raises:
        RecoverRefusedError: the recovery is refused.
        RebuildRefusedError: the target cannot be made there.
        RebuildFailedError: the result is not as planned.
        SourceError: a source cannot be read.
        OSError: a source cannot be read or the disk fails. The target does not exist then.
    """
    asked = options or RecoverOptions()
    advance = advance or _nothing
    left = None
    if target is not None:
        refuse_target(target, list(paths))
        left = unfinished(target, JOURNAL, disk)
    now = (None if left is None else began(left, disk)) or SYSTEM_CLOCK.now_ms()
    with opened(paths) as sources:
        cluster = read_cluster(sources, asked, advance)
        plan = plan_recovery(cluster, asked, now)
        unread = [each for part in cluster.surveys.values() for each in part.unread]
        refusal = ""
        try:
            check_cluster(cluster.metadata, cluster.nodes, _cluster_options(asked, target, disk))
        except RecoverRefusedError as error:
            if target is not None:
                raise
            refusal = str(error)
        report = recovery_report(plan, asked, refusal)
        if target is not None:
            target = _written(
                plan, Staging(target, disk, adopted=left), report, asked, disk, advance
            )
        return Recovered(target, report, unread)


def _nothing(_: str, __: int) -> None:
    return None


def _written(
    plan: RecoveryPlan,
    staging: Staging,
    report: Json,
    options: RecoverOptions,
    disk: Disk,
    advance: Advance,
) -> str:
    """Write the cluster, check it, and give it its name; return its path."""
    try:
        journal = Journal(staging.path, disk, plan.now)
        written = write_partitions(plan, staging.path, disk, options.jobs, advance, journal)
        write_cluster(
            Path(staging.path),
            plan.cluster.metadata,
            plan.cluster.nodes,
            plan.placements,
            plan.next_producer_id,
            _cluster_options(options, staging.target, disk),
        )
        for folder, _, _ in os.walk(staging.path):
            disk.sync_folder(folder)
        check_recovered(staging.path, plan, options.kafka_version)
        files = verified_files(
            staging.path, written, disk, partial(advance, "verified"), options.jobs
        )
        files = [each for each in files if each.path != JOURNAL]
        journal.remove()
        staging.write_manifest(_manifest(staging.target, report, files))
        staging.publish()
    except BaseException:
        staging.discard()
        raise
    return staging.target


def _cluster_options(options: RecoverOptions, target: str | None, disk: Disk) -> ClusterOptions:
    return ClusterOptions(
        options.cluster_id,
        options.quorum,
        options.hold,
        options.fits_min_isr,
        options.kafka_version,
        final_target=None if target is None else Path(target),
        disk=disk,
    )


def _manifest(target: str, report: Json, files: Sequence[FileHash]) -> Json:
    return {
        "format": FORMAT,
        "state": COMPLETE,
        "target": target,
        "created": SYSTEM_CLOCK.now_ms(),
        **report,
        "files": [each._asdict() for each in files],
    }
