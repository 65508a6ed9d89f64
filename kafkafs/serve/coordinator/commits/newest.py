"""Offsets that clients have committed to this server, over those on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkafs.serve.coordinator.limits import ByteAccount

_OVERHEAD = 512
"""Bytes that a commit costs besides its metadata."""
NO_OFFSET = -1


class Commit(NamedTuple):
    """A committed offset.

    Attributes:
        offset: offset of the next record to consume.
        leader_epoch: of the last consumed record, -1 if the client did not say.
        metadata: text of the client.
    """

    offset: int
    leader_epoch: int
    metadata: str


Place = tuple[str, int]
"""Topic and partition."""
CommitsOfGroup = Mapping[Place, Commit]


class Commits:
    """The newest commits of all groups.

    Args:
        account: counts their bytes.
    """

    def __init__(self, account: ByteAccount) -> None:
        self._account = account
        self._groups: dict[str, dict[Place, Commit]] = {}

    @property
    def names(self) -> list[str]:
        """Groups with commits."""
        return list(self._groups)

    def all(self) -> dict[str, CommitsOfGroup]:
        """Return the commits of all groups, in dicts of their own."""
        return {group_id: dict(found) for group_id, found in self._groups.items()}

    def has(self, group_id: str) -> bool:
        """Return whether a group has commits."""
        return group_id in self._groups

    def of(self, group_id: str) -> dict[Place, Commit]:
        """Return the commits of a group, in a dict of its own."""
        return dict(self._groups.get(group_id, ()))

    def has_room(self, group_id: str, found: CommitsOfGroup) -> bool:
        """Return whether commits can be kept."""
        return self._account.has_room(self._growth(group_id, found))

    def put(self, group_id: str, found: CommitsOfGroup) -> None:
        """Keep commits in place of older ones."""
        self._account.held += self._growth(group_id, found)
        self._groups.setdefault(group_id, {}).update(found)

    def _growth(self, group_id: str, found: CommitsOfGroup) -> int:
        known = self._groups.get(group_id, {})
        growth = 0 if group_id in self._groups else _OVERHEAD + len(group_id)
        for place, commit in found.items():
            old = known.get(place)
            growth += len(commit.metadata)
            growth += _OVERHEAD if old is None else -len(old.metadata)
        return growth
