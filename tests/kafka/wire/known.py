"""What the broker says of its directory: the names, ids, offsets and times that requests are drawn from."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tests.kafka.wire.peers import Fields, Peer

FETCH, LIST_OFFSETS, METADATA, LIST_GROUPS = 1, 2, 3, 16
LIST_TRANSACTIONS = 66
LATEST, EARLIEST = -1, -2
_MOST_BYTES = 1 << 20


class Batch(NamedTuple):
    """A batch or a message set: its offsets, bytes, largest timestamp and leader epoch."""

    base: int
    last: int
    size: int
    time: int
    epoch: int


class Place(NamedTuple):
    """A partition."""

    topic: str
    topic_id: str
    number: int
    start: int
    stable: int
    end: int
    epoch: int
    batches: tuple[Batch, ...]


class Known(NamedTuple):
    """A directory.

    Attributes:
        places: all partitions, those of internal topics too.
        groups: the group ids.
        transactions, producers: the transactional ids, and the ids of their producers.
        node: number of the broker.
    """

    places: tuple[Place, ...]
    groups: tuple[str, ...]
    transactions: tuple[str, ...]
    producers: tuple[int, ...]
    node: int

    @property
    def topics(self) -> dict[str, str]:
        """The topics: ids by name."""
        return {place.topic: place.topic_id for place in self.places}


def batches_in(data: bytes) -> Iterator[Batch]:
    """The whole batches in some bytes, of all formats."""
    at = 0
    while at + 17 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if at + 12 + length > len(data):
            return
        if data[at + 16] == 2:
            (epoch,) = struct.unpack_from(">i", data, at + 12)
            (delta,) = struct.unpack_from(">i", data, at + 23)
            (time,) = struct.unpack_from(">q", data, at + 35)
            yield Batch(base, base + delta, 12 + length, time, epoch)
        else:
            time = struct.unpack_from(">q", data, at + 18)[0] if data[at + 16] == 1 else -1
            yield Batch(base, base, 12 + length, time, -1)
        at += 12 + length


def known(broker: Peer) -> Known:
    """Ask a broker for everything."""
    metadata = _fields(broker, METADATA, 12, {"topics": None})
    groups = _fields(broker, LIST_GROUPS, 4, {})
    places = [
        _place(broker, topic, each)
        for topic in sorted(metadata["topics"], key=lambda each: each["name"])
        for each in sorted(topic["partitions"], key=lambda each: each["partitionIndex"])
        if each["leaderId"] >= 0
    ]
    names = sorted(each["groupId"] for each in groups["groups"])
    listed = _fields(broker, LIST_TRANSACTIONS, 0, {})["transactionStates"]
    return Known(
        tuple(places),
        tuple(names),
        tuple(sorted(each["transactionalId"] for each in listed)),
        tuple(sorted(each["producerId"] for each in listed)),
        metadata["brokers"][0]["nodeId"],
    )


def _place(broker: Peer, topic: Fields, partition: Fields) -> Place:
    name, number = topic["name"], partition["partitionIndex"]
    start, stable, end = (
        _offset(broker, name, number, time, committed)
        for time, committed in ((EARLIEST, False), (LATEST, True), (LATEST, False))
    )
    batches: list[Batch] = []
    at = start
    while at < end:
        wanted = {"partition": number, "fetchOffset": at, "partitionMaxBytes": _MOST_BYTES}
        fields = {"maxBytes": _MOST_BYTES, "topics": [{"topic": name, "partitions": [wanted]}]}
        found = _fields(broker, FETCH, 11, fields)["responses"][0]["partitions"][0]
        more = list(batches_in(found["records"] or b""))
        if not more:
            break
        batches += more
        at = max(more[-1].last + 1, at + 1)
    return Place(
        name, topic["topicId"], number, start, stable, end, partition["leaderEpoch"], tuple(batches)
    )


def _offset(broker: Peer, name: str, number: int, time: int, committed: bool) -> int:
    wanted = {"partitionIndex": number, "timestamp": time}
    fields = {
        "replicaId": -1,
        "isolationLevel": int(committed),
        "topics": [{"name": name, "partitions": [wanted]}],
    }
    found = _fields(broker, LIST_OFFSETS, 5, fields)["topics"][0]["partitions"][0]
    assert found["errorCode"] == 0, (name, number, found)
    return int(found["offset"])


def _fields(broker: Peer, key: int, version: int, fields: Fields) -> Fields:
    found = broker.ask(key, version, fields)
    assert found.fields is not None, (key, version)
    return found.fields
