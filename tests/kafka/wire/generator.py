"""Random requests from the declared messages: each field has values that mean something in the directory, and odd ones."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

from engine.topics.message.schema import Array, Field, Scalar, Struct
from kafkafs.serve.protocol.api import Api
from tests.kafka.wire.known import Known, Place
from tests.kafka.wire.peers import Fields

ODD_NAMES = (
    "",
    "no-such-topic",
    "a/b",
    "..",
    "orders ",
    "n" * 250,
    "größe",
    "__cluster_metadata",
    "ORDERS",
)
NULL_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
_LIMITS = {
    Scalar.INT8: (-128, 127), Scalar.INT16: (-32768, 32767), Scalar.INT32: (-(2**31), MAX_INT32),
    Scalar.INT64: (-(2**63), MAX_INT64), Scalar.UINT16: (0, 65535), Scalar.UINT32: (0, 2**32 - 1),
}  # fmt: skip


class Generated(NamedTuple):
    """A request: number and version of its API, and the fields."""

    key: int
    version: int
    fields: Fields


class Draw:
    """The values of one request: those of a partition follow those of its topic.

    Args:
        known: the directory.
        random: where the choices come from.
    """

    def __init__(self, known: Known, random: Random) -> None:
        self.known = known
        self.random = random
        self.topic: str | None = None
        self.place: Place | None = None
        self.has_id = False

    def chance(self, share: float) -> bool:
        """Return true so often."""
        return self.random.random() < share

    def near(self, number: int) -> int:
        """A number, or one beside it."""
        return number + self.random.choice((0, 0, 0, 1, -1))

    def some_topic(self) -> str:
        """The name of a topic, which is that of the next partitions."""
        if self.chance(0.08):
            self.topic = None
            return self.random.choice(ODD_NAMES)
        self.topic = self.random.choice(self.known.places).topic
        return self.topic

    def some_topic_id(self) -> str:
        """The id of a topic, which is that of the next partitions."""
        if self.chance(0.08):
            self.topic = None
            raw = self.random.choice((bytes(16), self.random.randbytes(16), b"\xff" * 16))
            return base64.urlsafe_b64encode(raw)[:22].decode()
        return self.known.topics.get(self.some_topic(), NULL_UUID)

    def some_metadata_id(self) -> str:
        """The id of a topic, or none: then the topic has a name."""
        found = self.some_topic_id() if self.chance(0.4) else NULL_UUID
        self.has_id = found != NULL_UUID
        return found

    def some_fetch_id(self) -> str:
        """The id of a topic, never the null id: with it, a broker fails inside its sessions."""
        found = self.some_topic_id()
        return self.known.places[0].topic_id if found == NULL_UUID else found

    def some_metadata_name(self) -> str | None:
        """The name of a topic, mostly null when it has an id."""
        return None if self.has_id and self.chance(0.85) else self.some_topic()

    def some_partition(self) -> int:
        """The number of a partition of the topic."""
        here = [each for each in self.known.places if each.topic == self.topic]
        self.place = self.random.choice(here or self.known.places)
        return (
            self.random.choice((-1, 1, 7, MAX_INT32, -(2**31)))
            if self.chance(0.06)
            else self.place.number
        )

    def _here(self) -> Place:
        return self.place or self.random.choice(self.known.places)

    def some_offset(self) -> int:
        """An offset in or about the partition."""
        here = self._here()
        kind = self.random.random()
        if here.batches and kind < 0.6:
            batch = self.random.choice(here.batches)
            return self.random.choice(
                (self.near(batch.base), self.near(batch.last), batch.last + 1)
            )
        if kind < 0.8:
            return self.near(self.random.choice((here.start, here.stable, here.end)))
        if kind < 0.95:
            return self.random.randint(0, max(here.end, 0))
        return self.random.choice((-1, -2, -(2**63), MAX_INT64, here.end + 1000))

    def some_epoch(self) -> int:
        """The epoch of the leader, or of a batch, or none, or another."""
        here = self._here()
        kind = self.random.random()
        if kind < 0.4:
            return -1
        if kind < 0.75:
            return here.epoch
        if here.batches and kind < 0.9:
            return self.near(self.random.choice(here.batches).epoch)
        return self.random.choice((-2, 0, here.epoch + 1, here.epoch - 1, MAX_INT32))

    def some_batch_epoch(self) -> int:
        """The epoch of a batch, or none, or another."""
        here = self._here()
        if self.chance(0.5) or not here.batches:
            return self.random.choice((-1, -1, 0, 1, here.epoch, here.epoch + 1, MAX_INT32))
        return self.near(self.random.choice(here.batches).epoch)

    def some_time(self) -> int:
        """A timestamp of a batch or a special one."""
        here = self._here()
        kind = self.random.random()
        if kind < 0.45:
            return self.random.choice((-1, -2, -3, -4, -5, -6))
        if here.batches and kind < 0.9:
            return self.near(self.random.choice(here.batches).time)
        return self.random.choice((0, -7, -(2**63), MAX_INT64, 1_700_000_000_000))

    def some_bytes(self) -> int:
        """A limit of bytes: about the size of batches, or far from it."""
        here = self._here()
        if here.batches and self.chance(0.4):
            first = self.random.randrange(len(here.batches))
            some = here.batches[first : first + self.random.randint(1, 4)]
            return self.near(sum(each.size for each in some))
        return self.random.choice(
            (0, 1, 60, 61, 100, 1000, 5000, 65536, 1 << 20, 1 << 20, MAX_INT32, -1)
        )

    def some_group(self) -> str:
        """The id of a group."""
        if not self.known.groups or self.chance(0.15):
            return self.random.choice(("", "no-such-group", "größe", "g" * 300))
        return self.random.choice(self.known.groups)

    def some_member(self) -> str | None:
        """A member's id, or none."""
        self.has_id = self.chance(0.4)
        return self.random.choice(("", "member")) if self.has_id else None

    def some_member_epoch(self) -> int:
        """The epoch of a member, -1 without one: a broker fails at others."""
        return self.random.choice((-1, 0, 1)) if self.has_id else -1

    def some_full_name(self) -> str:
        """The name of a topic, not empty: a broker that is asked for its partitions without a cursor fails at that."""
        return self.some_topic() or "orders"

    def some_transaction(self) -> str:
        """A transactional id."""
        return self.random.choice((*self.known.transactions, "no-such-transaction", ""))

    def some_producer(self) -> int:
        """The id of a producer."""
        return self.random.choice((*self.known.producers, 12345, -1))


