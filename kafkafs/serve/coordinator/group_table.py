"""The groups in memory by their names."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

import trio

from kafkafs.serve.coordinator.limits import ByteAccount, GroupLimits
from kafkafs.serve.coordinator.timers import Timers

_OVERHEAD = 1024
"""Bytes that a group costs besides its name and its members."""
_SILENT_SECONDS = 10.0
"""Time without a heartbeat after which a group may make room for others; clients send one every two or three seconds."""
_SHARE = 10
"""The part of all groups, one of so many, that make room at a time."""


class LiveGroup(Protocol):
    """A group of either protocol.

    Attributes:
        heard: time on trio's clock of the last heartbeat or commit of a member; 0 before the first one.
    """

    group_id: str
    heard: float

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
        release: called with each group that makes room for others; gives back what it holds.
    """

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.timers = Timers()
        self.account = ByteAccount(limits.bytes)
        self._groups: dict[str, LiveGroup] = {}
        self._searched = -inf
        self.release: Callable[[LiveGroup], None] = lambda group: None

    def get(self, group_id: str) -> LiveGroup | None:
        """Return the group of a name; None if nobody has joined it."""
        return self._groups.get(group_id)

    def hear(self, group: LiveGroup) -> None:
        """Note that a member of a group is at work."""
        group.heard = trio.current_time()

    def all(self) -> list[LiveGroup]:
        """Return the groups."""
        return list(self._groups.values())

    def has_room(self) -> bool:
        """Return whether another group can be added.

        Groups that no client uses make room, then the oldest of those whose members never sent a heartbeat, then
        those that have been silent for the longest time.
        """
        if len(self._groups) >= self.limits.groups and trio.current_time() > self._searched + 1:
            self._make_room()
        return len(self._groups) < self.limits.groups and self.account.has_room(_OVERHEAD)

    def _make_room(self) -> None:
        now = trio.current_time()
        groups = self._groups.values()
        gone = [group for group in groups if group.is_idle]
        if not gone:
            silent = [
                each for each in groups if not each.heard or each.heard < now - _SILENT_SECONDS
            ]
            silent.sort(key=lambda group: group.heard)
            gone = silent[: max(self.limits.groups // _SHARE, 1)]
        if not gone:
            self._searched = now
        for group in gone:
            del self._groups[group.group_id]
            self.account.held -= _OVERHEAD + len(group.group_id)
            self.release(group)

    def put(self, group: LiveGroup) -> None:
        """Add a group, in place of the one that had its name."""
        before = self._groups.get(group.group_id)
        if before is None:
            self.account.held += _OVERHEAD + len(group.group_id)
        else:
            group.heard = before.heard
        self._groups[group.group_id] = group
