"""Facts of whole sources that the logs need: topic ids from other places than partition.metadata, tiered storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from engine.check.files.topic_id_check import METADATA_TOPIC_ID
from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.log.view import stable_offset
from engine.replay.cluster import ClusterReplay
from engine.topics.topic_names import CLUSTER_METADATA
from engine.verdict.source_evidence import evidence_of


class StatedTopicId(NamedTuple):
    """A topic id, and where it is stated, in words."""

    topic_id: str
    where: str


class KnownFacts:
    """Facts of some sources; looked for when one is asked for."""

    def __init__(self, sources: Sequence[LogSource]) -> None:
        self._sources = sources
        self._of_partitions: dict[str, str | None] = {}

    @property
    def has_tiered_storage(self) -> bool:
        """Whether a log dir has the folder that a broker with tiered storage creates in its first one."""
        return any(evidence_of(source).has_tiered_storage for source in self._sources)

    def topic_id(self, topic: str) -> StatedTopicId | None:
        """Return the id of a topic: from the metadata log, else that of most of the topic's partitions."""
        if topic == CLUSTER_METADATA:
            return StatedTopicId(METADATA_TOPIC_ID, "which it has in every cluster")
        known = self._of_cluster.get(topic)
        if known is not None:
            return StatedTopicId(known, "which the metadata log states")
        if topic not in self._of_partitions:
            self._of_partitions[topic] = self._most_common(topic)
        found = self._of_partitions[topic]
        if found is None:
            return None
        return StatedTopicId(found, "which other partitions of the topic have")

    @cached_property
    def _of_cluster(self) -> dict[str, str]:
        for source in self._sources:
            try:
                replay = ClusterReplay(source)
                if replay.exists:
                    topics = replay.image().topics
                    return {name: str(item.facts["topicId"]) for name, item in topics.items()}
            except (KafkaStorageError, OSError):
                continue
        return {}

    def _most_common(self, topic: str) -> str | None:
        found: Counter[str] = Counter()
        for source in self._sources:
            for log in source.partitions().values():
                if log.topic_partition.topic == topic:
                    stated = stable_offset.topic_id(log.context)
                    found.update([] if stated is None else [stated])
        return found.most_common(1)[0][0] if found else None
