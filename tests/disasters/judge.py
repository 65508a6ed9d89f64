"""Judge the plan of a recovery by what clients of a model were told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.log.log_directory import open_source
from engine.log.partition_choice import ALL_PARTITIONS
from engine.log.view.transactions import TransactionState, events
from engine.rebuild.assembly.pieces import Piece
from engine.rebuild.beside.known_facts import KnownFacts
from engine.record.fate import Fate
from engine.recover.coordinators.coordinator_log import coordinator_records
from engine.recover.coordinators.group_offsets import GroupState
from engine.recover.evidence import OffsetClass
from engine.recover.metadata.cluster_metadata import (
    ClusterMetadata,
    KnownPartition as KnownPartition,
    TopicMetadata,
)
from engine.recover.nodes import ClusterNode
from engine.recover.options import RecoverOptions
from engine.recover.partitions.copies import copies_of
from engine.recover.partitions.saved_pieces import CopyFiles
from engine.recover.partitions.survey import readable, survey
from engine.recover.planning import RecoveryPlan, plan_recovery
from engine.recover.reading import ClusterSurvey
from engine.replay.cluster import ClusterImage
from engine.replay.partition_records import ReplayedRecord
from engine.units import TopicPartition
from tests.disasters.model import ALL, DATA, GROUPS, NODES, TOPIC_IDS, Model


def problems(model: Model, folder: Path, *, no_power_loss: bool = False) -> list[str]:
    """Write the disks of a model, plan their recovery, and return what is wrong with it."""
    held = {
        (partition, entry.offset, entry.value)
        for partition, part in model.partitions.items()
        for replica in part.replicas.values()
        for entry in replica.entries
    }
    sources = [open_source(path) for path in model.write(folder)]
    try:
        found = copies_of(sources, TOPIC_IDS, ALL_PARTITIONS)
        facts = KnownFacts(sources)
        surveys = {
            name: survey(name, copies, facts, lambda *_: None)
            for name, copies in found.copies.items()
        }
        nodes = [ClusterNode(node, listeners={}) for node in NODES]
        cluster = ClusterSurvey(
            sources, _metadata(model), nodes, found, surveys, dict.fromkeys(NODES, 100)
        )
        plan = plan_recovery(cluster, RecoverOptions(no_power_loss=no_power_loss), 1)
        return list(_problems(model, plan, held))
    finally:
        for source in sources:
            source.close()


def _metadata(model: Model) -> ClusterMetadata:
    topics: dict[str, dict[int, KnownPartition]] = {}
    for partition in ALL:
        part = model.partitions[partition]
        topics.setdefault(partition.topic, {})[partition.partition] = KnownPartition(
            NODES, tuple(sorted(part.isr)), part.leader, part.epoch, 1
        )
    known = {
        name: TopicMetadata(name, TOPIC_IDS[name], numbers) for name, numbers in topics.items()
    }
    image = ClusterImage(
        snapshot=None,
        next_offset=100,
        newest_offset=99,
        timestamp=0,
        tables={},
        partitions={},
        waiting=None,
        notes=(),
        unreadable=(),
        missing=None,
    )
    return ClusterMetadata("c", image, "the model", end=(1, 100), topics=known)


def _problems(
    model: Model, plan: RecoveryPlan, held: set[tuple[TopicPartition, int, bytes | None]]
) -> Iterator[str]:
    logs: dict[TopicPartition, Mapping[int, bytes | None]] = {}
    fates: dict[bytes, Fate] = {}
    for partition, planned in plan.partitions.items():
        pieces = _pieces(plan, partition)
        logs[partition] = {
            record.offset: record.value
            for record in coordinator_records(pieces, str(partition))
            if isinstance(record, ReplayedRecord)
        }
        yield from _transaction_problems(partition, pieces, fates, logs[partition])
        epochs = [piece.epoch for piece in pieces]
        if epochs != sorted(epochs) or (epochs and planned.leader_epoch < epochs[-1]):
            yield f"{partition}: the leader epochs are {epochs}, then {planned.leader_epoch}"
    for partition in DATA:
        part, log, planned = (
            model.partitions[partition],
            logs[partition],
            plan.partitions[partition],
        )
        lost = [each for each in planned.classes if each.kind is OffsetClass.NOT_ACKNOWLEDGED]
        for offset, value in part.acknowledged.items():
            is_held = (partition, offset, value) in held
            if is_held and log.get(offset) != value:
                yield f"{partition}: the acknowledged record at {offset} is lost"
            if is_held and any(each.first <= offset < each.next for each in lost):
                yield f"{partition}: {offset} was acknowledged, and is said not to be"
        for offset, value in part.overwritten.items():
            yield from _aside_problem(plan, partition, offset, value, held, log)
    yield from _group_problems(plan)
    yield from _torn(model, fates)


def _aside_problem(
    plan: RecoveryPlan,
    partition: TopicPartition,
    offset: int,
    value: bytes,
    held: set[tuple[TopicPartition, int, bytes | None]],
    log: Mapping[int, bytes | None],
) -> Iterator[str]:
    """Yield whether an acknowledged record that lost an unclean election is neither in the log nor set aside."""
    tails = plan.partitions[partition].survey.aside
    is_aside = any(each.first_offset <= offset < each.next_offset for each in tails)
    if (partition, offset, value) in held and log.get(offset) != value and not is_aside:
        yield f"{partition}: the overwritten record at {offset} is not set aside"


def _pieces(plan: RecoveryPlan, partition: TopicPartition) -> list[Piece]:
    planned = plan.partitions[partition]
    copies = readable(plan.cluster.found.copies[partition])
    files = CopyFiles([copy.log for copy in copies])
    return files.restored(planned.survey.pieces) + planned.appended


def _transaction_problems(
    partition: TopicPartition,
    pieces: list[Piece],
    fates: dict[bytes, Fate],
    log: Mapping[int, bytes | None],
) -> Iterator[str]:
    """Note the fate of each transactional value of a partition; yield the transactions that stay open."""
    state = TransactionState()
    waiting: dict[int, list[bytes]] = {}
    for piece in pieces:
        for run in piece.runs():
            state.apply(run)
            for event in events(run):
                if event.ended is None:
                    waiting.setdefault(event.producer_id, []).append(
                        log.get(event.base_offset) or b""
                    )
                    continue
                for value in waiting.pop(event.producer_id, []):
                    fates[value] = event.ended
    if state.ongoing:
        yield f"{partition}: transactions stay open: {state.ongoing}"


def _torn(model: Model, fates: Mapping[bytes, Fate]) -> Iterator[str]:
    for each in model.transactions:
        found = {fates[value] for value in each.values if value in fates}
        if len(found) > 1:
            yield f"a transaction is torn: {[(v, fates.get(v)) for v in each.values]}"
        if each.answer is False and Fate.COMMITTED in found:
            yield f"an aborted transaction is committed: {list(each.values)}"
        if each.answer is None and Fate.COMMITTED in found:
            yield f"a transaction that nobody committed is committed: {list(each.values)}"


def _group_problems(plan: RecoveryPlan) -> Iterator[str]:
    planned = plan.partitions[GROUPS]
    state = GroupState(_pieces(plan, GROUPS), str(planned.partition), {})
    for each in state.offsets():
        if each.offset > plan.partitions[each.partition].end:
            yield f"the group has {each.offset}, past the end of {each.partition}"
