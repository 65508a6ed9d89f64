"""State of a log from side files that are checked against the log, or else from its batches.

Open transactions: from the newest producer snapshot that is right, and the batch headers after it. Leader epochs:
from their checkpoint, or else the batches. A missing or wrong side file costs time only.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.columns.batch_table import holds_control
from engine.errors import DamagedFileError
from engine.files.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    producer_snapshot_name,
)
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, tables
from engine.log.view.log_contents import LogContents, LogContext
from engine.log.view.transactions import OngoingTxn, TransactionState, may_have_taken_a_marker
from engine.record.attributes import TRANSACTIONAL_MASK
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.state.producer_snapshot import ProducerSnapshot
from engine.units import EpochEntry, Offset


def transaction_state(view: LogContents, until: Offset) -> TransactionState:
    """Return the transactions that are open when the log ends at `until`.

    A transaction counts as ended after damage that may have taken its marker.
    """
    start, state = _newest_snapshot(view, until)
    for _, item in view.runs(start, until):
        if isinstance(item, BatchRun):
            if item.base_offset < start:
                item = _from_offset(item, start)
            state.apply(item, until)
        elif isinstance(item, Damage) and may_have_taken_a_marker(item):
            state.lose_track()
        del item  # free it before the next read: a batch may be as large as the budget
    return state


def _from_offset(run: BatchRun, start: Offset) -> BatchRun:
    """Return the run without the batches below an offset."""
    keep = run.table["last_offset"] >= start
    return run.with_table(run.table[keep])


def _newest_snapshot(view: LogContents, until: Offset) -> tuple[Offset, TransactionState]:
    """Return the offset of the newest right snapshot, or the log's first, and the open transactions there."""
    first = view.base_offsets[0] if view.base_offsets else 0
    for offset in reversed(view.listing.producer_snapshots):
        if offset > until:
            continue
        if offset <= first:
            break
        ongoing = _proven_snapshot(view, offset)
        if ongoing is not None:
            return offset, TransactionState(ongoing)
    return first, TransactionState()


def _proven_snapshot(view: LogContents, offset: Offset) -> list[OngoingTxn] | None:
    """Return the open transactions of a snapshot; None when the snapshot is broken or contradicts the log."""
    name = producer_snapshot_name(offset)
    try:
        entries = ProducerSnapshot.iterate(view.log.read_side_file(name), name)
    except (DamagedFileError, OSError) as error:
        view.log.problems.add_error("producer_snapshot", name, error)
        return None
    ongoing = []
    for entry in entries:
        first = entry.current_txn_first_offset
        if first is None:
            continue
        if first >= offset or not _begins_transaction(view, first, entry.producer_id):
            view.log.problems.add(
                "producer_snapshot",
                name,
                f"no transaction of producer {entry.producer_id} begins at offset {first}",
            )
            return None
        ongoing.append(OngoingTxn(entry.producer_id, entry.producer_epoch, first))
    return ongoing


def _begins_transaction(view: LogContents, offset: Offset, producer_id: int) -> bool:
    """Return whether a batch of a producer's transaction starts at exactly this offset."""
    segment = view.segment_for(offset)
    if segment is None:
        return False
    try:
        run = segment.batch(offset)
    except DamagedFileError:
        return False
    if run is None:
        return False
    row = run.table[0]
    return bool(
        row["base_offset"] == offset
        and row["producer_id"] == producer_id
        and row["magic"] == 2
        and row["attributes"] & TRANSACTIONAL_MASK
        and not holds_control(row)
    )


def indexed_aborts(view: LogContents) -> dict[int, list[tuple[Offset, Offset]]]:
    """Return first and last offsets of aborted transactions by producer id, from the unproven indexes."""
    found: dict[int, list[tuple[Offset, Offset]]] = {}
    for place in range(len(view)):
        try:
            entries = view.segment_at(place).transaction_index().all()
        except (DamagedFileError, OSError):
            continue
        for entry in entries:
            known = found.setdefault(entry.producer_id, [])
            known.append((entry.first_offset, entry.last_offset))
    return found


def leader_epochs(view: LogContents, log_end: Offset | None = None) -> LeaderEpochCache:
    """Return the epochs of a log's checkpoint that start up to the log end, or else those of its batches."""
    end = view.log_end_offset if log_end is None else log_end
    name = LEADER_EPOCH_CHECKPOINT
    try:
        entries = parse_leader_epochs(view.log.read_side_file(name), path=name)
    except FileNotFoundError:
        return LeaderEpochCache(epochs_of_batches(view))
    except (DamagedFileError, OSError) as error:
        view.log.problems.add_error("leader_epochs", name, error)
        return LeaderEpochCache(epochs_of_batches(view))
    known = [entry for entry in entries if entry.start_offset <= end]
    if len(known) < len(entries):
        view.log.problems.add(
            "leader_epochs",
            name,
            "an epoch begins past the log end",
            expected=f"at most {end}",
            found=entries[-1].start_offset,
        )
    return LeaderEpochCache(known)


def epochs_of_batches(view: LogContents) -> Iterator[EpochEntry]:
    """Yield the epochs of the batches; a segment is skipped when the next one starts in the same epoch."""
    segments = [view.segment_at(place) for place in range(len(view))]
    firsts = [_first_epoch(segment) for segment in segments]
    following: list[int | None] = [None] * len(firsts)
    for place in range(len(firsts) - 2, -1, -1):
        first = firsts[place + 1]
        following[place] = following[place + 1] if first is None else first.epoch
    latest = -1
    for segment, first, after in zip(segments, firsts, following, strict=True):
        if first is None:
            continue
        if first.epoch > latest:
            latest = first.epoch
            yield first
        if after == latest:
            continue
        for table in tables(segment.scan()):
            for row in table[table["leader_epoch"] > latest]:
                if row["leader_epoch"] > latest:
                    latest = int(row["leader_epoch"])
                    yield EpochEntry(latest, int(row["base_offset"]))


def _first_epoch(segment: LogSegment) -> EpochEntry | None:
    for item in segment.scan(chunk=64 * 1024):
        if isinstance(item, BatchRun):
            return EpochEntry(int(item.table["leader_epoch"][0]), item.base_offset)
    return None


def topic_id(log: LogContext) -> str | None:
    """Return the topic id in partition.metadata; None without one, or for a broken file, which is a problem."""
    try:
        data = log.read_side_file(PARTITION_METADATA)
        return parse_partition_metadata(data, path=PARTITION_METADATA).topic_id
    except FileNotFoundError:
        return None
    except (DamagedFileError, OSError) as error:
        log.problems.add_error("partition_metadata", PARTITION_METADATA, error)
        return None
