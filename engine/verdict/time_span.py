"""The time span of missing offsets, by the batches around them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from engine.columns.batch_table import BatchRow
from engine.errors import KafkaStorageError
from engine.log.view.log_view import LogView
from engine.record.attributes import DELETE_HORIZON_MASK, TIMESTAMP_TYPE_MASK
from engine.units import NO_TIMESTAMP, Offset, Timestamp
from engine.verdict.loss import Loss


class TimeSpan(NamedTuple):
    """Timestamps in milliseconds of the last batch before a place in a log and of the first one after it.

    None where there is no such batch, it cannot be read or it has no timestamp.
    """

    before: Timestamp | None
    after: Timestamp | None


def time_span(view: LogView, first_offset: Offset, next_offset: Offset | None) -> TimeSpan:
    """Return the time span of the offsets [first, next); `next_offset` None: up to the log end."""
    before = _batch_at(view, min(first_offset, view.log_end_offset) - 1)
    after = None
    if next_offset is not None and next_offset < view.log_end_offset:
        try:
            found = view.locate(max(next_offset, view.log_start_offset))
        except (KafkaStorageError, OSError):
            found = None
        after = None if found is None else _batch_at(view, found[1].last_offset)
    return TimeSpan(
        None if before is None else _known(before.max_timestamp),
        None if after is None else _first_timestamp(after),
    )


def with_times(view: LogView, loss: Loss) -> Loss:
    """Return a loss with the times around it."""
    if loss.first_offset is None:
        return loss
    span = time_span(view, loss.first_offset, loss.next_offset)
    return replace(loss, before=span.before, after=span.after)


def _batch_at(view: LogView, offset: Offset) -> BatchRow | None:
    """Return the header of the batch that holds an offset."""
    try:
        found = view.batch(offset)
    except (KafkaStorageError, OSError):
        return None
    return None if found is None else found[1].headers[0]


def _first_timestamp(batch: BatchRow) -> Timestamp | None:
    """Return the timestamp of a batch's first record, or the largest one where the header lacks it."""
    has_no_first = batch.magic < 2 or batch.attributes & (DELETE_HORIZON_MASK | TIMESTAMP_TYPE_MASK)
    return _known(batch.max_timestamp if has_no_first else batch.base_timestamp)


def _known(timestamp: Timestamp) -> Timestamp | None:
    return None if timestamp == NO_TIMESTAMP else timestamp
