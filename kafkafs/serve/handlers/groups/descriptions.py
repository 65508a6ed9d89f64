"""Answer ListGroups and DescribeGroups: the groups on disk, and those of this server over them.

No member of a group on disk is connected to this server, so a group that nobody has joined here is shown without members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.replay.groups.group import Group
from kafkafs.serve.coordinator.classic_group import ClassicGroup, ClassicMember, ClassicState
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import CLASSIC, sent
from kafkafs.serve.handlers.groups.served_groups import ServedGroups
from kafkafs.serve.handlers.metadata import NO_OPERATIONS, READ_OPERATIONS
from kafkafs.serve.request import Fields, Request

_EMPTY, _DEAD = "Empty", "Dead"
_NOT_FOUND_SINCE = 6


class _Listed(NamedTuple):
    """A group as ListGroups shows it."""

    protocol_type: str
    state: str
    kind: str


async def list_groups(served: ServedGroups, request: Request) -> Fields:
    """Answer ListGroups."""
    states = {each.lower() for each in request.fields["statesFilter"]}
    types = {each.lower() for each in request.fields["typesFilter"]}
    found = await _listed(served)
    return {
        "errorCode": ErrorCode.NONE,
        "groups": [
            {
                "groupId": sent(name),
                "protocolType": found[name].protocol_type,
                "groupState": found[name].state,
                "groupType": found[name].kind,
            }
            for name in sorted(found)
            if (not states or found[name].state.lower() in states)
            and (not types or found[name].kind.lower() in types)
        ],
    }


async def _listed(served: ServedGroups) -> dict[str, _Listed]:
    """Return all groups."""
    on_disk = await served.disk.kinds()
    coordinator = served.coordinator
    return {
        **{name: _Listed("", _EMPTY, CLASSIC) for name in coordinator.commits.names},
        **{
            name: _Listed(protocol_type, _EMPTY, kind)
            for name, (kind, protocol_type) in on_disk.items()
        },
        **{
            group.group_id: _Listed(group.protocol_type or "", group.state_name, group.kind)
            for group in coordinator.table.all()
        },
    }


async def describe_groups(served: ServedGroups, request: Request) -> Fields:
    """Answer DescribeGroups: classic groups; the others have a request of their own."""
    names: list[str] = request.fields["groups"]
    on_disk = await served.not_joined(names)
    found = {name: _described(served, name, on_disk.get(name), request.version) for name in names}
    return with_operations(request, names, found)


def with_operations(request: Request, names: Iterable[str], found: Mapping[str, Fields]) -> Fields:
    """Return the answer that describes groups: what is found of each name, and what a client may do to the group."""
    is_asked = request.fields["includeAuthorizedOperations"]
    operations = READ_OPERATIONS if is_asked else NO_OPERATIONS
    return {
        "groups": [
            found[name]
            | {
                "groupId": name,
                "authorizedOperations": NO_OPERATIONS if found[name]["errorCode"] else operations,
            }
            for name in names
        ]
    }


def _described(served: ServedGroups, name: str, on_disk: Group | None, version: int) -> Fields:
    live = served.coordinator.table.get(name)
    if isinstance(live, ClassicGroup):
        return _classic(live)
    known = live or on_disk
    kind = None if known is None else known.kind
    if kind is None and served.coordinator.commits.has(name):
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
