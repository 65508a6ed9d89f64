"""Facts about a source that the verdict on each of its logs needs: policies of topics, tiered storage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from engine.files.file_names import REMOTE_INDEX_CACHE_FOLDER
from engine.log.log_directory import LogSource
from engine.log.log_view import LogView
from engine.log.partition_log import PartitionLog
from engine.units import TopicPartition

if TYPE_CHECKING:
    from engine.replay.cluster import ClusterImage

_REMOTE = "remote.storage.enable"


class SourceEvidence:
    """Facts about a source; each is worked out at its first use.

    Attributes:
        absent_partitions: the listing that was looked at and the partitions without a folder; None before the first look.
    """

    def __init__(self, source: LogSource) -> None:
        self._source_roots = [root for root in source.log_dirs if root is not None]
        self.absent_partitions: tuple[object, Sequence[object]] | None = None
        self._source = source
        self._logs: tuple[object, dict[TopicPartition, list[PartitionLog]]] | None = None

    @cached_property
    def image(self) -> ClusterImage | None:
        """The cluster in the source's own metadata; None without any."""
        # Imported here because a source without metadata is read without the replay.
        from engine.verdict.cleanup_policies import cluster_image

        return cluster_image(self._source)

    def policy_of(self, topic: str) -> frozenset[str] | None:
        """Return a topic's cleanup.policy by the source's own metadata; None if unknown."""
        from engine.verdict.cleanup_policies import policy_in

        return None if self.image is None else policy_in(self.image, topic)

    def is_tiered(self, topic: str) -> bool | None:
        """Return whether the metadata has a topic's segments copied to tiered storage; None if unknown."""
        if self.image is None or topic not in self.image.topics:
            return None
        configs = self.image.table("configs").get(("topic", topic))
        return configs is not None and configs.facts["configs"].get(_REMOTE) == "true"

    def other_replicas(self, partition: TopicPartition) -> list[int]:
        """Return the nodes to which the metadata assigns a partition, without those of the source."""
        item = None if self.image is None else self.image.topics.get(partition.topic)
        if self.image is None or item is None:
            return []
        row = self.image.partitions_of(item.facts["topicId"]).get(partition.partition)
        here = {meta.node_id for meta in self._source.meta_properties if meta is not None}
        return [] if row is None else [each for each in row.facts["replicas"] if each not in here]

    def logs_of(self, partition: TopicPartition) -> list[PartitionLog]:
        """Return all logs of a partition in the source, also those in folders that a broker set aside."""
        logs = self._source.partitions()
        known = self._logs
        if known is None or known[0] is not logs:
            by_partition: dict[TopicPartition, list[PartitionLog]] = {}
            for log in logs.values():
                by_partition.setdefault(log.topic_partition, []).append(log)
            known = self._logs = logs, by_partition
        return known[1].get(partition, [])

    @cached_property
    def has_tiered_storage(self) -> bool:
        """Whether a log dir has the folder that a broker with tiered storage creates in its first one."""
        try:
            return any(
                entry.name == REMOTE_INDEX_CACHE_FOLDER
                for root in self._source_roots
                for entry in root.list()
            )
        except OSError:
            return False


def evidence_of(source: LogSource) -> SourceEvidence:
    """Return the facts about a source, which keeps them."""
    known = source.facts
    if not isinstance(known, SourceEvidence):
        known = source.facts = SourceEvidence(source)
    return known


def source_of(view: LogView) -> LogSource | None:
    """Return the source of a view; None for one that was made without a source."""
    source = view.log.source
    return source if isinstance(source, LogSource) else None
