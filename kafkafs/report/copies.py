"""Several copies of a partition side by side, and several brokers: only if the source has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.check.replicas.replica_comparison import ReplicaComparison
from engine.check.replicas.replica_pair import ReplicaPair
from engine.check.rules.finding import Finding
from engine.errors import KafkaStorageError
from engine.files.file_names import FolderState
from engine.files.read_failures import reason_of
from engine.log.leftover_logs import state_of
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.replay.chosen_copies import told_of
from engine.replay.cluster import ClusterReplay
from engine.replicas.choice import choose
from engine.replicas.copies import Replica, replicas_of
from engine.units import Offset, TopicPartition
from kafkafs.report.partition_facts import PartitionFacts

MOST_COMPARED = 1000
"""Pairs of copies whose batches are compared."""


class Copy(NamedTuple):
    """One copy of a partition.

    Attributes:
        name: its name in the source.
        node: number of the broker; None if its log dir does not state it.
        log_dir: path of its log dir.
        last_epoch: its newest leader epoch; None without one.
        facts: what was read of it.
    """

    name: str
    node: int | None
    log_dir: str
    last_epoch: int | None
    facts: PartitionFacts


@dataclass(slots=True)
class Copies:
    """The copies of a partition.

    Attributes:
        place: the partition.
        copies: the first one is the log that the source shows under the partition's own name.
        differences: where each other copy and the first one differ, by the name of the other one.
        not_compared: why a copy was not compared, by its name.
        reason: which copy readers of the cluster get, and why; "" for copies of one broker.
    """

    place: TopicPartition
    copies: list[Copy]
    reason: str = ""
    differences: dict[str, list[Finding]] = field(default_factory=dict)
    not_compared: dict[str, str] = field(default_factory=dict)

    @property
    def is_behind(self) -> bool:
        """Whether the copies end at different offsets."""
        ends: set[Offset] = {each.facts.log_end for each in self.copies}
        return len(ends) > 1


@dataclass(slots=True)
class BrokerSums:
    """The log dirs of one broker.

    Attributes:
        node: its number.
        log_dirs: their paths.
        partitions, size, records: sums; size in bytes.
        found: number of findings by severity.
    """

    node: int | None
    log_dirs: list[str] = field(default_factory=list)
    partitions: int = 0
    size: int = 0
    records: int = 0
    found: Counter[str] = field(default_factory=Counter)


def brokers_of(source: LogSource, partitions: list[PartitionFacts]) -> list[BrokerSums]:
    """Return the brokers of a source by number; [] if there is only one."""
    nodes = nodes_of(source)
    if len(set(nodes.values())) < 2:
        return []
    found: dict[int | None, BrokerSums] = {}
    for path, node in nodes.items():
        found.setdefault(node, BrokerSums(node)).log_dirs.append(path)
    logs = source.partitions()
    for each in partitions:
        log = logs.get(each.name)
        if log is not None and log.root.path in nodes:
            broker = found[nodes[log.root.path]]
            broker.partitions += 1
            broker.size += each.size
            broker.records += each.records
            broker.found.update(each.found)
    return [found[node] for node in sorted(found, key=lambda each: (each is None, each))]


def nodes_of(source: LogSource) -> dict[str, int | None]:
    """Return the number of the broker by the path of its log dir."""
    pairs = zip(source.roots, source.meta_properties, strict=True)
    return {root.path: None if meta is None else meta.node_id for root, meta in pairs}


def copies_of(
    source: LogSource, partitions: list[PartitionFacts], advance: Callable[[int], None]
) -> Iterator[Copies]:
    """Yield the partitions with several copies; the batches of each pair are read once more.

    Args:
        source: the logs.
        partitions: what was read of them.
        advance: called with numbers of bytes read.
    """
    logs, nodes = source.partitions(), nodes_of(source)
    by_place: dict[TopicPartition, list[PartitionFacts]] = {}
    for each in partitions:
        log = logs.get(each.name)
        if log is not None and state_of(log) is FolderState.LOG:
            by_place.setdefault(each.place, []).append(each)
    replicas, cluster = replicas_of([source]), ClusterReplay(source)
    left = MOST_COMPARED
    for place in sorted(place for place, found in by_place.items() if len(found) > 1):
        facts = sorted(by_place[place], key=lambda each: (each.name != str(place), each.name))
        found = Copies(place, [_copy(each, logs, nodes) for each in facts])
        found.reason = _reason(replicas.get(place, []), cluster)
        for other in found.copies[1:]:
            if left <= 0:
                found.not_compared[other.name] = f"only {MOST_COMPARED:,} pairs are compared"
                continue
            left -= 1
            _compare(found, logs[found.copies[0].name], logs[other.name], advance)
        yield found


def _copy(
    facts: PartitionFacts, logs: Mapping[str, PartitionLog], nodes: Mapping[str, int | None]
) -> Copy:
    log = logs[facts.name]
    view = log.view_or_none()
    epochs = [] if view is None else view.leader_epochs.entries
    last = epochs[-1].epoch if epochs else None
    return Copy(facts.name, nodes.get(log.root.path), log.root.path, last, facts)


def _reason(replicas: Sequence[Replica], cluster: ClusterReplay) -> str:
    """Return why a reader of the cluster gets the copy that it gets; "" if the copies are of one node."""
    if len({replica.node_id for replica in replicas}) < 2:
        return ""
    with suppress(OSError):
        facts = [replica.facts() for replica in replicas]
        told = told_of(replicas[0].log.topic_partition, cluster)
        return f"{choose(facts).reason}{told}"
    return ""


def _compare(
    found: Copies, log: PartitionLog, other: PartitionLog, advance: Callable[[int], None]
) -> None:
    try:
        pair = ReplicaPair(log.view(), other.view())
        findings = list(ReplicaComparison(pair).run())
        advance(log.view().size + other.view().size)
    except (OSError, KafkaStorageError) as error:
        found.not_compared[other.name] = reason_of(error)
    else:
        found.differences[other.name] = findings
