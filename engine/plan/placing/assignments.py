"""Topics and replicas of the cluster, as far as the metadata log in the log dirs states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.files.file_names import FolderState
from engine.plan.log_dir_plan import LogFolder
from engine.replay.cluster import ClusterImage
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class Assignments:
    """The cluster's assignment of partitions to one broker and its log dirs.

    Attributes:
        cluster: the cluster's metadata; None if the log dirs have no complete metadata log.
        node_id: node id of the broker; None if unknown.
        directory_ids: directory ids by the paths of the log dirs.
        are_enforced: whether the broker's version sets aside stray logs, and promotes future logs, at its start.
    """

    cluster: ClusterImage | None = None
    node_id: int | None = None
    directory_ids: Mapping[str, str] = field(default_factory=dict)
    are_enforced: bool = True

    def why_stray(self, folder: LogFolder, topic_id: str | None) -> str | None:
        """Return why the broker sets a log aside as stray; None if it does not."""
        if self.cluster is None or self.node_id is None or not self.are_enforced:
            return None
        if folder.state in (FolderState.DELETE, FolderState.STRAY):
            return None
        if folder.partition.topic == CLUSTER_METADATA:
            return None
        if topic_id is None:
            return "it is stray: it has no topic id"
        if self.cluster.topic_name(topic_id) is None:
            return f"it is stray: the cluster has no topic with the id {topic_id}"
        item = self.cluster.partitions_of(topic_id).get(folder.partition.partition)
        replicas = [] if item is None else item.facts.get("replicas", [])
        if self.node_id not in replicas:
            return f"it is stray: its replicas are {replicas}, and this is node {self.node_id}"
        return None

    def why_unserved(self, folder: LogFolder, topic_id: str | None) -> str | None:
        """Return why the broker fails to serve a log that it loads; None if it serves it."""
        topic = folder.partition.topic
        if self.cluster is None or topic_id is None or self.cluster.topic_name(topic_id) == topic:
            return None
        known = self.cluster.topics.get(topic)
        if known is None:
            return None
        item = self.cluster.partitions_of(known.facts["topicId"]).get(folder.partition.partition)
        if item is None or self.node_id not in item.facts["replicas"]:
            return None
        return (
            f"{folder.name} has the topic id {topic_id}, and {topic} has {known.facts['topicId']}: the broker starts,"
            " but fails to serve it"
        )

    def include(self, log_dir: str, topic_id: str | None, partition: TopicPartition) -> bool:
        """Return whether the cluster assigns a partition to a log dir of this broker."""
        directory_id = self.directory_ids.get(log_dir)
        if self.cluster is None or topic_id is None or directory_id is None:
            return False
        item = self.cluster.partitions_of(topic_id).get(partition.partition)
        if item is None:
            return False
        assigned = dict(zip(item.facts["replicas"], item.facts["directories"], strict=False))
        return bool(assigned.get(self.node_id) == directory_id)

    def config_of(self, topic: str, default: LogConfig | None) -> LogConfig | None:
        """Return the configuration of a topic; `default` if the cluster's metadata does not have it.

        The metadata log always has Kafka's defaults.
        """
        if topic == CLUSTER_METADATA:
            return None
        facts = None if self.cluster is None else self.cluster.topic_facts(topic)
        if not facts or not facts["configs"]:
            return default
        try:
            return LogConfig.from_properties(facts["configs"])
        except ValueError:
            return default
