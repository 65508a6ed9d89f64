"""The batches of a range of offsets, with what the log lost between them."""

from __future__ import annotations

from collections.abc import Iterator

from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, ScanItem
from engine.log.view.log_contents import smallest_offset
from engine.log.view.log_view import LogView
from engine.units import Offset
from engine.verdict.log_losses import losses_of, wanted


def is_large(task: tuple[object, ScanItem]) -> bool:
    """Return whether the bytes of what `runs` yields may be as many as the budget of a batch."""
    return isinstance(task[1], BatchRun) and task[1].is_large


def runs(
    view: LogView, start_offset: Offset | None = None, stop_offset: Offset | None = None
) -> Iterator[tuple[LogSegment, ScanItem]]:
    """Yield what `LogView.runs` yields, and the losses between it.

    Args:
        start_offset: by default the log start.
        stop_offset: by default the log end.
    """
    losses = losses_of(view)
    start = view.log_start_offset if start_offset is None else start_offset
    stop = view.log_end_offset if stop_offset is None else stop_offset
    lost = losses.instead_of(start, stop)
    if lost:
        base = view.base_offsets[-1] if view.base_offsets else view.log_end_offset
        segment = LogSegment(view.log.files_of(base, view.listing), budgets=view.log.budgets)
        yield from ((segment, each.damage()) for each in lost)
        return
    expected, within = 0, wanted(view, start, stop)
    for segment, part in view.extents(start, stop):
        if part.start >= part.stop:
            continue  # the segments around an empty one tell what is lost
        smallest = smallest_offset(segment, part, expected)
        items = segment.scan(part.start, part.stop, next_offset=smallest)
        for item in losses.read(segment, items, part.start, part.stop, None, within):
            if isinstance(item, BatchRun):
                expected = item.next_offset
            yield segment, item
            del item  # free it before the next read: a batch may be as large as the budget
