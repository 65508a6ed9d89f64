"""A cut that was worked out in another process: it can be sent, and reads nothing."""

from __future__ import annotations

from engine.cut.cluster_cut import ClusterCut
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog, Placed
from engine.log.view.cut_view import cut_view
from engine.log.view.log_view import LogView


class SentCut:
    """The ends of all logs of a cut, and their folders; the `cut` of a LogSource of the same paths.

    Args:
        source: the source as of the moment.
        cut: its cut.

    Attributes:
        time: the moment in milliseconds.

    Raises OSError, UnsupportedCodecError.
    """

    def __init__(self, source: LogSource, cut: ClusterCut) -> None:
        self.time = cut.time
        self._ends = {log.topic_partition: (end.offset, dict(end.ended)) for log, end in cut.ends()}
        logs = [*source.partitions().values(), *source.replicas().values()]
        self._folders = {(log.root.path, log.folder) for log in logs}
        self._has_metadata = cut.folders.has_metadata

    def view(self, log: PartitionLog, whole: LogView) -> LogView:
        """Return a log up to its end. Raises OSError."""
        end = self._ends.get(log.topic_partition)
        return whole if end is None else cut_view(whole, *end)

    def placed(self, root: SourceRoot, found: Placed) -> Placed | None:
        """Return the folder of a partition as it was; None if it was not the log of a topic."""
        if not self._has_metadata:
            return found
        if (root.path, found.folder) not in self._folders:
            return None
        return found.as_log()

    def close(self) -> None:
        """Close nothing."""
