"""The groups on disk, from the records of their coordinators. No member of theirs is connected to this server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import trio

from engine.replay.groups.group import Group
from kafkafs.serve.cluster_view import ClusterView

CLASSIC, CONSUMER = "classic", "consumer"


class DiskGroups:
    """Looks groups up, in threads.

    Args:
        cluster: the source.
        limiter: limits the threads that read.
    """

    def __init__(self, cluster: ClusterView, limiter: trio.CapacityLimiter) -> None:
        self._state = cluster.logs.state
        self._limiter = limiter

    async def find(self, name: str) -> Group | None:
        """Return the group of a name, or None."""
        return (await self.find_all([name])).get(name)

    async def find_all(self, names: Iterable[str]) -> dict[str, Group]:
        """Return the groups on disk among names."""
        return await trio.to_thread.run_sync(
            lambda: dict(self._groups(names)), limiter=self._limiter
        )

    async def kinds(self) -> dict[str, tuple[str, str]]:
        """Return the kind and the protocol type of each group, by its name."""
        return await trio.to_thread.run_sync(
            lambda: {name: (group.kind, group.protocol_type) for name, group in self._groups()},
            limiter=self._limiter,
        )

    def _groups(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, Group]]:
        """Yield groups with their names, by default all."""
        known = self._state.known_groups()
        for name in known.names if names is None else names:
            group = known.group(name)
            if group is not None:
                yield name, group


def is_joinable(group: Group) -> bool:
    """Return whether consumers can join a group: not a share group or one of Kafka Streams."""
    return group.kind in (CLASSIC, CONSUMER)


def sent(text: str) -> str:
    """Return a text that can be sent: bytes that were not UTF-8 on disk become question marks."""
    return text.encode("utf-8", "replace").decode()
