"""What groups may cost the server, and how long it waits for members."""

from __future__ import annotations

from dataclasses import dataclass

from engine.budgets import MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Limits on groups and times of rebalances."""

    groups: int = 10_000
    """Most groups in memory; groups without members, or with silent ones, make room first."""
    members: int = 2_000
    """Most members of a group."""
    protocols: int = 100
    """Most assignment strategies of a member."""
    bytes: int = 128 * MiB
    """Most bytes of subscriptions, assignments and commits of all groups."""
    waiting_bytes: int = 16 * MiB
    """Most bytes of requests that wait for the others of their groups."""
    commit_metadata: int = 4096
    """Longest metadata of a committed offset, in characters."""
    least_session_ms: int = 6_000
    most_session_ms: int = 1_800_000
    first_rebalance_seconds: float = 0.5
    """Time for more members to come before the first rebalance of a group ends."""
    new_member_seconds: float = 300.0
    """Time for which the first JoinGroup of a member may wait."""
    heartbeat_ms: int = 2_000
    """Time between heartbeats of members of consumer groups."""
    session_ms: int = 45_000
    """Time without a heartbeat after which a member of a consumer group is dropped."""


DEFAULT_GROUP_LIMITS = GroupLimits()


class ByteAccount:
    """Counts the bytes that all groups hold together.

    Args:
        most: limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0

    def has_room(self, more: int) -> bool:
        """Return whether `more` bytes can be held, too."""
        return self.held + more <= self._most
