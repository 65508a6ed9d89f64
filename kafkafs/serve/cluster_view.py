"""A source as clients see a cluster: its topics, their ids and leader epochs."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from operator import is_not
from threading import Lock
from time import monotonic
from typing import NamedTuple
from uuid import UUID, uuid5

from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.errors import DamagedFileError, KafkaStorageError, SourceError
from engine.files.file_names import LEADER_EPOCH_CHECKPOINT
from engine.log.partition_choice import PartitionChoice
from engine.log.partition_log import PartitionLog
from engine.log.renames import NO_RENAMES, renamed
from engine.log.view import stable_offset
from engine.replay.cluster import ClusterImage
from engine.topics.topic_names import CLUSTER_METADATA, INTERNAL_TOPICS
from engine.units import NO_PARTITION_LEADER_EPOCH, TopicPartition
from kafkafs.api.source_logs import SourceLogs

logger = logging.getLogger(__name__)

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_EPOCH_SECONDS = _IMAGE_SECONDS = 1.0
_IDS_OF = UUID("5b8f6d0e-7c1a-5e0f-9f0b-3a1c6b2d4e70")
"""The name space of derived ids: a change would give topics other ids."""
_HINT = "name a log dir that has __cluster_metadata-0, or leave out --nodes"
_NODE_WITHOUT_ID = 0


def derived_id(cluster_id: str | None, name: str) -> str:
    """Return the id of a topic without one, in base64: the same for a cluster and a name at each start.

    It is a UUID of version 5. As Kafka's ids it does not begin with "-", which looks like an option.

    >>> derived_id("lkc-1", "orders")
    'DbNj9XK6WbqEY4C6lXcu2Q'
    """
    raw = bytearray(uuid5(_IDS_OF, f"{cluster_id or ''}/{name}").bytes)
    raw[0] &= 0x7F
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


class ServedTopic(NamedTuple):
    """A topic of the source.

    Attributes:
        name: name of the topic.
        logs: the partitions by number, ascending.
        is_internal: whether it is one of Kafka's own.
    """

    name: str
    logs: Mapping[int, PartitionLog]
    is_internal: bool


class ClusterView:
    """Topics, ids, leader epochs and the broker's number; safe from several threads.

    Attributes:
        cluster_id: the cluster's id; None if no meta.properties has one.
        node_id: number of the one broker, or of the one that answers for the cluster.
        owners: node ids by the path of their log dirs.
        shows_nodes: whether clients are told of the nodes in the cluster's metadata.
        nodes: ids of the nodes whose log dirs are read as one cluster; empty for those of one node.

    Args:
        logs: the open source.
        choice: partitions to serve; by default all. The controllers' log is no topic.
        renames: new names of topics and partitions by their old ones.
        shows_nodes: show the nodes of the cluster's metadata, and all topics that it knows, in place of one broker.
            Of log dirs of several nodes they are shown in any case, if there is such metadata.

    Raises:
        SourceError: the nodes are to be shown, and the source has no metadata of the cluster.
    """

    def __init__(
        self,
        logs: SourceLogs,
        choice: PartitionChoice | None = None,
        *,
        shows_nodes: bool = False,
        only_present: bool = False,
        renames: Mapping[str, str] = NO_RENAMES,
    ) -> None:
        self.logs = logs
        self._only_present = only_present
        self.shows_nodes = shows_nodes
        self._choice = choice
        self._renames = renames
        self._lock = Lock()
        self._shown_image: ClusterImage | None = None
        self._image_seconds = -_IMAGE_SECONDS - 1
        self._seen: tuple[object, object] | None = None
        self._topics: dict[str, ServedTopic] = {}
        self._ids: dict[PartitionLog, str] = {}
        self._names: dict[str, str] = {}
        self._epochs: dict[PartitionLog, tuple[float, int]] = {}
        known = [each for each in logs.source.meta_properties if each is not None]
        self.cluster_id: str | None = known[0].cluster_id if known else None
        stated = known[0].node_id if known else None
        self.node_id: int = _NODE_WITHOUT_ID if stated is None else stated
        self.owners: Mapping[str, int] = {
            root.path: each.node_id
            for root, each in zip(logs.source.roots, logs.source.meta_properties, strict=True)
            if each is not None and each.node_id is not None
        }
        self.nodes: Sequence[int] = logs.source.nodes
        if self.nodes and not shows_nodes:
            self.shows_nodes = self._knows_nodes()
        if self.shows_nodes:
            self._choose_node()

    def _knows_nodes(self) -> bool:
        """Return whether the metadata of several nodes' log dirs has the brokers of their cluster."""
        try:
            image = self.image()
        except (KafkaStorageError, OSError) as error:
            logger.warning("the metadata of the cluster cannot be read: %s", error)
            return False
        return image is not None and bool(image.table("brokers"))

    def _choose_node(self) -> None:
        image = self.image()
        if image is None:
            raise SourceError(
                f"{', '.join(self.logs.paths)} has no metadata of the cluster, so its nodes are unknown",
                hint=_HINT,
            )
        brokers = image.table("brokers")
        if brokers and self.node_id not in brokers:
            self.node_id = min(brokers)

    def image(self) -> ClusterImage | None:
        """Return what the cluster's metadata says; None without it.

        Raises:
            OSError: it cannot be read.
        """
        replay = self.logs.state.cluster
        return replay.image() if replay.exists else None

    @property
    def shown_image(self) -> ClusterImage | None:
        """What the cluster's metadata says of nodes and topics, at most a second old; None if one broker is shown."""
        if not self.shows_nodes:
            return None
        now = monotonic()
        if now - self._image_seconds > _IMAGE_SECONDS:
            self._shown_image, self._image_seconds = self.image(), now
        return self._shown_image

    def place_of(self, log: PartitionLog) -> TopicPartition:
        """Return topic and number of a log as clients see it."""
        return renamed(log, self._renames)

    def topics(self) -> Mapping[str, ServedTopic]:
        """Return the served topics by name, sorted.

        Raises:
            OSError: the source cannot be listed.
        """
        seen = self.logs.source.partitions(), self.shown_image
        with self._lock:
            if self._seen is None or any(map(is_not, seen, self._seen)):
                self._topics = self._sorted(seen[1])
                self._seen = seen
            return self._topics

    def _sorted(self, image: ClusterImage | None) -> dict[str, ServedTopic]:
        taken: dict[str, dict[int, PartitionLog]] = {}
        for name, logs in self.logs.topics().items():
            for log in logs.values() if name != CLUSTER_METADATA else ():
                if not self._choice or self._choice.takes(log):
                    topic, number = self.place_of(log)
                    taken.setdefault(topic, {}).setdefault(number, log)
        found = {
            name: ServedTopic(name, dict(sorted(taken[name].items())), name in INTERNAL_TOPICS)
            for name in sorted(taken)
        }
        if image is None or self._choice:
            return found
        for name in image.topics:
            found.setdefault(name, ServedTopic(name, {}, name in INTERNAL_TOPICS))
        return dict(sorted(found.items()))

    def topic_id(self, topic: ServedTopic) -> str:
        """Return the id of a topic in base64: a partition.metadata's or the cluster's, else a derived one.

        Brokers before 2.8 gave topics no ids, and members of consumer groups name topics by nothing else.
        """
        first = next(iter(topic.logs.values()), None)
        if first is None:
            return self._told_id(topic) or derived_id(self.cluster_id, topic.name)
        known = self._ids.get(first)
        if known is None:
            known = stable_offset.topic_id(first.context) or self._told_id(topic)
            known = known or derived_id(self.cluster_id, topic.name)
            self._ids[first] = known
            self._names[known] = topic.name
        return known

    def _told_id(self, topic: ServedTopic) -> str | None:
        """Return the id that the cluster's metadata has; None without it."""
        try:
            image = self.image()
        except (KafkaStorageError, OSError) as error:
            logger.debug("the metadata of the cluster cannot be read: %s", error)
            return None
        item = None if image is None else image.topics.get(topic.name)
        return None if item is None else str(item.facts["topicId"])

    def topic_of_id(self, topic_id: str) -> ServedTopic | None:
        """Return the topic with an id; None without one."""
        if topic_id == NO_TOPIC_ID:
            return None
        topics = self.topics()
        found = topics.get(self._names.get(topic_id, ""))
        if found is not None and self.topic_id(found) == topic_id:
            return found
        return next((each for each in topics.values() if self.topic_id(each) == topic_id), None)

    def missing(self, topic: ServedTopic) -> list[int]:
        """Return the partitions that a topic has, but not here: by the cluster's metadata, else gaps in the numbers.

        A client that is told nothing of such a partition asks for it again and again, if it has a reason to. None with
        `only_present`.
        """
        if self._only_present:
            return []
        try:
            image = self.image()
        except (KafkaStorageError, OSError) as error:
            logger.debug("the metadata of the cluster cannot be read: %s", error)
            image = None
        item = None if image is None else image.topics.get(topic.name)
        if image is None or item is None:
            known: Iterable[int] = range(max(topic.logs, default=0))
        else:
            known = image.partitions_of(item.facts["topicId"])
        return sorted(set(known) - topic.logs.keys())

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log of a partition; None if the source does not have it, or does not serve it."""
        found = self.topics().get(topic)
        return None if found is None else found.logs.get(partition)

    def leader_epoch(self, log: PartitionLog) -> int:
        """Return the newest leader epoch of a log's checkpoint; -1 without one."""
        if log.is_cut:
            latest = log.view().leader_epochs.latest
            return NO_PARTITION_LEADER_EPOCH if latest is None else latest.epoch
        known, now = self._epochs.get(log), monotonic()
        if known is not None and now - known[0] < _EPOCH_SECONDS:
            return known[1]
        name = LEADER_EPOCH_CHECKPOINT
        try:
            entries = parse_leader_epochs(log.context.read_side_file(name), path=name)
        except (DamagedFileError, OSError):
            entries = []
        epoch = max((entry.epoch for entry in entries), default=NO_PARTITION_LEADER_EPOCH)
        self._epochs[log] = now, epoch
        return epoch
