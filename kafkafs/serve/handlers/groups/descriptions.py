"""Answer ListGroups and DescribeGroups: the groups on disk, and those of this server over them.

No member of a group on disk is connected to this server, so a group that nobody has joined here is shown without members.
"""

from __future__ import annotations

from typing import NamedTuple

import trio

from engine.replay.groups.group import Group
from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.coordinator.classic_group import ClassicGroup, ClassicMember, ClassicState
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import CLASSIC, DiskGroups, sent
from kafkafs.serve.handlers.metadata import NO_OPERATIONS, READ_OPERATIONS

_EMPTY, _DEAD = "Empty", "Dead"
_NOT_FOUND_SINCE = 6


class _Listed(NamedTuple):
    """A group as ListGroups shows it."""

    name: str
    protocol_type: str
    state: str
    kind: str


class GroupDescriptions:
    """Answers about all groups.

    Args:
        coordinator: the groups of this server.
        disk: the groups on disk.
        limiter: limits the threads that read.
    """

    def __init__(
        self, coordinator: Coordinator, disk: DiskGroups, limiter: trio.CapacityLimiter
    ) -> None:
        self._coordinator = coordinator
        self._disk = disk
        self._limiter = limiter

    async def list_groups(self, asked: Asked) -> Fields:
        """Answer ListGroups."""
        states = {each.lower() for each in asked.fields["statesFilter"]}
        types = {each.lower() for each in asked.fields["typesFilter"]}
        live = {
            group.group_id: _Listed(
                group.group_id, group.protocol_type or "", group.state_name, group.kind
            )
            for group in self._coordinator.table.all()
        }
        committed = self._coordinator.commits.names
        found = await trio.to_thread.run_sync(self._listed, live, committed, limiter=self._limiter)
        return {
            "errorCode": ErrorCode.NONE,
            "groups": [
                {
                    "groupId": sent(group.name),
                    "protocolType": group.protocol_type,
                    "groupState": group.state,
                    "groupType": group.kind,
                }
                for group in found
                if (not states or group.state.lower() in states)
                and (not types or group.kind.lower() in types)
            ],
        }

    def _listed(self, live: dict[str, _Listed], committed: list[str]) -> list[_Listed]:
        """Return all groups; runs in a thread."""
        found = {name: _Listed(name, "", _EMPTY, CLASSIC) for name in committed}
        for name in self._disk.names():
            group = None if name in live else self._disk.find(name)
            if group is not None:
                found[name] = _Listed(name, group.protocol_type, _EMPTY, group.kind)
        found |= live
        return [found[name] for name in sorted(found)]

    async def describe_groups(self, asked: Asked) -> Fields:
        """Answer DescribeGroups: classic groups; the others have a request of their own."""
        is_asked = asked.fields["includeAuthorizedOperations"]
        operations = READ_OPERATIONS if is_asked else NO_OPERATIONS
        names: list[str] = asked.fields["groups"]
        wanted = [name for name in names if self._coordinator.table.get(name) is None]
        on_disk = await trio.to_thread.run_sync(self._disk.find_all, wanted, limiter=self._limiter)
        found = [self._described(name, on_disk.get(name), asked.version) for name in names]
        return {
            "groups": [
                each
                | {
                    "groupId": name,
                    "authorizedOperations": NO_OPERATIONS if each["errorCode"] else operations,
                }
                for name, each in zip(names, found, strict=True)
            ]
        }

    def _described(self, name: str, on_disk: Group | None, version: int) -> Fields:
        live = self._coordinator.table.get(name)
        if isinstance(live, ClassicGroup):
            return _classic(live)
        known = live or on_disk
        kind = None if known is None else known.kind
        if kind is None and self._coordinator.commits.has(name):
            kind = CLASSIC
        if kind == CLASSIC:
            return {
                "errorCode": ErrorCode.NONE,
                "groupState": _EMPTY,
                "protocolType": (known and known.protocol_type) or "",
                "members": [],
            }
        is_told = version >= _NOT_FOUND_SINCE
        reason = "not found" if kind is None else "is not a classic group"
        return {
            "errorCode": ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.NONE,
            "errorMessage": f"Group {name} {reason}." if is_told else None,
            "groupState": _DEAD,
            "members": [],
        }


def _classic(group: ClassicGroup) -> Fields:
    is_stable = group.state is ClassicState.STABLE
    return {
        "errorCode": ErrorCode.NONE,
        "groupState": group.state_name,
        "protocolType": group.protocol_type or "",
        "protocolData": (group.protocol or "") if is_stable else "",
        "members": [_member(group, each, is_stable) for each in group.members.values()],
    }


def _member(group: ClassicGroup, member: ClassicMember, is_stable: bool) -> Fields:
    metadata = member.protocols.get(group.protocol or "", b"") if is_stable else b""
    return {
        "memberId": member.member_id,
        "groupInstanceId": member.instance_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "memberMetadata": metadata,
        "memberAssignment": member.assignment,
    }
