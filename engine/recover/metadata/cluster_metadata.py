"""What is known of a dead cluster: topics, settings, users, from its metadata logs or from its partitions' folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from engine.log.log_directory import LogSource, open_source
from engine.plan.planned_cluster import voters_in
from engine.recover.errors import RecoverRefusedError
from engine.recover.metadata.bootstrap import bootstrap_of
from engine.recover.metadata.copies import MetadataCopies
from engine.recover.metadata.folders import FoundTopics, found_topics, live_ids
from engine.replay.cluster import ClusterImage
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT64, Offset

_LEGAL = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


class KnownPartition(NamedTuple):
    """A partition, as the metadata states it; found in folders alone, only its replicas are known.

    Attributes:
        replicas, isr: old node ids.
        leader: old node id, -1 for none.
        leader_epoch, partition_epoch: -1 if unknown.
        elr, last_known_elr: eligible leader replicas.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...] = ()
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True)
class TopicMetadata:
    """A topic: partitions by number, and its own configuration."""

    name: str
    topic_id: str
    partitions: Mapping[int, KnownPartition]
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterMetadata:
    """What is known of a cluster.

    Attributes:
        cluster_id: None if no log dir states it.
        image: the cluster's tables; None without a metadata log.
        origin: where it is from, for people.
        end: leader epoch and end offset of the newest metadata log; (-1, 0) without one.
        highest: largest leader epoch and largest offset of all copies: new snapshots lie above both.
        committed: what lies below is committed in the metadata log; None if that is not known.
        topics: by name.
        credentials: SCRAM credentials by user and mechanism; they are secrets.
        formatted: levels of features at the format, for a cluster without image.
        unknown: sentences about what could not be found out.
    """

    cluster_id: str | None
    image: ClusterImage | None
    origin: str
    end: tuple[int, Offset] = (-1, 0)
    highest: tuple[int, Offset] = (-1, 0)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    credentials: Mapping[tuple[str, int], Mapping[str, Any]] = field(
        default_factory=dict, repr=False
    )
    formatted: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    committed: Offset | None = None

    def registered_broker(self, number: int) -> Mapping[str, Any] | None:
        """Return the registration of a broker; None if it is not registered."""
        item = None if self.image is None else self.image.table("brokers").get(number)
        return None if item is None else item.facts

    def registered_controller(self, number: int) -> Sequence[Mapping[str, Any]] | None:
        """Return the endpoints of a controller; empty if they are not known, None if the node is none."""
        if self.image is None:
            return None
        voters = self.image.table("quorum").get("voters")
        for voter in () if voters is None else voters.facts["voters"]:
            if voter["voterId"] == number and voter.get("endpoints"):
                return list(voter["endpoints"])
        item = self.image.table("controllers").get(number)
        if item is not None:
            return list(item.facts["endPoints"])
        return [] if number in (voters_in(self.image) or ()) else None

    def broker_defaults(self) -> dict[str, str]:
        """Return the settings that all brokers have by default."""
        item = None if self.image is None else self.image.table("configs").get(("broker", ""))
        return {} if item is None else dict(item.facts["configs"])

    def feature_levels(self) -> dict[str, int]:
        """Return the levels of the cluster's features by name, as far as they are known."""
        if self.image is None:
            return dict(self.formatted)
        rows = self.image.table("features").values()
        return {row.facts["name"]: row.facts["level"] for row in rows}


def newest_metadata(
    sources: Sequence[LogSource], chosen: str | None = None, until: Offset | None = None
) -> ClusterMetadata:
    """Return the newest metadata among all copies in the sources; that of the folders if there is no copy.

    Holes and damage of the newest copy are filled from the others. Unfinished metadata transactions are left out.
    Topics that only folders name are added, unless the metadata removed them.

    Args:
        chosen: a log dir whose copy alone counts.
        until: take the metadata as it was at this end of its log: other topics did not exist.

    Raises:
        RecoverRefusedError: the sources are of several clusters, or `chosen` has no metadata log.
        SourceError: `chosen` cannot be opened.
    """
    cluster_id = one_cluster(sources)
    if chosen is None:
        return _newest(cluster_id, sources, sources, until)
    source = open_source(chosen)
    try:
        one_cluster([*sources, source])
        if not MetadataCopies.logs_in([source]):
            raise RecoverRefusedError(
                f"{chosen} has no {CLUSTER_METADATA}-0",
                "name a log dir that has it, or take --metadata folders",
            )
        return _newest(cluster_id or one_cluster([source]), sources, [source], until)
    finally:
        source.close()


def _newest(
    cluster_id: str | None,
    sources: Sequence[LogSource],
    of: Sequence[LogSource],
    until: Offset | None,
) -> ClusterMetadata:
    # A copy that is asked for counts as it is.
    copies = MetadataCopies(
        of,
        live=partial(live_ids, sources) if of is sources else None,
        until=MAX_INT64 if until is None else until,
    )
    if copies.image is None:
        found = metadata_from_folders(sources)
        return replace(found, unknown=(*copies.problems, *found.unknown), highest=copies.highest)
    image = copies.image
    topics = {name: _topic_of(image, name) for name in image.topics if _LEGAL.fullmatch(name)}
    illegal = [
        f"the topic {name[:100]!a} is left out: no client can have made a topic of that name"
        for name in image.topics
        if name not in topics
    ]
    only_found: Mapping[str, TopicMetadata] = {}
    sentences: Sequence[str] = ()
    if until is None:
        only_found, sentences = _only_in_folders(found_topics(sources), topics, copies.removed)
    return ClusterMetadata(
        cluster_id,
        image,
        copies.origin,
        copies.end,
        copies.highest,
        dict(sorted({**topics, **only_found}.items())),
        copies.credentials,
        unknown=(*copies.problems, *illegal, *sentences),
        committed=copies.committed,
    )


