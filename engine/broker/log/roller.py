"""Roll a log to a new segment, and flush its segments to the device."""

from __future__ import annotations

from functools import partial

from engine.broker.log.log_state import LogState
from engine.disk.disk import StrPath
from engine.units import Offset
from engine.writing.segment.writable_segment import WritableSegment


class Roller:
    """Rolls a log, and moves its recovery point by flushes."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    def roll(self, expected_next_offset: Offset | None = None) -> WritableSegment:
        """Create a new active segment at the log end, or at `expected_next_offset` above it, and return it.

        A producer snapshot is taken at its base offset; the previous segment is flushed later.
        """
        state = self._state
        with state.changing("cannot roll"):
            fresh = state.local_log.roll(expected_next_offset)
            # The segment may begin above the log end, and its snapshot has its base offset.
            state.producer_state.update_map_end_offset(fresh.base_offset)
            snapshot = state.producer_state.take_snapshot(sync=False)
            state.watermarks.follow_log_end()
        state.folder.scheduler.schedule(
            "flush-log", partial(self._flush_before, fresh.base_offset, snapshot)
        )
        return fresh

    def _flush_before(self, offset: Offset, snapshot: StrPath | None) -> None:
        """Flush the snapshot first: the recovery point must not pass a snapshot that is not on the device."""
        if self._state.is_closed:
            return
        if snapshot is not None:
            self._flush_snapshot(snapshot)
        self.flush_up_to(offset)

    def _flush_snapshot(self, path: StrPath) -> None:
        """Sync a producer snapshot to the device; do nothing if it was deleted."""
        folder = self._state.folder
        with folder.reporting("cannot flush a producer snapshot of"):
            try:
                file = folder.disk.open(path)
            except FileNotFoundError:
                return
            with file:
                file.sync()

    def flush(self, *, force_active_segment: bool = False) -> None:
        """Sync all segments to the device and move the recovery point to the log end.

        Args:
            force_active_segment: sync also an empty active segment, for a clean shutdown.
        """
        end = self._state.local_log.log_end_offset
        self._flush(end, end + 1 if force_active_segment else end)

    def flush_up_to(self, offset: Offset) -> None:
        """Sync the segments with offsets below `offset` to the device and move the recovery point there."""
        self._flush(offset, offset)

    def _flush(self, recovery_point: Offset, end: Offset) -> None:
        local_log = self._state.local_log
        with self._state.folder.reporting("cannot flush"):
            if end > local_log.recovery_point:
                local_log.flush(end)
                with self._state.lock:
                    local_log.mark_flushed(recovery_point)
