"""Check for missing first segments: compare the first records file with the files beside it.

Retention and DeleteRecords delete the first segments, and a broker then moves the first leader epoch to the new log start:
so an epoch that begins below the first records file belongs to records that neither deleted. Compaction keeps the
base offset of the first segment. Tiered storage has the segments deleted by local retention; such logs are always in
log-start-offset-checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.errors import DamagedFileError
from engine.files.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    FileKind,
    FileState,
    log_file_name,
    parse_file_name,
)
from engine.log.proven_end import orphan_indexes
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import Offset


class _Claim(NamedTuple):
    """An offset at which the log begins, or once began, and the file that says so."""

    offset: Offset
    file: str
    says: str


def check_log_start(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield findings about missing offsets below the first records file that no file shows as deleted."""
    view = partition.view
    if view.log.only is not None or not view.base_offsets:
        return
    first = view.base_offsets[0]
    if partition.partition.topic == CLUSTER_METADATA:
        yield from _metadata_log(partition, first)
        return
    claims = [claim for claim in _claims(partition) if claim.offset < first]
    stated = view.log.checkpoints.log_start_offset(partition.partition)
    if not claims or (stated is not None and stated >= first):
        return
    severity, unless = _severity(partition, is_stated=stated is not None)
    if severity is None:
        return
    start = min(claim.offset for claim in claims)
    says = ", ".join(claim.says for claim in claims)
    yield partition.found(
        "log-start-short",
        log_file_name(first),
        f"{_offsets(start, first)} gone{unless}: the first records file begins at offset {first}, and {says}",
        first_offset=start,
        next_offset=first,
        severity=severity,
        expected=start,
        found=first,
        claims={claim.file: claim.offset for claim in claims},
    )


def _offsets(first: Offset, following: Offset) -> str:
    number = following - first
    return (
        f"offset {first} is"
        if number == 1
        else f"offsets {first} to {following - 1} ({number}) are"
    )


def _claims(partition: PartitionUnderCheck) -> Iterator[_Claim]:
    try:
        data = partition.read_epochs()
        epochs = [] if data is None else parse_leader_epochs(data)
    except (DamagedFileError, OSError):
        epochs = []
    for entry in epochs[:1]:
        says = f"leader epoch {entry.epoch} begins at offset {entry.start_offset}"
        yield _Claim(entry.start_offset, LEADER_EPOCH_CHECKPOINT, says)
    stated = partition.view.log.checkpoints.log_start_offset(partition.partition)
    if stated is not None:
        yield _Claim(stated, LOG_START_OFFSET_CHECKPOINT, f"the log start is {stated}")
    for base, name in list(orphan_indexes(partition.view.listing).items())[:1]:
        yield _Claim(base, name, f"an index names a segment {base} that is not there")


def _severity(partition: PartitionUnderCheck, *, is_stated: bool) -> tuple[Severity | None, str]:
    """Return the severity of lost first segments, and words for another explanation.

    None instead of a severity: the broker was deleting segments when it stopped.
    """
    checkpoints = partition.view.log.checkpoints
    if is_stated and partition.may_be_tiered:
        return Severity.NOTE, " here; tiered storage holds them as a rule"
    if checkpoints.stopped_cleanly() and not partition.is_live and not is_stated:
        return Severity.ERROR, ""
    if not checkpoints.stopped_cleanly() and _deletes(partition):
        return None, ""
    return Severity.WARNING, " here, unless tiered storage holds them" if is_stated else ""


def _deletes(partition: PartitionUnderCheck) -> bool:
    """Return whether the folder has records files that the broker has renamed for deletion."""
    names = map(parse_file_name, partition.view.listing.files)
    return any(
        name is not None and name.kind is FileKind.LOG and name.state is FileState.DELETED
        for name in names
    )


def _metadata_log(partition: PartitionUnderCheck, first: Offset) -> Iterator[Finding]:
    """Find metadata records that are neither in a records file nor in the newest snapshot."""
    snapshots = partition.view.listing.kraft_snapshots
    newest = snapshots[-1].end_offset if snapshots else 0
    if newest < first:
        says = (
            f"the newest snapshot ends at offset {newest}" if snapshots else "there is no snapshot"
        )
        yield partition.found(
            "log-start-short",
            log_file_name(first),
            f"{_offsets(newest, first)} gone: the first records file begins at offset {first}, and {says}",
            first_offset=newest,
            next_offset=first,
            expected=f"a snapshot at offset {first} or later",
            found=newest,
        )
