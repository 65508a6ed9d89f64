"""Records of MirrorMaker 2's own topics as JSON: Kafka's classes Checkpoint, Heartbeat and OffsetSync (connect/mirror).

    checkpoint    key: group, topic (strings), partition (int32)
                  value: version (int16), upstreamOffset, offset (int64), metadata (string)
    heartbeat     key: sourceClusterAlias, targetClusterAlias (strings)
                  value: version (int16), timestamp (int64)
    offset sync   key: topic (string), partition (int32)
                  value: upstreamOffset, offset (int64)

Integers are big-endian; a string is its size (int16) and UTF-8. All versions are 0.
"""

from __future__ import annotations

from kafkafs.schemas.decoders.value_decoder import json_bytes
from kafkafs.schemas.errors import UndecodableError

_STRING, _VERSION = 0, -2
_SHAPES: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "mirror-checkpoint": (
        {"group": _STRING, "topic": _STRING, "partition": 4},
        {"version": _VERSION, "upstreamOffset": 8, "offset": 8, "metadata": _STRING},
    ),
    "mirror-heartbeat": (
        {"sourceClusterAlias": _STRING, "targetClusterAlias": _STRING},
        {"version": _VERSION, "timestamp": 8},
    ),
    "mirror-offset-sync": (
        {"topic": _STRING, "partition": 4},
        {"upstreamOffset": 8, "offset": 8},
    ),
}
"""Fields of keys and values: widths of integers, _STRING, or _VERSION."""


def mirror_json(data: bytes, name: str, *, is_key: bool) -> bytes:
    """Return the JSON of a key or value.

    Args:
        data: the key or value.
        name: its type.
        is_key: whether it is a key.

    Raises:
        UndecodableError: the bytes are not of the type.
    """
    found: dict[str, str | int] = {}
    at = 0
    for field, width in _SHAPES[name][not is_key].items():
        size = abs(width) or 2
        number = int.from_bytes(data[at : at + size], "big", signed=True)
        at += size
        if width == _STRING:
            if number < 0:
                raise UndecodableError(f"the size of {field} is {number}", at - size)
            try:
                found[field] = data[at : at + number].decode()
            except UnicodeDecodeError:
                raise UndecodableError(f"{field} is not UTF-8", at) from None
            at += number
            continue
        if width == _VERSION and number:
            raise UndecodableError(f"the version {number} is not known", 0)
        found[field] = number
    if at != len(data):
        raise UndecodableError(f"{len(data)} bytes, expected {at}")
    return json_bytes(found)
