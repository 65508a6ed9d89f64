"""Every group that a source knows of: those of `__consumer_offsets`, and share groups of `__share_group_state`.

The two topics have coordinators of their own. A broker may hold a share group's offsets and not the partition
that has its members.
"""

from __future__ import annotations

from functools import cached_property

from engine.replay.groups.group import Group
from engine.replay.groups.groups import GroupsImage
from engine.replay.groups.shares import SharesImage
from engine.replay.partition_records import Unreadable
from engine.units import Timestamp

SHARE = "share"


class KnownGroups:
    """The groups at one moment; safe from several threads.

    Attributes:
        groups: what `__consumer_offsets` says; None: the source does not hold it.
        shares: what `__share_group_state` says.
        until: the records with timestamps up to this count; None: all.
    """

    def __init__(
        self, groups: GroupsImage | None, shares: SharesImage, until: Timestamp | None
    ) -> None:
        self.groups = groups
        self.shares = shares
        self.until = until

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The groups, sorted; lone surrogates stand for bytes that are not UTF-8."""
        told = () if self.groups is None else self.groups.names
        return (
            told if self.shares.names <= set(told) else tuple(sorted({*told, *self.shares.names}))
        )

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """What gave no records."""
        told = () if self.groups is None else self.groups.unreadable
        return (*told, *self.shares.unreadable)

    @property
    def doubled(self) -> tuple[str, ...]:
        """Groups that more than one partition of `__consumer_offsets` has records of."""
        return () if self.groups is None else self.groups.doubled

    def group(self, name: str) -> Group | None:
        """The group of a name; None when there is none.

        The state of a share group is Unknown where only its offsets are known.
        """
        found = None if self.groups is None else self.groups.group(name)
        if found is None and name in self.shares.names:
            return Group(
                group_id=name, kind=SHARE, state="Unknown", protocol_type=SHARE,
                timestamp=self.shares.timestamp(name),
            )  # fmt: skip
        return found