def metadata_from_folders(sources: Sequence[LogSource]) -> ClusterMetadata:
    """Return what the folders of the partitions state of a cluster: topics, ids and partitions.

    Raises:
        RecoverRefusedError: the sources are of several clusters.
    """
    found = found_topics(sources)
    copies = MetadataCopies(sources, reads=False)
    formatted = bootstrap_of(sources)
    unknown = [
        "settings of topics and brokers, ACLs, users, quotas and delegation tokens: no metadata log states them"
    ]
    if formatted.features:
        unknown.append("levels of features and users: those of the format are taken")
    else:
        unknown.append("levels of features: those of a new cluster are taken")
    return ClusterMetadata(
        one_cluster(sources),
        None,
        "the partitions' folders",
        highest=copies.highest,
        topics=_from_folders(found),
        credentials=formatted.credentials,
        formatted=formatted.features,
        unknown=(*unknown, *found.unknown),
    )


def one_cluster(sources: Iterable[LogSource]) -> str | None:
    """Return the cluster id of all log dirs; None if none states one. Raises RecoverRefusedError if they differ."""
    known: dict[str, str] = {}
    for source in sources:
        for root, properties in zip(source.roots, source.meta_properties, strict=True):
            if properties is not None and properties.cluster_id is not None:
                known.setdefault(properties.cluster_id, root.path)
    if len(known) > 1:
        (mine, path), (other, other_path) = list(known.items())[:2]
        raise RecoverRefusedError(
            f"{other_path} is of the cluster {other}, but {path} of the cluster {mine}",
            "name only log dirs of one cluster",
        )
    return next(iter(known), None)


def _topic_of(image: ClusterImage, name: str) -> TopicMetadata:
    topic_id = image.topics[name].facts["topicId"]
    rows = image.partitions_of(topic_id)
    configs = image.table("configs").get(("topic", name))
    return TopicMetadata(
        name,
        topic_id,
        {number: _partition_of(rows[number].facts) for number in sorted(rows)},
        {} if configs is None else dict(configs.facts["configs"]),
    )


def _partition_of(facts: Mapping[str, Any]) -> KnownPartition:
    return KnownPartition(
        tuple(facts["replicas"]),
        tuple(facts["isr"]),
        facts["leader"],
        facts["leaderEpoch"],
        facts["partitionEpoch"],
        tuple(facts["eligibleLeaderReplicas"]),
        tuple(facts["lastKnownElr"]),
    )


def _from_folders(found: FoundTopics) -> dict[str, TopicMetadata]:
    return {
        name: TopicMetadata(
            name,
            each.topic_id,
            {number: KnownPartition(nodes) for number, nodes in each.replicas.items()},
            each.configs,
        )
        for name, each in sorted(found.topics.items())
    }


def _only_in_folders(
    found: FoundTopics, topics: Mapping[str, TopicMetadata], removed: Mapping[str, str]
) -> tuple[dict[str, TopicMetadata], list[str]]:
    """Return the topics that are in folders only, or with more partitions there, and sentences about them."""
    known = {topic.topic_id: topic for topic in topics.values()}
    added: dict[str, TopicMetadata] = {}
    sentences: list[str] = []
    for name, topic in _from_folders(found).items():
        mine = known.get(topic.topic_id)
        if mine is None and found.topics[name].is_id_made:
            mine = topics.get(name)
        if mine is not None:
            more = {
                number: row
                for number, row in topic.partitions.items()
                if number not in mine.partitions and row.replicas
            }
            if more:
                rows = {**mine.partitions, **more}
                whole = {
                    number: rows.get(number, KnownPartition(())) for number in range(max(rows) + 1)
                }
                added[mine.name] = replace(mine, partitions=whole)
                numbers = ", ".join(map(str, list(more)[:5]))
                sentences.append(
                    f"{len(more)} of the partitions of {mine.name} are in no metadata, only in folders ({numbers})"
                )
        elif topic.topic_id in removed:
            sentences.append(
                f"the folders of {name} are of the topic id {topic.topic_id}, which was deleted: they are left out"
            )
        elif name in topics:
            sentences.append(
                f"the folders of {name} are of the topic id {topic.topic_id}, but the metadata has"
                f" {topics[name].topic_id}: they are left out"
            )
        else:
            added[name] = topic
            sentences.append(
                f"{name} is in no metadata, only in folders: its settings and further partitions are not known"
            )
    sentences += [
        f"the metadata has no partition of the topic {topic.name}"
        for topic in topics.values()
        if not topic.partitions and topic.name not in added
    ]
    return added, sentences
