"""Which application a group belongs to, where its records tell: Kafka Connect and Kafka Streams."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import NamedTuple

from engine.units import LAST_TIME

_SINK_PREFIX = "connect-"
_STREAM_THREAD = "-StreamThread-"
_STREAMS_ASSIGNOR = "stream"
_INTERNAL_TOPICS = ("-repartition", "-changelog")
_SHORTEST_METADATA = 9
_METADATA_VERSIONS = (1, 2)


class Application(NamedTuple):
    """An application and what tells it.

    Attributes:
        name: connect-workers, connect-sink or streams.
        evidence: what in the group's records tells it.
    """

    name: str
    evidence: str


class GroupMarks(NamedTuple):
    """What of a group may tell its application.

    Attributes:
        name, kind, protocol_type: of the group.
        protocol: the assignor that its members agreed on; None if unknown.
        client_ids: of its members.
        topics: topics that it committed offsets of.
        metadata: metadata of its commits.
    """

    name: str
    kind: str
    protocol_type: str
    protocol: str | None
    client_ids: Iterable[str]
    topics: Iterable[str]
    metadata: Iterable[str]


def application_of(group: GroupMarks) -> Application | None:
    """Return the application of a group; None if nothing tells one.

    The workers of Connect have a protocol type of their own. A sink connector and Streams of the classic protocol are
    consumers: these are told by their assignor, their members' client ids, the metadata of their commits, and names
    that Connect and Streams give.
    """
    if group.protocol_type == "connect":
        return Application("connect-workers", "protocol type")
    if group.kind == "streams":
        return Application("streams", "group type")
    if group.kind not in ("classic", "consumer"):
        return None
    if group.protocol == _STREAMS_ASSIGNOR:
        return Application("streams", "assignor")
    if any(_STREAM_THREAD in client_id for client_id in group.client_ids):
        return Application("streams", "client id")
    first = f"{group.name}-"
    if any(each.startswith(first) and each.endswith(_INTERNAL_TOPICS) for each in group.topics):
        return Application("streams", "internal topic")
    if any(map(_is_of_streams, group.metadata)):
        return Application("streams", "commit metadata")
    if group.name.startswith(_SINK_PREFIX):
        return Application("connect-sink", "name")
    return None


def _is_of_streams(metadata: str) -> bool:
    """Return whether the metadata of a commit is that of Streams: a version and the time of the partition, in base64."""
    if not metadata:
        return False
    try:
        data = base64.b64decode(metadata, validate=True)
    except (binascii.Error, ValueError):
        return False
    if len(data) < _SHORTEST_METADATA or data[0] not in _METADATA_VERSIONS:
        return False
    return -1 <= int.from_bytes(data[1:_SHORTEST_METADATA], "big", signed=True) <= LAST_TIME
