"""The folders of the topics of a moment: also those that a broker has set aside since, and none of later topics."""

from __future__ import annotations

from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.errors import KafkaStorageError
from engine.files.file_names import PARTITION_METADATA
from engine.files.source_files import SourceRoot
from engine.log.partition_log import PartitionLog, Placed
from engine.log.view.log_view import LogView
from engine.replay.cluster import ClusterImage
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import NO_TIMESTAMP, Timestamp

_LIMIT = 1 << 16


class FoldersThen:
    """Chooses folders by the topic ids of a moment; all of them until its metadata is known.

    Attributes:
        time: the moment in milliseconds; -1 until it is known.
    """

    def __init__(self) -> None:
        self.time: Timestamp = NO_TIMESTAMP
        self._then: ClusterImage | None = None
        self._now: ClusterImage | None = None

    @property
    def has_metadata(self) -> bool:
        """Whether the metadata of the moment is known."""
        return self._then is not None

    def place(self, then: ClusterImage, now: ClusterImage) -> None:
        """Choose by the cluster of the moment, and that of now."""
        self._then, self._now = then, now

    def view(self, log: PartitionLog, whole: LogView) -> LogView:
        """Return all of a log."""
        return whole

    def placed(self, root: SourceRoot, found: Placed) -> Placed | None:
        """Return the folder of a partition as it was; None if it was not the log of a topic."""
        topic = found.topic_partition.topic
        if self._then is None or self._now is None or topic == CLUSTER_METADATA:
            return found
        item = self._then.topics.get(topic)
        if item is None:
            return None
        wanted = item.facts["topicId"]
        now = self._now.topics.get(topic)
        is_kept = found.is_log and now is not None and now.facts["topicId"] == wanted
        if not is_kept and _topic_id(root, found.folder) != wanted:
            return None
        return found.as_log()

    def close(self) -> None:
        """Close nothing."""


def _topic_id(root: SourceRoot, folder: str) -> str | None:
    path = f"{folder}/{PARTITION_METADATA}" if folder else PARTITION_METADATA
    try:
        return parse_partition_metadata(root.read(path, limit=_LIMIT), path=path).topic_id
    except (KafkaStorageError, OSError):
        return None
