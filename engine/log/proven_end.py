"""The end of a log, by all that states it: the records files may have lost their last batches.

A broker notes how far a log came in several places: the recovery point (flushed up to there), the high watermark
(replicated up to there), the cleaner's checkpoint, the names of producer snapshots and of indexes. None of them may lie
behind the last record. Where one does, records are gone, and their offsets were given once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.errors import InvalidNameError
from engine.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FileKind,
    FileState,
    FolderState,
    log_file_name,
    parse_file_name,
    parse_folder_name,
    producer_snapshot_name,
)
from engine.log.folder_listing import FolderListing
from engine.log.log_view import LogView
from engine.log.partition_log import CLUSTER_METADATA_TOPIC
from engine.log.stable_offset import leader_epochs
from engine.units import Offset

_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)


class EndProof(NamedTuple):
    """One place that says how far a log came.

    Attributes:
        offset: the log ended there, or behind.
        file: the name of the file that says so.
        says: the same in words: "the recovery point is 1600".
        is_exact: whether a broker that stopped cleanly writes exactly the log end there.
    """

    offset: Offset
    file: str
    says: str
    is_exact: bool = False


class ProvenEnd(NamedTuple):
    """Where a log ended.

    Attributes:
        offset: the highest end that is proven; that of the records files where nothing proves a higher one.
        proofs: what proves more than the records files hold, the highest first.
        doubted: what states more, and is contradicted.
    """

    offset: Offset
    proofs: tuple[EndProof, ...] = ()
    doubted: tuple[EndProof, ...] = ()


class LostEnd(NamedTuple):
    """Offsets that were given and that no records file holds, at the end of a log.

    Attributes:
        first: the first of them.
        end: where the log ended, and what proves it.
        file: the name of the last records file; "" where there is none.
        sentence: what is gone, and what proves that.
    """

    first: Offset
    end: ProvenEnd
    file: str
    sentence: str


def lost_end(view: LogView) -> LostEnd | None:
    """What the records files lost at their end; None where nothing proves that they did."""
    held = view.log_end_offset
    end = proven_end(view, held)
    if not end.proofs:
        return None
    name, first, holds = "", held, "there is no records file"
    if view.base_offsets:
        name = log_file_name(view.base_offsets[-1])
        holds = f"the records files end at offset {held}"
    else:
        first = max(held, first_offset_without_records(view, end.offset))
    lost = end.offset - first
    gone = (
        f"offset {first} is" if lost == 1 else f"offsets {first} to {end.offset - 1} ({lost}) are"
    )
    proofs = ", ".join(proof.says for proof in end.proofs)
    return LostEnd(first, end, name, f"{gone} gone: {holds}, and {proofs}")


def proven_end(view: LogView, held: Offset) -> ProvenEnd:
    """Where a log ended, when its records files end at `held`.

    After a clean stop the recovery point and the newest producer snapshot are the log end itself. Where one of them
    agrees with the records files, a file that states more is not believed: that file is the damaged one.
    """
    stated = sorted(_proofs(view), key=lambda proof: -proof.offset)
    higher = tuple(proof for proof in stated if proof.offset > held)
    if not higher:
        return ProvenEnd(held)
    if view.log.checkpoints.stopped_cleanly() and any(
        proof.is_exact and proof.offset == held for proof in stated
    ):
        return ProvenEnd(held, doubted=higher)
    return ProvenEnd(higher[0].offset, higher)


def end_of_clean_stop(view: LogView) -> Offset | None:
    """Where the log ended when its broker stopped cleanly; None when the broker did not, or nothing says where."""
    checkpoints = view.log.checkpoints
    if not checkpoints.stopped_cleanly() or not _is_log(view):
        return None
    return checkpoints.recovery_point(view.partition)


def first_offset_without_records(view: LogView, below: Offset) -> Offset:
    """Where a log without records files began, by what else there is; 0 where nothing tells."""
    stated = [
        *orphan_indexes(view.listing),
        *(entry.start_offset for entry in leader_epochs(view, below)),
    ]
    return min((offset for offset in stated if offset < below), default=0)


def orphan_indexes(listing: FolderListing) -> dict[Offset, str]:
    """By base offset, ascending, an index whose records file is not there."""
    bases = set(listing.base_offsets)
    found: dict[Offset, str] = {}
    for file in listing.files:
        name = parse_file_name(file)
        if name is None or name.kind not in _INDEXES or name.state is not FileState.LIVE:
            continue
        if name.base_offset is not None and name.base_offset not in bases:
            found.setdefault(name.base_offset, file)
    return found


def _proofs(view: LogView) -> Iterator[EndProof]:
    if view.log.only is not None:
        return
    if view.partition.topic != CLUSTER_METADATA_TOPIC and _is_log(view):
        yield from _checkpoints(view)
    snapshots = view.listing.producer_snapshots
    if snapshots:
        newest = snapshots[-1]
        says = f"the newest producer snapshot is of offset {newest}"
        yield EndProof(newest, producer_snapshot_name(newest), says, is_exact=True)
    orphans = orphan_indexes(view.listing)
    if orphans:
        base, name = max(orphans.items())
        yield EndProof(base, name, f"an index names a segment {base} that is not there")


def _is_log(view: LogView) -> bool:
    """Whether the checkpoints are about this folder, and not about a newer one of the same partition."""
    try:
        return parse_folder_name(view.name.partition("@")[0]).state is FolderState.LOG
    except InvalidNameError:
        return True


def _checkpoints(view: LogView) -> Iterator[EndProof]:
    partition, known = view.partition, view.log.checkpoints
    recovery = known.recovery_point(partition)
    if recovery is not None:
        says = f"the recovery point is {recovery}"
        yield EndProof(recovery, RECOVERY_POINT_CHECKPOINT, says, is_exact=True)
    watermark = known.high_watermark(partition)
    if watermark is not None:
        says = f"the high watermark is {watermark}"
        yield EndProof(watermark, REPLICATION_OFFSET_CHECKPOINT, says)
    cleaned = known.cleaner_offset(partition)
    if cleaned is not None:
        says = f"the log was compacted up to {cleaned}"
        yield EndProof(cleaned, CLEANER_OFFSET_CHECKPOINT, says)
