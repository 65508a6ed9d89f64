"""Facts about a source that the verdict on each of its logs needs: policies of topics, tiered storage."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from engine.files.file_names import REMOTE_INDEX_CACHE_FOLDER
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.units import TopicPartition

if TYPE_CHECKING:
    from engine.replay.cluster import ClusterImage

_Made = TypeVar("_Made")

_REMOTE = "remote.storage.enable"


class SourceEvidence:
    """Facts about a source; each is worked out at its first use."""

    def __init__(self, source: LogSource) -> None:
        self._source_roots = [root for root in source.log_dirs if root is not None]
        self._source = source
        self._made: dict[Callable[..., object], tuple[object, Any]] = {}

    def of_listing(self, make: Callable[[LogSource], _Made]) -> _Made:
        """Return what a function makes of the source; it is made anew once the listing of the partitions is another."""
        logs = self._source.partitions()
        known = self._made.get(make)
        if known is None or known[0] is not logs:
            known = self._made[make] = logs, make(self._source)
        found: _Made = known[1]
        return found

    @property
    def image(self) -> ClusterImage | None:
        """The cluster in the source's own metadata, as it was read last; None without any."""
        # Imported here because a source without metadata is read without the replay.
        from engine.verdict.gap_causes.cleanup_policies import cluster_image

        known = self._made.get(cluster_image)
        return self.of_listing(cluster_image) if known is None else known[1]

    def policy_of(self, topic: str) -> frozenset[str] | None:
        """Return a topic's cleanup.policy by the source's own metadata; None if unknown."""
        from engine.verdict.gap_causes.cleanup_policies import policy_in

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
        return self.of_listing(_by_partition).get(partition, [])

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


def _by_partition(source: LogSource) -> dict[TopicPartition, list[PartitionLog]]:
    found: dict[TopicPartition, list[PartitionLog]] = {}
    for log in source.partitions().values():
        found.setdefault(log.topic_partition, []).append(log)
    return found


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
