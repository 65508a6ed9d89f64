"""Who leads a partition when the brokers of a recovered cluster start: a model of the controller's elections.

A broker that registers with a controller that does not know it counts as shut down uncleanly, for the file that states
the epoch of its last registration names none that the controller knows. See ClusterControlManager.registerBroker,
ReplicationControlManager.handleBrokerUncleanShutdown and PartitionChangeBuilder in Kafka 4.3.1. With eligible leader
replicas it is thrown out of the in-sync replicas, even if they become none, and the partition's leader of that moment
is remembered: it may lead again, but as an unclean leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

from engine.recover.metadata.cluster_metadata import ClusterMetadata
from engine.recover.metadata.records import ELR, MIN_ISR, PartitionPlacement

NO_LEADER = -1
UNCLEAN = "unclean.leader.election.enable"
_MOST_PERMUTED = 5
"""Replicas whose starts are tried in every order; of more, each is tried as the first one."""


class Rules(NamedTuple):
    """What decides an election.

    Attributes:
        elr: whether the cluster has eligible leader replicas.
        unclean: unclean.leader.election.enable of the topic.
        min_isr: min.insync.replicas of the topic.
    """

    elr: bool = True
    unclean: bool = False
    min_isr: int = 1


@dataclass
class ElectedPartition:
    """A partition, as the controller has it.

    Attributes:
        replicas: node ids, the preferred leader first.
        leader: -1 for none.
        isr, elr: replicas in sync, and eligible ones.
        last_known: the last leader of a partition without replicas in sync.
        leader_epoch: grows with each election.
        was_unclean: whether a leader was elected that was not in sync.
    """

    replicas: tuple[int, ...]
    leader: int
    isr: list[int] = field(default_factory=list)
    elr: list[int] = field(default_factory=list)
    last_known: list[int] = field(default_factory=list)
    leader_epoch: int = 0
    was_unclean: bool = False


class Controller:
    """A controller that knows one partition, and no broker at first.

    Args:
        partition: the partition, as the snapshot has it; it is changed.
        rules: what decides.
    """

    def __init__(self, partition: ElectedPartition, rules: Rules) -> None:
        self.partition = partition
        self._rules = rules
        self._active: set[int] = set()

    def register(self, broker: int) -> None:
        """Register a broker for the first time."""
        part = self.partition
        if broker not in part.isr and broker not in part.elr:
            return
        isr = [each for each in part.isr if each != broker]
        if self._rules.elr:
            self._change(isr, unclean_shutdown=broker)
        else:
            # As fenced: the last replica in sync stays that.
            self._change(isr or part.isr, fenced=broker)

    def unfence(self, broker: int) -> None:
        """Unfence a registered broker, once it has read the metadata: it may lead from now on."""
        self._active.add(broker)
        if self.partition.leader == NO_LEADER:
            self._change(self.partition.isr)

    def _change(self, isr: list[int], *, unclean_shutdown: int = -1, fenced: int = -1) -> None:
        part, rules = self.partition, self._rules
        acceptable = self._active - {fenced}
        elr = self._elr(isr, unclean_shutdown)
        leader, is_unclean = self._elected(isr, elr, acceptable)
        if is_unclean:
            isr, elr = [leader], [each for each in elr if each != leader]
            part.was_unclean = True
        if rules.elr and not isr and part.isr:
            part.last_known = [part.leader]
        if isr and len(isr) >= min(rules.min_isr, len(part.replicas)):
            part.last_known = []
        if leader != part.leader or len(isr) < len(part.isr):
            part.leader_epoch += 1
        part.isr, part.elr, part.leader = isr, elr, leader

    def _elr(self, isr: Sequence[int], unclean_shutdown: int) -> list[int]:
        part, rules = self.partition, self._rules
        if not rules.elr or len(isr) >= min(rules.min_isr, len(part.replicas)):
            return []
        candidates = dict.fromkeys([*part.elr, *part.isr])
        return [each for each in candidates if each not in isr and each != unclean_shutdown]

    def _elected(
        self, isr: Sequence[int], elr: Sequence[int], acceptable: set[int]
    ) -> tuple[int, bool]:
        """Return the leader, and whether it was not in sync."""
        part, rules = self.partition, self._rules
        eligible = [each for each in (*isr, *elr) if each in acceptable]
        if part.leader in eligible:
            return part.leader, False
        for replica in part.replicas:
            if replica in eligible:
                return replica, False
        if rules.elr and not isr and not elr and len(part.last_known) == 1:
            last = part.last_known[0]
            if last in acceptable:
                return last, True
        if rules.unclean:
            for replica in part.replicas:
                if replica in acceptable:
                    return replica, True
        return NO_LEADER, False


def elected_in(
    replicas: Sequence[int], leader: int, starts: Iterable[tuple[str, int]], rules: Rules
) -> ElectedPartition:
    """Return a partition of a recovered cluster, whose leader alone is in sync, after some starts of brokers.

    Args:
        replicas: its replicas.
        leader: its leader in the snapshot; -1 for none.
        starts: ("register" or "unfence", node id), in their order.
        rules: what decides.
    """
    isr = [leader] if leader != NO_LEADER else list(replicas[:1])
    controller = Controller(ElectedPartition(tuple(replicas), leader, isr), rules)
    for act, broker in starts:
        if act == "register":
            controller.register(broker)
        else:
            controller.unfence(broker)
    return controller.partition


def possible_leaders(replicas: Sequence[int], leader: int, rules: Rules) -> frozenset[int]:
    """Return who may lead once all replicas have started, over all orders of their starts; -1 for nobody."""
    return frozenset(
        elected_in(replicas, leader, starts, rules).leader for starts in _starts(replicas)
    )


def _starts(replicas: Sequence[int]) -> Iterator[list[tuple[str, int]]]:
    """Yield the orders of registering and unfencing: one broker after the other, and all registered first."""
    orders: Iterable[Sequence[int]] = permutations(replicas)
    if len(replicas) > _MOST_PERMUTED:
        orders = [(*replicas[at:], *replicas[:at]) for at in range(len(replicas))]
    for order in orders:
        yield [(act, each) for each in order for act in ("register", "unfence")]
        yield [(act, each) for act in ("register", "unfence") for each in order]
        yield [
            *(("register", each) for each in reversed(order)),
            *(("unfence", each) for each in order),
        ]


def other_leaders(
    metadata: ClusterMetadata, placements: Iterable[PartitionPlacement], *, has_elr: bool
) -> Iterator[tuple[PartitionPlacement, frozenset[int]]]:
    """Yield the partitions that another replica than the chosen one may lead, with all who may; -1 for nobody.

    Args:
        metadata: the cluster, with the settings of topics.
        placements: its partitions.
        has_elr: whether the recovered cluster has eligible leader replicas.
    """
    known: dict[tuple[tuple[int, ...], int, Rules], frozenset[int]] = {}
    cluster = metadata.broker_defaults()
    for placement in placements:
        configs = {**cluster, **metadata.topics[placement.topic].configs}
        least = configs.get(MIN_ISR, "1")
        rules = Rules(
            has_elr,
            configs.get(UNCLEAN) == "true",
            int(least) if least.isdecimal() else 1,
        )
        key = placement.replicas, placement.leader, rules
        if key not in known:
            known[key] = possible_leaders(*key)
        if known[key] != {placement.leader}:
            yield placement, known[key]


def elects_eligible(features: Mapping[str, int]) -> bool:
    """Return whether a cluster with these levels of features has eligible leader replicas."""
    return features.get(ELR, 0) > 0
