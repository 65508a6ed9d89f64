"""Committed offsets of a deleted topic whose name another topic has now: no proof of what the new one held."""

from __future__ import annotations

from engine.recover.coordinators.group_offsets import GroupOffset
from engine.recover.metadata.cluster_metadata import ClusterMetadata
from engine.units import Timestamp

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class FormerTopics:
    """Tells the offsets of a deleted topic from those of the topic that has its name.

    A coordinator removes a deleted topic's offsets soon after, but a kill, or the loss of a log's end, leaves them.

    Args:
        metadata: the cluster.
    """

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata

    def why(self, offset: GroupOffset) -> str | None:
        """Return what shows that an offset is of a former topic: topic id, time or leader epoch; None if nothing does."""
        topic = self._metadata.topics.get(offset.partition.topic)
        if topic is None:
            return None
        if offset.topic_id not in (None, _NO_ID):
            if offset.topic_id == topic.topic_id:
                return None
            return f"it was committed for the topic id {offset.topic_id}, and now it is {topic.topic_id}"
        made = self._made(topic.name)
        if made is not None and 0 <= offset.committed < made:
            return "it was committed before the topic was made"
        image, known = self._metadata.image, topic.partitions.get(offset.partition.partition)
        if (
            image is not None
            and known is not None
            and offset.leader_epoch > known.leader_epoch >= 0
            and 0 <= offset.committed <= image.timestamp
        ):
            return f"it was committed in leader epoch {offset.leader_epoch}, and the topic had only {known.leader_epoch}"
        return None

    def _made(self, name: str) -> Timestamp | None:
        """Return when a topic was made; None if a snapshot took the place of its record."""
        image = self._metadata.image
        item = None if image is None else image.topics.get(name)
        if image is None or item is None:
            return None
        start = 0 if image.snapshot is None else image.snapshot.end_offset
        return item.timestamp if item.offset >= start else None
