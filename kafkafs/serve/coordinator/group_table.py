"""The groups in memory by their names."""

from __future__ import annotations

from typing import Protocol

from kafkafs.serve.coordinator.limits import ByteAccount, GroupLimits
from kafkafs.serve.coordinator.timers import Timers

_OVERHEAD = 1024
"""Bytes that a group costs besides its name and its members."""


class LiveGroup(Protocol):
    """A group of either protocol."""

    group_id: str

    @property
    def kind(self) -> str:
        """The protocol: classic or consumer."""

    @property
    def protocol_type(self) -> str | None:
        """What its members are, such as "consumer"."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no member."""

    @property
    def is_idle(self) -> bool:
        """Whether no client uses the group."""

    @property
    def state_name(self) -> str:
        """The state as clients are told."""


class GroupTable:
    """All groups that clients have joined since the start, and what they share.

    Attributes:
        limits: limits on groups and times of rebalances.
        timers: deadlines of all groups.
        account: bytes of all groups.
    """

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.timers = Timers()
        self.account = ByteAccount(limits.bytes)
        self._groups: dict[str, LiveGroup] = {}

    def get(self, group_id: str) -> LiveGroup | None:
        """Return the group of a name; None if nobody has joined it."""
        return self._groups.get(group_id)

    def all(self) -> list[LiveGroup]:
        """Return the groups."""
        return list(self._groups.values())

    def has_room(self) -> bool:
        """Return whether another group can be added; groups that no client uses make room."""
        if len(self._groups) >= self.limits.groups:
            for name in [name for name, group in self._groups.items() if group.is_idle]:
                del self._groups[name]
                self.account.held -= _OVERHEAD + len(name)
        return len(self._groups) < self.limits.groups and self.account.has_room(_OVERHEAD)

    def put(self, group: LiveGroup) -> None:
        """Add a group, in place of the one that had its name."""
        if group.group_id not in self._groups:
            self.account.held += _OVERHEAD + len(group.group_id)
        self._groups[group.group_id] = group
