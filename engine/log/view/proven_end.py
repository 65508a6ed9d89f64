"""The proven end of a log, also when its records files have lost their last batches.

A broker states how far a log reached in several places: the recovery point (flushed), the high watermark
(replicated), the cleaner's checkpoint, the names of producer snapshots, the start of the last leader epoch, the names
and entries of indexes. A broker that truncates a log truncates them too, so none of them may be after the last
record. If one is, records with offsets up to it are lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from engine.arrays import np
from engine.budgets import MiB
from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.checkpoint.meta_properties import parse_meta_properties
from engine.errors import CorruptIndexError, DamagedFileError
from engine.files.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    META_PROPERTIES,
    QUORUM_STATE,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FileKind,
    FileState,
    log_file_name,
    offset_index_name,
    parse_file_name,
    producer_snapshot_name,
    time_index_name,
)
from engine.index import offset_index, time_index
from engine.index.offset_index import OffsetIndex
from engine.index.time_index import TimeIndex
from engine.log.folder_listing import FolderListing
from engine.log.log_dirs_below import is_partition_name
from engine.log.view.log_view import LogView
from engine.log.view.stable_offset import leader_epochs
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import Offset

if TYPE_CHECKING:
    from engine.checkpoint.quorum_state import QuorumState

_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
_LARGEST_INDEX = 64 * MiB
"""More than a segment of 2 GiB needs with an entry for each kilobyte."""


class EndProof(NamedTuple):
    """A file that proves that a log reached an offset.

    Attributes:
        offset: the log ended at this offset or a later one.
        file: name of the file.
        says: the proof in words: "the recovery point is 1600".
        is_exact: whether a clean stop of a broker normally writes the log end there.
    """

    offset: Offset
    file: str
    says: str
    is_exact: bool = False


class ProvenEnd(NamedTuple):
    """The end of a log.

    Attributes:
        offset: the highest proven end; that of the records files without a higher one.
        proofs: proofs of offsets above the records files' end, the highest first.
    """

    offset: Offset
    proofs: tuple[EndProof, ...] = ()


class LostEnd(NamedTuple):
    """Offsets at the end of a log that had records and are in no records file.

    Attributes:
        first: first lost offset.
        end: the end of the log, with its proofs.
        file: name of the last records file; "" without one.
        sentence: the lost offsets and the proofs in words.
    """

    first: Offset
    end: ProvenEnd
    file: str
    sentence: str


def lost_end(view: LogView) -> LostEnd | None:
    """Return the offsets that the records files lost at the end of a log; None without a proof of loss, or for a log that is cut."""
    held = view.log_end_offset
    end = proven_end(view, held)
    if not end.proofs or view.ended is not None:
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
    """Return the end of a log with records files that end at `held`.

    After a clean stop the recovery point, the newest producer snapshot and normally the high watermark equal the log
    end. An end that two of them state, or one of them and the records files, is the end: a file that states more is
    then taken for damaged.
    """
    stated = sorted(_proofs(view, held), key=lambda proof: -proof.offset)
    higher = tuple(proof for proof in stated if proof.offset > held)
    if not higher:
        return ProvenEnd(held)
    agreed = _agreed_end(held, stated) if view.log.checkpoints.stopped_cleanly() else None
    if agreed is None:
        return ProvenEnd(higher[0].offset, higher)
    proofs = tuple(proof for proof in higher if proof.offset <= agreed)
    return ProvenEnd(agreed, proofs)


def _agreed_end(held: Offset, stated: Sequence[EndProof]) -> Offset | None:
    """Return the end that most files state, the highest in a tie; None when no two agree."""
    ends = Counter([held, *(proof.offset for proof in stated if proof.is_exact)])
    offset, votes = max(ends.items(), key=lambda item: (item[1], item[0]))
    return offset if votes > 1 and offset >= held else None


def first_offset_without_records(view: LogView, below: Offset) -> Offset:
    """Return the start of a log without records files, by its indexes and leader epochs; 0 without these."""
    stated = [
        *orphan_indexes(view.listing),
        *(entry.start_offset for entry in leader_epochs(view, below)),
    ]
    return min((offset for offset in stated if offset < below), default=0)


def orphan_indexes(listing: FolderListing) -> dict[Offset, str]:
    """Return an index without a records file by base offset, ascending."""
    found: dict[Offset, str] = {}
    for file, _ in listing.leftovers:
        name = parse_file_name(file)
        if name is None or name.kind not in _INDEXES or name.state is not FileState.LIVE:
            continue
        if file in listing.replaced:
            continue
        if name.base_offset is not None and listing.has_file(file):
            found.setdefault(name.base_offset, file)
    return found


def _proofs(view: LogView, held: Offset) -> Iterator[EndProof]:
    if view.log.only is not None:
        return
    if view.partition.topic != CLUSTER_METADATA:
        if view.log.is_current():
            yield from _checkpoints(view)
        yield from _last_epoch(view, held)
    else:
        yield from _election(view, held)
    snapshots = view.listing.producer_snapshots
    if snapshots:
        newest = snapshots[-1]
        says = f"the newest producer snapshot is of offset {newest}"
        yield EndProof(newest, producer_snapshot_name(newest), says, is_exact=True)
    yield from _last_orphan(view)


def _election(view: LogView, held: Offset) -> Iterator[EndProof]:
    """Yield the first record of a metadata log that is empty, and whose node knew a leader: each begins with a record."""
    if view.live or held:
        return
    from engine.checkpoint.quorum_state import parse_quorum_state  # rarely needed

    try:
        state = parse_quorum_state(view.read_side_file(QUORUM_STATE))
    except (DamagedFileError, OSError):
        return
    if state.leader_id >= 0 and state.leader_epoch > 0 and _is_past_first_start(view, state):
        says = (
            f"quorum-state names the leader of epoch {state.leader_epoch}, who began with a record"
        )
        yield EndProof(1, QUORUM_STATE, says)


def _is_past_first_start(view: LogView, state: QuorumState) -> bool:
    """Return whether a node with an empty metadata log had records there once.

    A node that was killed between its first quorum-state and its first record has no other log, no checkpoint that names
    one, and no epoch that begins behind the start; and if it leads, it leads for the first time. One that follows
    another leader has lost nothing: it fetches the records again.
    """
    known, root = view.log.checkpoints, view.log.root
    if known.all_recovery_points() or known.all_high_watermarks():
        return True
    with suppress(DamagedFileError, OSError):
        entries = parse_leader_epochs(view.read_side_file(LEADER_EPOCH_CHECKPOINT))
        if any(each.start_offset > 0 for each in entries):
            return True
    try:
        if any(is_partition_name(each.name) and each.name != view.name for each in root.list()):
            return True
        data = root.read(META_PROPERTIES, limit=view.log.budgets.checkpoint_bytes)
        node_id = parse_meta_properties(data).node_id
    except (DamagedFileError, OSError):
        node_id = None
    return state.leader_epoch > 1 and node_id in (None, state.leader_id)


def _last_epoch(view: LogView, held: Offset) -> Iterator[EndProof]:
    """Yield the start of the last leader epoch: the log end at that time, which truncation would have removed.

    A running broker writes the epoch before its first batch. An epoch that is already in a batch below its start
    proves nothing.
    """
    if view.live:
        return
    try:
        entries = parse_leader_epochs(view.read_side_file(LEADER_EPOCH_CHECKPOINT))
    except (DamagedFileError, OSError):
        return
    if not entries or any(
        after.epoch <= before.epoch or after.start_offset <= before.start_offset
        for before, after in pairwise(entries)
    ):
        return
    epoch, start = entries[-1]
    if start > held and _epoch_at_end(view, held) < epoch:
        says = f"leader epoch {epoch} begins at offset {start}"
        yield EndProof(start, LEADER_EPOCH_CHECKPOINT, says)


def _epoch_at_end(view: LogView, held: Offset) -> int:
    """Return the leader epoch of the batch that ends at an offset; -1 without one."""
    try:
        found = view.batch(min(held, view.log_end_offset) - 1)
    except (DamagedFileError, OSError):
        return -1
    return -1 if found is None else int(found[1].table["leader_epoch"][-1])


def _last_orphan(view: LogView) -> Iterator[EndProof]:
    """Yield the base offset or last index entry of the last segment without a records file."""
    orphans = orphan_indexes(view.listing)
    if not orphans:
        return
    base, name = max(orphans.items())
    if log_file_name(base, FileState.DELETED) in view.listing.files:
        return  # a broker that deletes a segment renames the records file first, then the indexes
    proof = EndProof(base, name, f"an index names a segment {base} that is not there")
    for index, last in last_indexed(view, base):
        if last >= proof.offset:
            says = f"{index} has an entry for offset {last} but no records file"
            proof = EndProof(last + 1, index, says)
    yield proof


def last_indexed(view: LogView, base: Offset) -> Iterator[tuple[str, Offset]]:
    """Yield the names of a segment's indexes with the offsets of their last entries.

    An index that is empty, missing or out of order is left out.
    """
    for name, kind, dtype in (
        (offset_index_name(base), OffsetIndex, offset_index.ENTRY.dtype),
        (time_index_name(base), TimeIndex, time_index.ENTRY.dtype),
    ):
        real = view.listing.real(name)
        last = _last_entry(view, real, base, kind, dtype) if view.listing.has_file(real) else None
        if last is not None:
            yield real, last


def _last_entry(
    view: LogView,
    name: str,
    base: Offset,
    kind: type[OffsetIndex | TimeIndex],
    dtype: np.dtype[np.void],
) -> Offset | None:
    try:
        with view.log.root.open_fresh(view.log.relative(name)) as file:
            index = kind(file, base)
            index.check()
            count = len(index)
            if not count or index.byte_size > _LARGEST_INDEX:
                return None
            data = file.read_at(0, count * dtype.itemsize)
    except (CorruptIndexError, OSError):
        return None
    table = np.frombuffer(data, dtype)
    columns = (table[column] for column in dtype.fields or ())
    ascends = all((column[1:] >= column[:-1]).all() for column in columns)
    return base + int(table["relative_offset"][-1]) if ascends else None


def _checkpoints(view: LogView) -> Iterator[EndProof]:
    partition, known = view.partition, view.log.checkpoints
    recovery = known.recovery_point(partition)
    if recovery is not None:
        says = f"the recovery point is {recovery}"
        yield EndProof(recovery, RECOVERY_POINT_CHECKPOINT, says, is_exact=True)
    watermark = known.high_watermark(partition)
    if watermark is not None:
        says = f"the high watermark is {watermark}"
        yield EndProof(watermark, REPLICATION_OFFSET_CHECKPOINT, says, is_exact=True)
    cleaned = known.cleaner_offset(partition)
    if cleaned is not None:
        says = f"the log was compacted up to {cleaned}"
        yield EndProof(cleaned, CLEANER_OFFSET_CHECKPOINT, says)
