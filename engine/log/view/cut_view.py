"""A log cut at an offset: its first records, as the log was at some moment."""

from __future__ import annotations

from collections.abc import Mapping

from engine.log.segment.log_segment import LogSegment
from engine.log.view.log_view import LogView
from engine.log.view.transactions import TransactionState
from engine.record.fate import Fate
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import Offset


def cut_view(view: LogView, end: Offset, ended: Mapping[int, Fate]) -> LogView:
    """Return a log without the batches from an offset on.

    Args:
        view: the log.
        end: base offset of the first batch that is left out; at or above the log end for none.
        ended: fates of the transactions that are open there, by producer id; the others are aborted.

    Raises OSError.
    """
    end = max(min(end, view.log_end_offset), view.log_start_offset)
    located = view.locate(end)
    listing, active = view.listing, view.active_segment
    if located is not None:
        segment, (_, _, position, _) = located
        listing = listing._replace(
            base_offsets=tuple(each for each in view.base_offsets if each <= segment.base_offset),
            producer_snapshots=tuple(each for each in listing.producer_snapshots if each <= end),
            kraft_snapshots=tuple(
                each for each in listing.kraft_snapshots if each.end_offset <= end
            ),
        )
        files = view.log.files_of(segment.base_offset, listing)
        active = LogSegment(files, position, position, budgets=view.log.budgets)
    cut = LogView(
        view.log,
        listing,
        {},
        active,
        log_start_offset=view.log_start_offset,
        log_end_offset=end,
        generation=view.generation,
        rewrites=view.rewrites,
        known_transactions=TransactionState(),
        ended=ended,
    )
    # Those of the checkpoint that begin later would be a problem of the log.
    begun = (each for each in view.leader_epochs if each.start_offset < end)
    cut._leader_epochs = LeaderEpochCache(begun)
    return cut
