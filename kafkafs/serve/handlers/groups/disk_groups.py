"""The groups on disk, from the records of their coordinators. No member of theirs is connected to this server."""

from __future__ import annotations

from collections.abc import Iterable

from engine.replay.groups.group import Group
from kafkafs.serve.cluster_view import ClusterView

CLASSIC, CONSUMER = "classic", "consumer"


class DiskGroups:
    """Looks groups up; reads the source, so it is called in threads.

    Args:
        cluster: the source.
    """

    def __init__(self, cluster: ClusterView) -> None:
        self._state = cluster.logs.state

    def names(self) -> tuple[str, ...]:
        """Return the names of all groups, sorted."""
        return self._state.known_groups().names if self._state.has_groups else ()

    def find(self, name: str) -> Group | None:
        """Return the group of a name, or None."""
        return self._state.known_groups().group(name) if self._state.has_groups else None

    def find_all(self, names: Iterable[str]) -> dict[str, Group]:
        """Return the groups on disk among names."""
        found = {name: self.find(name) for name in names}
        return {name: group for name, group in found.items() if group is not None}


def is_joinable(group: Group) -> bool:
    """Return whether consumers can join a group: not a share group or one of Kafka Streams."""
    return group.kind in (CLASSIC, CONSUMER)


def sent(text: str) -> str:
    """Return a text that can be sent: bytes that were not UTF-8 on disk become question marks."""
    return text.encode("utf-8", "replace").decode()
