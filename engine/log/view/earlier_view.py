"""A log as it was before a time: without its first batch that has a record at or after it, and all that follows."""

from __future__ import annotations

from engine.columns.batch_table import holds_control
from engine.log.segment.batch_search import first_offset
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import Offset, Timestamp


def earlier_view(view: LogView, time: Timestamp) -> LogView:
    """Return a log as it was before a time, by the timestamps of its records; the view itself if all are older.

    A batch with a record at or after the time is not there, since a broker appends batches whole. The markers of
    transactions have the broker's clock: those at or after the time are there only if an older record follows them.

    Raises:
        UnsupportedCodecError: the codec of a batch that may hold the first such record is not installed.
        OSError: a file cannot be read.
    """
    found = _first_absent(view, time)
    located = None if found is None else view.locate(max(found, view.log_start_offset))
    if located is None:
        return view
    segment, (_, _, position, size) = located
    run = next(iter(segment.scan(position, position + size)), None)
    if not isinstance(run, BatchRun):  # the file changed between two looks
        return view
    end = max(first_offset(run), view.log_start_offset)
    listing = view.listing._replace(
        base_offsets=tuple(each for each in view.base_offsets if each <= segment.base_offset),
        producer_snapshots=tuple(each for each in view.listing.producer_snapshots if each <= end),
        kraft_snapshots=tuple(
            each for each in view.listing.kraft_snapshots if each.end_offset <= end
        ),
    )
    active = LogSegment(
        view.log.files_of(segment.base_offset, listing),
        position,
        position,
        budgets=view.log.budgets,
    )
    earlier = LogView(
        view.log,
        listing,
        {},
        active,
        log_start_offset=view.log_start_offset,
        log_end_offset=end,
        generation=view.generation,
        rewrites=view.rewrites,
    )
    # Those of the checkpoint that begin later would be a problem of the log.
    begun = (each for each in view.leader_epochs if each.start_offset < end)
    earlier._leader_epochs = LeaderEpochCache(begun)
    return earlier


def _first_absent(view: LogView, time: Timestamp) -> Offset | None:
    """Return an offset of the first batch that is not there; None if all are."""
    first = view.offset_for_time(time)
    if first is None:
        return None
    data = view.offset_for_time(time, records_only=True)
    stop = view.log_end_offset if data is None else data.offset
    end = first.offset
    if end == stop:
        return end
    for _, item in view.runs(end, stop):
        if isinstance(item, BatchRun):
            table = item.table
            is_older = ~holds_control(table) & (table["last_offset"] < stop)
            if is_older.any():
                end = max(end, int(table["last_offset"][is_older].max()) + 1)
        del item  # free it before the next read: a batch may be as large as the budget
    return end if end < view.log_end_offset else None
