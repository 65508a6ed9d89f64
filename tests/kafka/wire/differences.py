"""How two answers to a request differ, and the differences that are allowed, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from engine.clock import SystemClock
from tests.kafka.wire.peers import API_VERSIONS_KEY, Answer, Fields

DESCRIBE_CONFIGS, DESCRIBE_PRODUCERS, CONSUMER_HEARTBEAT = 32, 61, 68
UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND = 25, 69
NO_OPERATIONS = -(2**31)
"""Authorized operations that are not told."""


class Allowed(NamedTuple):
    """A field whose values may differ.

    Attributes:
        path: names of the fields, `*` for each element of an array; a last part alone is any field of this name.
        reason: why.
        keys: numbers of the APIs; all without them.
    """

    path: str
    reason: str
    keys: tuple[int, ...] = ()

    def is_of(self, key: int) -> bool:
        """Return whether an API has the field."""
        return not self.keys or key in self.keys


OTHER: tuple[Allowed, ...] = (
    Allowed("throttleTimeMs", "time: quotas delay answers of a busy broker"),
    Allowed("host", "listener"),
    Allowed("port", "listener"),
    Allowed("readOnly", "kafkafs changes no setting", (32,)),
    Allowed("documentation", "the sentences are in a broker's code", (32,)),
    Allowed("finalizedFeaturesEpoch", "time: the broker goes on writing its metadata log", (18,)),
    Allowed("totalBytes", "time: the room of the file system", (35,)),
    Allowed("usableBytes", "time: the room of the file system", (35,)),
    Allowed("highWatermark", "time: the controller goes on writing its log", (55,)),
    Allowed("logEndOffset", "time: the controller goes on writing its log", (55,)),
    Allowed("lastFetchTimestamp", "time: when a voter fetched is in no file", (55,)),
    Allowed("lastCaughtUpTimestamp", "time: when a voter fetched is in no file", (55,)),
    Allowed("heartbeatIntervalMs", "time: kafkafs asks members more often", (68,)),
)
"""Fields that are not compared."""
TOLD: tuple[Allowed, ...] = (
    Allowed("errorMessage", "sentences are our own; that there is one is compared"),
    Allowed(
        "topicAuthorizedOperations",
        "kafkafs allows no writes; whether operations are told is compared",
    ),
    Allowed(
        "clusterAuthorizedOperations",
        "kafkafs allows no writes; whether operations are told is compared",
    ),
    Allowed(
        "authorizedOperations", "kafkafs allows no writes; whether operations are told is compared"
    ),
    Allowed("errorCode", "tokens are off; a broker refuses clients without a login first", (41,)),
)
"""Fields of which only the presence is compared."""
_HASH_MAP = "a broker answers in the order of a hash map"
UNORDERED: tuple[Allowed, ...] = (
    Allowed("topics", _HASH_MAP, (2, 3, 9, 23)),
    Allowed("topics.*.partitions", _HASH_MAP, (2, 3, 9)),
    Allowed("results", _HASH_MAP, (32, 50)),
    Allowed("results.*.configs", _HASH_MAP, (32,)),
    Allowed("results.*.topics", _HASH_MAP, (35,)),
    Allowed("results.*.topics.*.partitions", _HASH_MAP, (35,)),
    Allowed("finalizedFeatures", _HASH_MAP, (18,)),
    Allowed("supportedFeatures", _HASH_MAP, (18,)),
    Allowed("transactionStates", _HASH_MAP, (66,)),
    Allowed("transactionStates.*.topics", _HASH_MAP, (65,)),
    Allowed("transactionStates.*.topics.*.partitions", _HASH_MAP, (65,)),
    Allowed("unknownStateFilters", _HASH_MAP, (66,)),
    Allowed("configResources", _HASH_MAP, (74,)),
    Allowed("resources", _HASH_MAP, (29,)),
    Allowed("resources.*.acls", _HASH_MAP, (29,)),
    Allowed("groups", _HASH_MAP, (15, 16, 69, 77, 89)),
    Allowed("groups.*.topics", _HASH_MAP, (9,)),
    Allowed("groups.*.topics.*.partitions", _HASH_MAP, (9,)),
    Allowed("members", _HASH_MAP, (11,)),
    Allowed("groups.*.members", _HASH_MAP, (15, 69)),
    Allowed("groups.*.members.*.subscribedTopicNames", _HASH_MAP, (69,)),
    Allowed("groups.*.members.*.assignment.topicPartitions", _HASH_MAP, (69,)),
    Allowed("groups.*.members.*.assignment.topicPartitions.*.partitions", _HASH_MAP, (69,)),
    Allowed("groups.*.members.*.targetAssignment.topicPartitions", _HASH_MAP, (69,)),
    Allowed("groups.*.members.*.targetAssignment.topicPartitions.*.partitions", _HASH_MAP, (69,)),
    Allowed("assignment.topicPartitions", _HASH_MAP, (68,)),
    Allowed("assignment.topicPartitions.*.partitions", _HASH_MAP, (68,)),
)
"""Arrays that are compared in one order."""


FORGOTTEN_MS = 24 * 60 * 60 * 1000
TELEMETRY = (71, 72)
"""APIs that a broker states only with a plugin for clients' metrics."""
TOPOLOGIES = 89
"""Its version 1 describes topologies, which only a broker with a plugin keeps; ours ends at 0."""
DEFAULTS = (4, 5, 6)
"""Sources of settings that are in no directory: a broker's file and code, and its loggers."""


