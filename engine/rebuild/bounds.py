"""Refuse bounds of a cut that are most likely a mistake."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from engine.log.view.log_bound import LogBound
from engine.log.view.proven_end import proven_end
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.options import RebuildOptions
from engine.rebuild.selection import Chosen
from engine.units import LAST_TIME, Offset

_FIRST_LIKELY_TIME = 10**11
"""Numbers from here to LAST_TIME are milliseconds from 1973 to 9999: as offsets they are most likely a mistake."""


def refuse_bounds(options: RebuildOptions, chosen: Sequence[Chosen]) -> None:
    """Raise RebuildRefusedError for an offset past the end of every log, or for --from after --to."""
    if options.allow_empty:
        return
    _refuse_backwards(options.start, options.stop)
    offsets = [
        (name, bound.offset)
        for name, bound in (("--from", options.start), ("--to", options.stop))
        if bound is not None and bound.offset is not None
    ]
    highest = _highest_end(chosen) if offsets else None
    for name, offset in offsets:
        if highest is not None and offset > highest:
            raise RebuildRefusedError(
                f"{name} {offset} is past the end of every log (the highest ends at {highest})",
                f"{_way_out(offset, highest)}, or pass --allow-empty",
            )


def _refuse_backwards(start: LogBound | None, stop: LogBound | None) -> None:
    if start is None or stop is None:
        return
    for first, end, unit in (
        (start.offset, stop.offset, "offset"),
        (start.timestamp, stop.timestamp, "millisecond"),
    ):
        if first is not None and end is not None and first >= end:
            raise RebuildRefusedError(
                f"--from ({unit} {first}) is not before --to ({unit} {end})",
                "--to is exclusive",
            )


def _highest_end(chosen: Sequence[Chosen]) -> Offset | None:
    """Return the highest log end of all copies; None if a copy cannot be read."""
    highest = 0
    for each in chosen:
        for log in each.copies:
            view = log.view_or_none()
            if view is None:
                return None
            highest = max(highest, proven_end(view, view.log_end_offset).offset)
    return highest


def _way_out(offset: Offset, highest: Offset) -> str:
    if not _FIRST_LIKELY_TIME <= offset <= LAST_TIME:
        return f"write an offset up to {highest}"
    timespec = "milliseconds" if offset % 1000 else "seconds"
    at = datetime.fromtimestamp(offset / 1000, UTC).isoformat(timespec=timespec)
    return f"for a time write {at.replace('+00:00', 'Z')} or @{offset}"
