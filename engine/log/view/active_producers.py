"""The producers of a log, as a broker keeps them: from the newest producer snapshot, and the batches after it."""

from __future__ import annotations

from engine.errors import DamagedFileError, UnsupportedCodecError
from engine.files.file_names import producer_snapshot_name
from engine.log.segment.scan import BatchRun
from engine.log.view.log_contents import LogContents
from engine.record.attributes import TRANSACTIONAL_MASK, is_control
from engine.record.control_records import end_marker_of
from engine.record.record_batch import make_batch
from engine.state.producer_snapshot import ProducerSnapshot
from engine.state.producer_state_entry import BatchMetadata, ProducerStateEntry
from engine.units import MAX_INT32, Offset, Position

MOST_PRODUCERS = 100_000


def active_producers(view: LogContents) -> dict[int, ProducerStateEntry]:
    """Return the producers by id; those that a broker would have forgotten since are among them.

    Those beyond MOST_PRODUCERS are left out.

    Raises:
        OSError: the log cannot be read.
    """
    start, found = _newest_snapshot(view)
    for _, item in view.runs(start, view.log_end_offset):
        if isinstance(item, BatchRun):
            _apply(item, start, found)
    return found


def _newest_snapshot(view: LogContents) -> tuple[Offset, dict[int, ProducerStateEntry]]:
    """Return the offset of the newest readable snapshot, or the log's first, and the producers there."""
    for offset in reversed(view.listing.producer_snapshots):
        if offset > view.log_end_offset:
            continue
        name = producer_snapshot_name(offset)
        try:
            entries = ProducerSnapshot.iterate(view.log.read_side_file(name), name)
            found = {entry.producer_id: entry for _, entry in zip(range(MOST_PRODUCERS), entries, strict=False)}  # fmt: skip
        except (DamagedFileError, OSError) as error:
            view.log.problems.add_error("producer_snapshot", name, error)
            continue
        return offset, found
    return view.base_offsets[0] if view.base_offsets else 0, {}


def _apply(run: BatchRun, start: Offset, found: dict[int, ProducerStateEntry]) -> None:
    """Update the producers with the batches of a run from an offset on."""
    table = run.table
    wanted = (table["magic"] == 2) & (table["producer_id"] >= 0) & (table["base_offset"] >= start)
    for row in wanted.nonzero()[0].tolist():
        header = run.headers[row]
        entry = found.get(header.producer_id)
        if entry is None:
            if len(found) >= MOST_PRODUCERS:
                continue
            entry = found[header.producer_id] = ProducerStateEntry(header.producer_id)
        if is_control(header.magic, header.attributes):
            at = header.position - run.start_position
            _end(entry, run.buffer[at : at + header.size], header.position)
            continue
        delta = header.last_offset - header.base_offset
        last_sequence = (header.base_sequence + delta) & MAX_INT32
        batch = BatchMetadata(last_sequence, header.last_offset, delta, header.max_timestamp)
        entry.add_batch(header.producer_epoch, batch)
        is_transactional = header.attributes & TRANSACTIONAL_MASK and header.record_count
        if is_transactional and entry.current_txn_first_offset is None:
            entry.current_txn_first_offset = header.base_offset


def _end(entry: ProducerStateEntry, data: bytes, position: Position) -> None:
    """Update a producer with a control batch; one that is no end marker changes nothing."""
    try:
        batch = make_batch(data, file_position=position, path=None)
        record = next(iter(batch.records()), None)
        if record is None:
            return
        marker = end_marker_of(record)
    except (DamagedFileError, UnsupportedCodecError, ValueError):
        return
    entry.end_transaction(batch.producer_epoch, marker.coordinator_epoch, record.timestamp)
