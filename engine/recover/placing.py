"""Place the partitions on the brokers of the recovered cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.recover.errors import RecoverRefusedError
from engine.recover.nodes import ClusterNode
from engine.units import TopicPartition


class ReplicaPlace(NamedTuple):
    """A log dir of a new broker: the node's id, the name of the log dir below its folder, its directory.id."""

    node: int
    log_dir: str
    directory_id: str

    @property
    def folder(self) -> str:
        """Path of the log dir below the target."""
        return f"node-{self.node}/{self.log_dir}"


class Placer:
    """Chooses replicas: the nodes that had one before, then those with the least bytes.

    Args:
        nodes: the new nodes.
        replication: number of replicas; None for as many as before.

    Raises:
        RecoverRefusedError: no node is a broker.
    """

    def __init__(self, nodes: Sequence[ClusterNode], replication: int | None) -> None:
        self._brokers = {node.id: node for node in nodes if node.is_broker}
        if not self._brokers:
            raise RecoverRefusedError("no node is a broker", "name one with --nodes FILE")
        self._replication = replication
        self._bytes: dict[tuple[int, int], int] = {
            (node.id, at): 0 for node in self._brokers.values() for at in range(len(node.log_dirs))
        }

    def place(
        self, partition: TopicPartition, before: Sequence[int], size: int
    ) -> list[ReplicaPlace]:
        """Return the places of a partition's replicas, its leader first.

        Args:
            partition: topic and partition.
            before: old node ids of its replicas, the preferred leader first.
            size: bytes of its log.
        """
        wanted = len(before) if self._replication is None else self._replication
        wanted = max(1, min(wanted or 1, len(self._brokers)))
        kept = [node for node in before if node in self._brokers][:wanted]
        others = sorted(
            (node for node in self._brokers if node not in kept),
            key=lambda node: (self._least(node)[1], (node + partition.partition) % 1009),
        )
        chosen = kept + others[: wanted - len(kept)]
        return [self._take(node, size) for node in chosen]

    def _least(self, node: int) -> tuple[int, int]:
        """Return the log dir of a node with the fewest bytes, and their number."""
        dirs = range(len(self._brokers[node].log_dirs))
        at = min(dirs, key=lambda at: self._bytes[node, at])
        return at, self._bytes[node, at]

    def _take(self, node: int, size: int) -> ReplicaPlace:
        at, _ = self._least(node)
        self._bytes[node, at] += size + 1
        of = self._brokers[node]
        return ReplicaPlace(node, of.log_dirs[at], of.directory_ids[at])


def directories(places: Sequence[ReplicaPlace]) -> Mapping[int, str]:
    """Return the directory.id of each replica."""
    return {each.node: each.directory_id for each in places}
