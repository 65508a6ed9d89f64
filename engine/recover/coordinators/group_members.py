"""Members of groups, which are gone with their cluster: dropped by the records with which a coordinator drops them.

A classic group has them in its one record. Of the other groups each member has records of its own. A coordinator that
reads a member's tombstone refuses it unless those of its assignments came before (GroupMetadataManager.replay), and
after a change of members the group's epoch is larger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.recover.coordinators.coordinator_log import CoordinatorMessage, KeyedValue
from engine.units import Offset, Timestamp

_CLASSIC = 2


class _Protocol(NamedTuple):
    """Records of a kind of group: file and name of its own record, its type, types of a member's in their order."""

    file: str
    name: str
    group_type: int
    member_types: tuple[int, ...]


_PROTOCOLS = (
    _Protocol("consumer_groups.txt", "ConsumerGroupMetadata", 3, (8, 7, 5)),
    _Protocol("share_groups.txt", "ShareGroupMetadata", 11, (14, 13, 10)),
    _Protocol("streams_groups.txt", "StreamsGroupMetadata", 17, (22, 21, 19)),
)


class DroppedMembers(NamedTuple):
    """Records that drop the members of groups, and the names of these groups; the classic ones apart."""

    records: list[KeyedValue]
    classic: list[str]
    others: list[str]


def dropped_members(newest: Mapping[bytes, tuple[Offset, bytes]], now: Timestamp) -> DroppedMembers:
    """Return the records for the end of a partition of `__consumer_offsets`.

    Args:
        newest: the newest value by key.
        now: time at which classic groups lose their members: from then on their offsets age.
    """
    made = DroppedMembers([], [], [])
    _drop_classic(newest, now, made)
    for protocol in _PROTOCOLS:
        _drop(newest, protocol, made)
    return made


def _drop_classic(
    newest: Mapping[bytes, tuple[Offset, bytes]], now: Timestamp, made: DroppedMembers
) -> None:
    key_message = CoordinatorMessage("consumer_offsets.txt", "GroupMetadataKey")
    message = CoordinatorMessage("consumer_offsets.txt", "GroupMetadataValue")
    for key, (_, value) in newest.items():
        if key_type(key) != _CLASSIC:
            continue
        names, fields = key_message.read_key(key), message.read(value)
        if names is None or fields is None or not fields["members"]:
            continue
        changed = fields | {"members": [], "leader": None, "protocol": None}
        changed["currentStateTimestamp"] = now
        made.records.append(KeyedValue(key, message.write(changed, value)))
        made.classic.append(names["group"])


def _drop(
    newest: Mapping[bytes, tuple[Offset, bytes]], protocol: _Protocol, made: DroppedMembers
) -> None:
    members: dict[bytes, list[bytes]] = {}
    for key in newest:
        if key_type(key) in protocol.member_types:
            size = 2 + int.from_bytes(key[2:4], "big")
            members.setdefault(key[2 : 2 + size], []).append(key)
    key_message = CoordinatorMessage(protocol.file, f"{protocol.name}Key")
    message = CoordinatorMessage(protocol.file, f"{protocol.name}Value")
    order = protocol.member_types.index
    for group, keys in members.items():
        keys.sort(key=lambda key: order(key_type(key)))
        made.records.extend(KeyedValue(key, None) for key in keys)
        own = protocol.group_type.to_bytes(2, "big") + group
        names, known = key_message.read_key(own), newest.get(own)
        fields = None if known is None else message.read(known[1])
        if known is not None and fields is not None:
            changed = fields | {"epoch": fields["epoch"] + 1}
            made.records.append(KeyedValue(own, message.write(changed, known[1])))
        if names is not None:
            made.others.append(names["groupId"])


def key_type(key: bytes) -> int:
    """Return the type of a record of `__consumer_offsets`."""
    return int.from_bytes(key[:2], "big", signed=True)
