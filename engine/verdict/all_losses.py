"""All losses of one log: the full part of the verdict, which reads every byte, and a part that reads the ends of segments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_view import LogView
from engine.verdict.gap_causes.gaps import OffsetGap
from engine.verdict.holes import Hole, HoleMap
from engine.verdict.log_losses import WHOLE_LOG, LogLosses, losses_of
from engine.verdict.log_runs import runs
from engine.verdict.loss import Loss
from engine.verdict.time_span import with_times

MOST_LOSSES = 10_000


def all_losses(view: LogView) -> list[Loss]:
    """Read a log and return its losses by offset, at most MOST_LOSSES, with the times around them. Raises OSError."""
    losses, found = losses_of(view), list[Loss]()
    for loss in _read(view, losses):
        if len(found) >= MOST_LOSSES:
            break
        if loss not in found[-1:]:
            found.append(loss)
    found = [each for each in (losses.start, losses.end) if each is not None] + found
    return [losses.placed(with_times(view, each)) for each in sorted(found, key=_place)]


def losses_at_ends(view: LogView) -> list[Loss] | None:
    """Return the losses that names, sizes and the last batches of segments show; None if a segment ends in damage.

    Reads some kilobytes of each segment. Raises OSError.
    """
    losses = losses_of(view)
    found = [each for each in (losses.start, losses.end) if each is not None]
    for place, following in list(enumerate(view.base_offsets))[1:]:
        before = losses.ends.before(place)
        if before is None or before.is_damaged:
            return None
        gap = OffsetGap(before.next_offset, following, 0)
        lost = losses.gap(view.segment_at(place), gap, WHOLE_LOG)
        if lost is not None and lost.next_offset != following:
            return None
        found += [] if lost is None else [lost]
    return [losses.placed(with_times(view, each)) for each in sorted(found, key=_place)]


def _place(loss: Loss) -> tuple[int, int]:
    return loss.first_offset or 0, loss.next_offset or 0


def _read(view: LogView, losses: LogLosses) -> Iterator[Loss]:
    bases, holes, at = view.base_offsets, None, None
    for segment, item in runs(view):
        if at != segment.base_offset:
            reached = 0 if holes is None else holes.next_offset
            if holes is not None:
                yield from _of(holes.end(), losses)
            at = segment.base_offset
            following = bases[(after := bisect_right(bases, at)) : after + 1]
            holes = HoleMap(view.name, segment, following[0] if following else None, reached)
        assert holes is not None
        if isinstance(item, Damage) and item.kind is DamageKind.MISSING:
            if item.first_offset is not None and item.last_offset is not None:
                gap = OffsetGap(item.first_offset, item.last_offset + 1, item.position)
                lost = losses.gap(segment, gap, WHOLE_LOG)
                ends = [each.first_offset for each in (losses.start, losses.end) if each]
                if lost is not None and gap.first_offset not in ends:
                    yield lost
        elif isinstance(item, BatchRun | Damage):
            yield from _of(holes.add(item), losses)
        del item  # free it before the next read: a batch may be as large as the budget
    if holes is not None:
        yield from _of(holes.end(), losses)


def _of(holes: Iterator[Hole], losses: LogLosses) -> Iterator[Loss]:
    return (hole.loss(is_compacted=losses.is_compacted) for hole in holes if hole.may_be_lost)
