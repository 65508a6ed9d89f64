"""What the answers about groups draw on."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from engine.replay.groups.group import Group
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.handlers.groups.disk_groups import DiskGroups
from kafkafs.serve.handlers.groups.served_topics import ServedTopics


class ServedGroups:
    """The groups in memory over those on disk, and the topics.

    Args:
        coordinator: the groups of this server.
        cluster: the source.
        limiter: limits the threads that read.

    Attributes:
        coordinator: the groups of this server.
        disk: the groups on disk.
        topics: the topics.
    """

    def __init__(
        self, coordinator: Coordinator, cluster: ClusterView, limiter: trio.CapacityLimiter
    ) -> None:
        self.coordinator = coordinator
        self.disk = DiskGroups(cluster, limiter)
        self.topics = ServedTopics(cluster, limiter)

    async def not_joined(self, names: Iterable[str]) -> dict[str, Group]:
        """Return the groups on disk among names that nobody has joined here."""
        table = self.coordinator.table
        wanted = [name for name in names if table.get(name) is None]
        return await self.disk.find_all(wanted) if wanted else {}
