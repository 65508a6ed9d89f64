"""All groups of a source: those of `__consumer_offsets`, and share groups of `__share_group_state`.

The two topics have coordinators of their own. A broker may have a share group's offsets, but not the partition with its
members.
"""

from __future__ import annotations

from functools import cached_property

from engine.replay.groups.group import Group
from engine.replay.groups.groups import GroupsImage
from engine.replay.groups.shares import SharesImage
from engine.replay.partition_records import Unreadable

SHARE = "share"


class KnownGroups:
    """The groups at one moment. Thread-safe.

    Attributes:
        groups: from `__consumer_offsets`; None if the source does not have it.
        shares: from `__share_group_state`.
    """

    def __init__(self, groups: GroupsImage | None, shares: SharesImage) -> None:
        self.groups = groups
        self.shares = shares

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the groups, sorted; lone surrogates represent bytes that are not UTF-8."""
        known = () if self.groups is None else self.groups.names
        return (
            known
            if self.shares.names <= set(known)
            else tuple(sorted({*known, *self.shares.names}))
        )

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Bytes without readable records."""
        known = () if self.groups is None else self.groups.unreadable
        return (*known, *self.shares.unreadable)

    @property
    def doubled(self) -> tuple[str, ...]:
        """Groups with records in several partitions of `__consumer_offsets`."""
        return () if self.groups is None else self.groups.doubled

    def group(self, name: str) -> Group | None:
        """Return the group of a name, or None.

        The state of a share group is Unknown if only its offsets are known.
        """
        found = None if self.groups is None else self.groups.group(name)
        if found is None and name in self.shares.names:
            return Group(
                group_id=name,
                kind=SHARE,
                state="Unknown",
                protocol_type=SHARE,
                timestamp=self.shares.timestamp(name),
            )
        return found