Value: TypeAlias = Callable[[Draw], Any]


def one_of(*values: object) -> Value:
    """A choice of values."""
    return lambda draw: draw.random.choice(values)


VALUES: dict[str, Value] = {
    "FetchTopic.topicId": Draw.some_fetch_id,
    "ForgottenTopic.topicId": Draw.some_fetch_id,
    "MetadataRequestTopic.topicId": Draw.some_metadata_id,
    "MetadataRequestTopic.name": Draw.some_metadata_name,
    "name": Draw.some_topic,
    "topic": Draw.some_topic,
    "topicId": Draw.some_topic_id,
    "partition": Draw.some_partition,
    "partitions": Draw.some_partition,
    "partitionIndex": Draw.some_partition,
    "partitionIndexes": Draw.some_partition,
    "fetchOffset": Draw.some_offset,
    "logStartOffset": one_of(-1, -1, 0, 5),
    "currentLeaderEpoch": Draw.some_epoch,
    "lastFetchedEpoch": Draw.some_batch_epoch,
    "leaderEpoch": Draw.some_batch_epoch,
    "timestamp": Draw.some_time,
    "partitionMaxBytes": Draw.some_bytes,
    "maxBytes": Draw.some_bytes,
    "minBytes": one_of(0, 0, 1, 1, 100, 100_000, MAX_INT32, -1),
    "maxWaitMs": one_of(0, 0, 0, 0, 0, 0, 0, 1, 20, -1),
    "isolationLevel": one_of(0, 1),
    "replicaId": one_of(-1),
    "replicaEpoch": one_of(-1),
    "highWatermark": one_of(MAX_INT64),
    "replicaDirectoryId": one_of(NULL_UUID),
    "clusterId": one_of(None),
    "rackId": one_of("", "rack-1"),
    "groupId": Draw.some_group,
    "groups": Draw.some_group,
    "key": Draw.some_group,
    "coordinatorKeys": Draw.some_group,
    "keyType": one_of(0, 0, 0, 1, 1, 2, 3, -1),
    "memberId": one_of(None, None, "", "member"),
    "memberEpoch": one_of(-1, -1, 0, 1),
    "statesFilter": one_of("Empty", "empty", "Stable", "Dead", "NoSuchState", "", "PreparingRebalance"),
    "typesFilter": one_of("classic", "Consumer", "share", "streams", "unknown", ""),
    "resourceType": one_of(2, 2, 2, 2, 4, 4, 8, 16, 32, 0, 1, 3, 127),
    "resourceName": lambda draw: (
        draw.random.choice(("", "1", "0", "x", str(draw.known.node))) if draw.chance(0.4) else draw.some_topic()
    ),
    "configurationKeys": one_of(
        "cleanup.policy", "retention.ms", "segment.bytes", "compression.type", "no.such.key",
        "message.timestamp.type", "max.compaction.lag.ms", "min.cleanable.dirty.ratio",
    ),
    "endpointType": one_of(1, 1, 1, 1, 2, 0, 3),
    "clientSoftwareName": one_of("wire", "wire", "w", "", "no name!", "-x"),
    "clientSoftwareVersion": one_of("1", "1.2.3-x", "", "é"),
    "groupIds": Draw.some_group,
    "generationId": one_of(-1, -1, 0, 1, 5, -2),
    "OffsetFetchRequestGroup.memberId": Draw.some_member,
    "OffsetFetchRequestGroup.memberEpoch": Draw.some_member_epoch,
    "Cursor.partitionIndex": one_of(0, 0, 1, 7, -1),
    "TopicRequest.name": Draw.some_full_name,
    "HeartbeatRequest.memberId": one_of("", "member"),
    "LeaveGroupRequest.memberId": one_of("", "member"),
    "MemberIdentity.memberId": one_of("", "member"),
    "SyncGroupRequest.memberId": one_of("", "member"),
    "SyncGroupRequestAssignment.memberId": one_of("", "member"),
    "ConsumerGroupHeartbeatRequest.memberId": one_of("", "member", "m" * 40),
    "ConsumerGroupHeartbeatRequest.memberEpoch": one_of(1, 5, -1, -2, -3),
    "groupInstanceId": one_of(None, None, "instance"),
    "instanceId": one_of(None, None, "instance"),
    "protocolType": one_of(None, "consumer", "connect"),
    "protocolName": one_of(None, "range"),
    "rebalanceTimeoutMs": one_of(-1, 5000),
    "subscribedTopicNames": Draw.some_topic,
    "subscribedTopicRegex": one_of(None, None, "orders.*", "("),
    "serverAssignor": one_of(None, None, "uniform", "range", "none"),
    "resourceTypeFilter": one_of(1, 1, 2, 3, 4, 5, 6, 7, 0, 8),
    "resourceNameFilter": one_of(None, "ord", "orders", "no-such-topic"),
    "patternTypeFilter": one_of(1, 1, 2, 3, 4, 0, 9),
    "principalFilter": one_of(None, "User:alice", "User:*"),
    "hostFilter": one_of(None, "*", "127.0.0.1"),
    "operation": one_of(1, 1, 2, 3, 8, 0, 99),
    "permissionType": one_of(1, 1, 2, 3, 0, 7),
    "principalType": one_of("User", ""),
    "principalName": one_of("alice", ""),
    "entityType": one_of("user", "user", "client-id", "client-id", "ip", "", "x"),
    "matchType": one_of(0, 0, 1, 2, 3, -1),
    "match": one_of(None, "alice", "consumer", "127.0.0.1", ""),
    "UserName.name": one_of("alice", "bob", "", "größe"),
    "topicName": Draw.some_topic,
    "transactionalIds": Draw.some_transaction,
    "stateFilters": one_of("Ongoing", "Empty", "CompleteCommit", "CompleteAbort", "NoSuchState", ""),
    "producerIdFilters": Draw.some_producer,
    "durationFilter": one_of(-1, -1, 0, -2),
    "transactionalIdPattern": one_of(None, None, "", "tx-.*", "later-[01]", "("),
    "resourceTypes": one_of(2, 4, 8, 16, 32, 0, 3),
    "responsePartitionLimit": one_of(2000, 2000, 1, 2, 5, 0, -1, MAX_INT32),
    "SaslHandshakeRequest.mechanism": one_of("PLAIN", "SCRAM-SHA-256", ""),
    "timeoutMs": one_of(0, 1, 1000, -1),
}  # fmt: skip
"""Values of fields by name, after that of their structure where it matters; of arrays of numbers and texts, the values of their elements."""
SIZES = (0, 1, 1, 1, 1, 1, 2, 2, 3, 5)
NULL_SHARE, WRONG_NULL_SHARE, WRONG_VERSION_SHARE = 0.12, 0.0005, 0.001


