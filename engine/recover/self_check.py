"""Check a recovered cluster before it gets its name: as a broker's start, an election and a reader would find it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from engine.errors import KafkaStorageError
from engine.log.log_directory import open_source
from engine.plan.loading.broker_versions import broker_version
from engine.plan.start_plan import StartPlan
from engine.rebuild.errors import RebuildFailedError
from engine.recover.election import NO_LEADER, UNCLEAN, elects_eligible, other_leaders
from engine.recover.evidence import OffsetClass
from engine.recover.planning import PlannedPartition, RecoveryPlan
from engine.replay.cluster import ClusterImage, ClusterReplay


def check_recovered(target: str, plan: RecoveryPlan, kafka_version: str) -> None:
    """Check the log dirs of all nodes.

    Raises:
        RebuildFailedError: a broker would lose something, another leader could be elected, a number was seen before, or
            committed offsets cannot be read.
    """
    wrong = next(_problems(target, plan, kafka_version), None)
    if wrong is not None:
        raise RebuildFailedError(f"the self-check failed: {wrong}")


def _problems(target: str, plan: RecoveryPlan, kafka_version: str) -> Iterator[str]:
    for node in plan.cluster.nodes:
        folder = os.path.join(target, f"node-{node.id}")
        paths = [os.path.join(folder, name) for name in node.log_dirs]
        yield from _start_problems(paths, plan, kafka_version)
        if node.is_controller:
            yield from _metadata_problems(paths[0], plan)
    yield from _log_problems(target, plan)


def _start_problems(paths: list[str], plan: RecoveryPlan, kafka_version: str) -> Iterator[str]:
    """Yield what a start of a node would lose."""
    empty = {each.partition for each in plan.partitions.values() if not each.has_log}
    try:
        with StartPlan(paths, broker_version(kafka_version), clean=None, verifies=False) as start:
            for _, log in start.logs():
                if not log.is_harmless:
                    yield f"a start would change {log.folder}: {log.reason or '; '.join(log.notes)}"
            if not start.starts:
                yield f"node {start.node_id} would not start: {start.verdict()[1]}"
            for lost in start.lost_folders:
                if lost.missing.partition not in empty:
                    yield f"the folder of {lost.missing.partition} is missing"
    except KafkaStorageError as error:
        yield str(error)


def _metadata_problems(log_dir: str, plan: RecoveryPlan) -> Iterator[str]:
    """Yield what is wrong in the metadata that a controller reads."""
    source = open_source(log_dir)
    try:
        image = ClusterReplay(source).image()
    finally:
        source.close()
    given = image.table("quorum").get("producerIds")
    largest = max((each.survey.largest_producer_id for each in plan.partitions.values()), default=0)
    if given is None or given.facts["nextProducerId"] <= largest:
        yield f"the next producer id is not above {largest}, which a batch has"
    for planned in plan.partitions.values():
        yield from _partition_problems(image, planned)
    yield from _election_problems(image, plan)


def _partition_problems(image: ClusterImage, planned: PlannedPartition) -> Iterator[str]:
    name, number = planned.partition
    topic = image.topics.get(name)
    if topic is None or topic.facts["topicId"] != planned.topic_id:
        yield f"the metadata has another topic id of {name}"
        return
    known = image.partitions_of(planned.topic_id).get(number)
    if known is None:
        yield f"the metadata does not have {planned.partition}"
        return
    leader = planned.places[0].node
    if known.facts["leader"] != leader or list(known.facts["isr"]) != [leader]:
        yield f"node {leader} does not lead {planned.partition}"
    if known.facts["leaderEpoch"] <= planned.survey.largest_epoch:
        yield (
            f"the leader epoch of {planned.partition} is {known.facts['leaderEpoch']}, and a copy"
            f" has seen {planned.survey.largest_epoch}"
        )


def _election_problems(image: ClusterImage, plan: RecoveryPlan) -> Iterator[str]:
    """Yield the partitions that nobody, or another one than the chosen leader, would lead.

    In a topic with unclean elections any replica may: all have the same log.
    """
    levels = {row.facts["name"]: row.facts["level"] for row in image.table("features").values()}
    metadata = plan.cluster.metadata
    found = other_leaders(metadata, plan.placements, has_elr=elects_eligible(levels))
    for placement, leaders in found:
        configs = {**metadata.broker_defaults(), **metadata.topics[placement.topic].configs}
        if NO_LEADER in leaders or configs.get(UNCLEAN) != "true":
            name = f"{placement.topic}-{placement.partition}"
            yield f"{name} may be led by {sorted(leaders)}, not by node {placement.leader}"


def _log_problems(target: str, plan: RecoveryPlan) -> Iterator[str]:
    """Yield the committed offsets that no reader of the new logs gets."""
    for planned in plan.partitions.values():
        if not planned.has_log:
            continue
        path = os.path.join(target, planned.places[0].folder, str(planned.partition))
        source = open_source(path)
        try:
            view = next(iter(source.partitions().values())).view()
            start, end = view.log_start_offset, view.log_end_offset
        finally:
            source.close()
        for found in planned.classes:
            is_kept = found.kind is not OffsetClass.LOST
            if is_kept and not (start <= found.first and found.next <= end):
                yield (
                    f"{planned.partition} has the offsets {start} to {end}, but {found.first} to"
                    f" {found.next} are {found.kind.value}"
                )