def without(key: int, fields: Fields) -> Fields:
    """The fields of an answer as they are compared; the answer is changed."""
    others = {each.path for each in OTHER if each.is_of(key)}
    told = {each.path for each in TOLD if each.is_of(key)}
    if key == DESCRIBE_PRODUCERS:
        _drop_old_producers(fields)
    if key == DESCRIBE_CONFIGS:
        _drop_defaults(fields)
    _reduce(fields, others, told)
    for each in reversed(UNORDERED):
        if each.is_of(key):
            _sort(fields, each.path.split("."))
    return fields


def differences(key: int, broker: Answer, ours: Answer) -> list[str]:
    """Return sentences about all differences of two answers."""
    found = []
    if ours.left:
        found.append(f"ours has {ours.left}")
    if broker.left:
        found.append(f"the broker's has {broker.left}")
    if broker.fields is None or ours.fields is None:
        if broker.fields is not ours.fields:
            one, other = ("the broker", "we") if broker.fields is None else ("we", "the broker")
            found.append(f"{one} closed the connection, {other} answered")
        return found
    if key == CONSUMER_HEARTBEAT and broker.fields["errorCode"] == GROUP_ID_NOT_FOUND:
        _allow_unknown_member(ours.fields)
    pair = without(key, broker.fields), without(key, ours.fields)
    if key == API_VERSIONS_KEY:
        theirs, own = (
            {
                each["apiKey"]: (each["minVersion"], each["maxVersion"])
                for each in fields.pop("apiKeys")
            }
            for fields in pair
        )
        found += [
            f"API {api}: the broker's versions {theirs.get(api)}, ours {versions}"
            for api, versions in own.items()
            if theirs.get(api, versions if api in TELEMETRY else None) != versions
            and (api, versions) != (TOPOLOGIES, (0, 0))
        ]
    return found + list(_different("", *pair))


def _allow_unknown_member(fields: Fields) -> None:
    """Let a member of a group that is not in memory join anew: the server may have been started again."""
    if fields["errorCode"] == UNKNOWN_MEMBER_ID:
        fields["errorCode"] = GROUP_ID_NOT_FOUND


def _different(path: str, broker: Any, ours: Any) -> Iterator[str]:
    if isinstance(broker, dict) and isinstance(ours, dict):
        for name in broker:
            yield from _different(f"{path}.{name}" if path else name, broker[name], ours[name])
    elif isinstance(broker, list) and isinstance(ours, list) and len(broker) == len(ours):
        for number, pair in enumerate(zip(broker, ours, strict=True)):
            yield from _different(f"{path}.{number}", *pair)
    elif broker != ours:
        yield f"{path}: the broker's {_short(broker)}, ours {_short(ours)}"


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes {value[:24].hex()}"
    text = repr(value)
    return text if len(text) < 400 else f"{text[:400]}… ({len(text)} characters)"


def _reduce(value: Any, others: set[str], told: set[str]) -> None:
    if isinstance(value, list):
        for each in value:
            _reduce(each, others, told)
    elif isinstance(value, dict):
        for name in value.keys() & others:
            del value[name]
        for name in value.keys() & told:
            value[name] = value[name] not in (None, "", 0, NO_OPERATIONS)
        for each in value.values():
            _reduce(each, others, told)


def _drop_old_producers(fields: Fields) -> None:
    """Leave out producers that a broker may have forgotten by its clock, a day after their last batch."""
    oldest = SystemClock().now_ms() - FORGOTTEN_MS // 2
    for topic in fields["topics"]:
        for each in topic["partitions"]:
            known = each["activeProducers"]
            each["activeProducers"] = [one for one in known if one["lastTimestamp"] > oldest]


def _drop_defaults(fields: Fields) -> None:
    for result in fields["results"]:
        result["configs"] = [
            each for each in result["configs"] if each["configSource"] not in DEFAULTS
        ]
        for each in result["configs"]:
            each["synonyms"] = [one for one in each["synonyms"] if one["source"] not in DEFAULTS]


def _sort(fields: Any, names: list[str]) -> None:
    name, *rest = names
    if name == "*":
        for each in fields:
            _sort(each, rest)
    elif rest:
        if isinstance(fields.get(name), dict | list):
            _sort(fields[name], rest)
    elif fields.get(name):
        fields[name].sort(key=repr)