class Generator:
    """Makes requests for a directory.

    Args:
        known: the directory.
        weights: shares of the APIs, by number.
    """

    def __init__(self, known: Known, weights: dict[int, int]) -> None:
        self._known = known
        self._keys, self._weights = list(weights), list(weights.values())

    def request(self, random: Random) -> Generated:
        """Make a request."""
        (key,) = random.choices(self._keys, self._weights)
        message = Api(key).request
        version = random.randint(message.first_version, message.last_version)
        return Generated(key, version, self.fields(key, version, random))

    def fields(self, key: int, version: int, random: Random) -> Fields:
        """Make the fields of a request."""
        message = Api(key).request
        return _struct(message.name, message.fields, version, Draw(self._known, random))


def _struct(name: str, fields: Sequence[Field], version: int, draw: Draw) -> Fields:
    return {
        field.name: _field(name, field, version, draw) for field in fields if field.is_in(version)
    }


def _field(struct: str, field: Field, version: int, draw: Draw) -> Any:
    if field.tag is not None and draw.chance(0.5):
        return field.absent()
    made = VALUES.get(f"{struct}.{field.name}")
    if made is not None:
        return made(draw)
    if field.nullable and draw.chance(NULL_SHARE):
        return None
    if isinstance(field.type, Array):
        if draw.chance(WRONG_NULL_SHARE):
            return None
        return _elements(field, version, draw)
    if isinstance(field.type, Struct):
        return _struct(field.type.name, field.type.fields, version, draw)
    made = VALUES.get(field.name)
    return _any(field.type, draw) if made is None else made(draw)


def _elements(field: Field, version: int, draw: Draw) -> list[Any]:
    assert isinstance(field.type, Array)
    element = field.type.element
    count = draw.random.choice(SIZES)
    if isinstance(element, Struct):
        found = [_struct(element.name, element.fields, version, draw) for _ in range(count)]
    else:
        assert isinstance(element, Scalar)
        made = VALUES.get(field.name, lambda draw: _any(element, draw))
        found = [made(draw) for _ in range(count)]
    if found and draw.chance(0.05):
        found.append(draw.random.choice(found))
    return found


def _any(kind: Scalar, draw: Draw) -> Any:
    """Any value of a type, where no name says what the values mean."""
    if kind is Scalar.BOOL:
        return draw.chance(0.5)
    if kind is Scalar.UUID:
        return draw.some_topic_id()
    if kind is Scalar.STRING:
        return draw.random.choice(("", "x", "größe"))
    if kind is Scalar.BYTES:
        return draw.random.randbytes(draw.random.choice((0, 1, 20)))
    if kind is Scalar.FLOAT64:
        return draw.random.choice((0.0, -1.5, 1e300))
    low, high = _LIMITS[kind]
    return draw.random.choice((0, 1, -1 if low else 2, low, high))
