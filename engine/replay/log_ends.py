"""Log ends, now or at a time, and the lag of groups.

A broker gives clients the high watermark, which is the log end once all in-sync replicas have it. Offline only the log
end is available: in a log dir copied from a running broker the high watermark checkpoint is up to five seconds old. If
records files are lost, the end is the one proven by the files beside them, because groups have consumed up to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.log.view.proven_end import LostEnd, lost_end
from engine.units import Offset, Timestamp, TopicPartition

NO_OFFSET = -1


def end_offset(view: LogView, until: Timestamp | None = None) -> Offset:
    """Return the log end, or the offset of the first record after a time. Raises OSError, UnsupportedCodecError."""
    if until is None:
        return view.log_end_offset
    found = view.offset_for_time(until + 1)
    return view.log_end_offset if found is None else found.offset


class LogEnds:
    """Log ends of a source's partitions by topic and partition. Thread-safe."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._lost: dict[str, LostEnd] = {}

    def end_of(self, topic: str, partition: int, until: Timestamp | None = None) -> Offset | None:
        """Return a partition's log end, now or at a time; None if unknown.

        If the last records of the log are lost, return the proven end; the end at a time after all other records is
        unknown.

        Raises OSError, UnsupportedCodecError.
        """
        log = self._log_of(topic, partition)
        view = None if log is None else log.view_or_none()
        if log is None or view is None or (until is None and view.unread_end is not None):
            return None
        end = end_offset(view, until)
        if end < view.log_end_offset:
            return end
        lost = lost_end(view)
        if lost is not None and view.live:
            # The checkpoints of a running broker may be newer than the view.
            lost = lost_end(log.view(max_age=0))
        if lost is None:
            return end
        self._lost[view.name] = lost
        return lost.end.offset if until is None else None

    def view_of(self, topic: str, partition: int) -> LogView | None:
        """Return a partition's log; None if the source does not hold it, or it cannot be read."""
        log = self._log_of(topic, partition)
        return None if log is None else log.view_or_none()

    def _log_of(self, topic: str, partition: int) -> PartitionLog | None:
        log = self._source.partitions().get(str(TopicPartition(topic, partition)))
        return None if log is None or log.topic_partition != (topic, partition) else log

    def notes(self) -> Iterator[str]:
        """Yield a note for each log that was asked for and has lost its last records."""
        for name, lost in sorted(self._lost.items()):
            yield f"{name}: {lost.sentence}; the log end and the lag count the lost offsets"


def lag(committed: Offset | None, end: Offset | None) -> int | None:
    """Return log end less committed offset; None if one of them is unknown. Negative if the log was truncated."""
    return None if committed in (None, NO_OFFSET) or end is None else end - (committed or 0)
