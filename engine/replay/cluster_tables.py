"""Tables of the cluster state, and the effect of each record of `__cluster_metadata`, as in Kafka's metadata images.

A record that contradicts the state, such as a change of an unknown partition, is noted and has no effect: Kafka
treats it as a bug and stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from engine.units import Offset, Timestamp

Facts: TypeAlias = dict[str, Any]

NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1
MOST_NOTES = 1000
KRAFT_VERSION = "kraft.version"

RESOURCE_TYPES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
"""Types of configuration resources, as kafka-configs names them."""
ACL_RESOURCE_TYPES = {
    2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER",
}  # fmt: skip
PATTERN_TYPES = {3: "LITERAL", 4: "PREFIXED"}
OPERATIONS = {
    2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE",
    9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS", 14: "DESCRIBE_TOKENS", 15: "TWO_PHASE_COMMIT",
}  # fmt: skip
PERMISSIONS = {2: "DENY", 3: "ALLOW"}
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
RECOVERY_STATES = {0: "RECOVERED", 1: "RECOVERING"}


class Item(NamedTuple):
    """A row of a table: its facts, and the record that changed it last."""

    facts: Facts
    offset: Offset
    timestamp: Timestamp


Table: TypeAlias = Mapping[Any, Item]


class Tables:
    """The state of a cluster under construction. Copies only changed parts of the given state.

    Attributes:
        notes: records that were inconsistent or unreadable, the first MOST_NOTES.
    """

    def __init__(
        self,
        tables: Mapping[str, Table],
        partitions: Mapping[str, Mapping[int, Item]],
        notes: tuple[str, ...] = (),
    ) -> None:
        self.notes = list(notes)
        self._tables = dict(tables)
        self._own: set[str] = set()
        self._partitions: dict[str, dict[int, Item]] | None = None
        self._given_partitions = partitions
        self._own_partitions: set[str] = set()
        self._offset: Offset = -1
        self._timestamp: Timestamp = -1

    def tables(self) -> Mapping[str, Table]:
        """Return all tables by name."""
        return dict(self._tables)

    def partitions(self) -> Mapping[str, Mapping[int, Item]]:
        """Return the partitions by topic id and number."""
        return self._given_partitions if self._partitions is None else self._partitions

    def apply(self, kind: str, facts: Facts, offset: Offset, timestamp: Timestamp) -> None:
        """Apply a record, by Kafka's name of its type."""
        self._offset, self._timestamp = offset, timestamp
        change = _CHANGES.get(kind)
        if change is not None:
            change(self, facts)
        elif kind not in _WITHOUT_EFFECT:
            self.put("other", f"{kind}@{offset}", {"type": kind, **facts})

    def note(self, sentence: str) -> None:
        """Add a note about the current record."""
        if len(self.notes) < MOST_NOTES:
            self.notes.append(f"offset {self._offset}: {sentence}")

    def item(self, facts: Facts) -> Item:
        """Return a row with the current record's offset and timestamp."""
        return Item(facts, self._offset, self._timestamp)

    def table(self, name: str) -> dict[Any, Item]:
        """Return a table for changes."""
        if name not in self._own:
            self._own.add(name)
            self._tables[name] = dict(self._tables.get(name, {}))
        found = self._tables[name]
        assert isinstance(found, dict)
        return found

    def get(self, name: str, key: object) -> Item | None:
        """Return a row, or None."""
        return self._tables.get(name, {}).get(key)

    def put(self, name: str, key: object, facts: Facts) -> None:
        """Add or replace a row."""
        self.table(name)[key] = self.item(facts)

    def update(self, name: str, key: object, **facts: object) -> bool:
        """Change some facts of a row. Return False if there is none."""
        found = self.get(name, key)
        if found is None:
            return False
        self.put(name, key, {**found.facts, **facts})
        return True

    def remove(self, name: str, key: object) -> bool:
        """Remove a row. Return False if there was none."""
        return key in self._tables.get(name, {}) and self.table(name).pop(key, None) is not None

    def partitions_of(self, topic_id: str) -> dict[int, Item]:
        """Return a topic's partitions for changes."""
        if self._partitions is None:
            self._partitions = {key: dict(rows) for key, rows in self._given_partitions.items()}
        return self._partitions.setdefault(topic_id, {})

    def forget_topic(self, topic_id: str) -> None:
        """Remove a topic's partitions."""
        self.partitions_of(topic_id)
        if self._partitions is not None:
            del self._partitions[topic_id]


def _topic(state: Tables, facts: Facts) -> None:
    state.put("topics", facts["topicId"], {"name": facts["name"], "topicId": facts["topicId"]})
    state.partitions_of(facts["topicId"])


def _remove_topic(state: Tables, facts: Facts) -> None:
    topic_id = facts["topicId"]
    found = state.get("topics", topic_id)
    if found is None:
        state.note(f"there is no topic {topic_id} to remove")
        return
    state.remove("topics", topic_id)
    state.forget_topic(topic_id)
    state.remove("configs", ("topic", found.facts["name"]))


def _partition(state: Tables, facts: Facts) -> None:
    if state.get("topics", facts["topicId"]) is None:
        state.note(f"there is no topic {facts['topicId']} for a partition")
        return
    rows = state.partitions_of(facts["topicId"])
    rows[facts["partitionId"]] = state.item(
        {
            "partition": facts["partitionId"],
            "leader": facts["leader"],
            "leaderEpoch": facts["leaderEpoch"],
            "partitionEpoch": facts["partitionEpoch"],
            "replicas": facts["replicas"],
            "isr": facts["isr"],
            "removingReplicas": facts["removingReplicas"],
            "addingReplicas": facts["addingReplicas"],
            "leaderRecoveryState": _named(RECOVERY_STATES, facts.get("leaderRecoveryState", 0)),
            "directories": facts.get("directories", []),
            "eligibleLeaderReplicas": facts.get("eligibleLeaderReplicas") or [],
            "lastKnownElr": facts.get("lastKnownElr") or [],
        }
    )


def _change_partition(state: Tables, facts: Facts) -> None:
    rows = state.partitions_of(facts["topicId"])
    number = facts["partitionId"]
    if number not in rows:
        state.note(f"there is no partition {number} of topic {facts['topicId']} to change")
        return
    row = dict(rows[number].facts)
    lists = (
        "isr",
        "replicas",
        "removingReplicas",
        "addingReplicas",
        "directories",
        "eligibleLeaderReplicas",
        "lastKnownElr",
    )
    row |= {name: facts[name] for name in lists if facts.get(name) is not None}
    leader = facts.get("leader", NO_LEADER_CHANGE)
    if leader != NO_LEADER_CHANGE:
        row |= {"leader": leader, "leaderEpoch": row["leaderEpoch"] + 1}
    recovery = facts.get("leaderRecoveryState", NO_RECOVERY_CHANGE)
    if recovery != NO_RECOVERY_CHANGE:
        row["leaderRecoveryState"] = _named(RECOVERY_STATES, recovery)
    row["partitionEpoch"] += 1
    rows[number] = state.item(row)


def _clear_elr(state: Tables, facts: Facts) -> None:
    name = facts["topicName"]
    topics = state.tables().get("topics", {})
    for topic_id, topic in topics.items():
        if name not in ("", topic.facts["name"]):
            continue
        rows = state.partitions_of(topic_id)
        for number, row in rows.items():
            if row.facts["eligibleLeaderReplicas"] or row.facts["lastKnownElr"]:
                rows[number] = state.item(
                    {**row.facts, "eligibleLeaderReplicas": [], "lastKnownElr": []}
                )


def _config(state: Tables, facts: Facts) -> None:
    kind = _named(RESOURCE_TYPES, facts["resourceType"])
    key = kind, facts["resourceName"]
    found = state.get("configs", key)
    values = {} if found is None else dict(found.facts["configs"])
    if facts["value"] is None:
        values.pop(facts["name"], None)
    else:
        values[facts["name"]] = facts["value"]
    if values:
        state.put("configs", key, {"type": kind, "name": key[1], "configs": values})
    else:
        state.remove("configs", key)


def _broker(state: Tables, facts: Facts) -> None:
    state.put("brokers", facts["brokerId"], dict(facts))


def _remove_broker(state: Tables, facts: Facts) -> None:
    if not state.remove("brokers", facts["brokerId"]):
        state.note(f"there is no broker {facts['brokerId']} to remove")


def _fence(state: Tables, facts: Facts) -> None:
    _change_broker(state, facts["id"], facts["epoch"], {"fenced": True})


def _unfence(state: Tables, facts: Facts) -> None:
    _change_broker(state, facts["id"], facts["epoch"], {"fenced": False})


def _broker_registration(state: Tables, facts: Facts) -> None:
    changes: Facts = {}
    fenced, shutdown = facts.get("fenced", 0), facts.get("inControlledShutdown", 0)
    if fenced:
        changes["fenced"] = fenced > 0
    if shutdown:
        changes["inControlledShutdown"] = shutdown > 0
    if facts.get("logDirs"):
        changes["logDirs"] = facts["logDirs"]
    if facts.get("cordonedLogDirs") is not None:
        changes["cordonedLogDirs"] = facts["cordonedLogDirs"]
    _change_broker(state, facts["brokerId"], facts["brokerEpoch"], changes)


def _change_broker(state: Tables, number: int, epoch: int, changes: Facts) -> None:
    found = state.get("brokers", number)
    if found is None or found.facts["brokerEpoch"] != epoch:
        state.note(f"there is no broker {number} of epoch {epoch} to change")
        return
    state.update("brokers", number, **changes)


def _controller(state: Tables, facts: Facts) -> None:
    state.put("controllers", facts["controllerId"], dict(facts))


def _remove_controller(state: Tables, facts: Facts) -> None:
    if not state.remove("controllers", facts["controllerId"]):
        state.note(f"there is no controller {facts['controllerId']} to remove")


def _feature(state: Tables, facts: Facts) -> None:
    name, level = facts["name"], facts["featureLevel"]
    if name == KRAFT_VERSION:  # set by a control record
        return
    if level == 0:
        state.remove("features", name)
    else:
        state.put("features", name, {"name": name, "level": level})


def _remove_feature(state: Tables, facts: Facts) -> None:
    state.remove("features", facts["name"])


def _quota(state: Tables, facts: Facts) -> None:
    entity = {each["entityType"]: each["entityName"] for each in facts["entity"]}
    key = tuple(sorted(entity.items(), key=lambda item: item[0]))
    found = state.get("quotas", key)
    values = {} if found is None else dict(found.facts["quotas"])
    if facts["remove"]:
        values.pop(facts["key"], None)
    else:
        values[facts["key"]] = facts["value"]
    if values:
        state.put("quotas", key, {"entity": entity, "quotas": values})
    else:
        state.remove("quotas", key)


def _producer_ids(state: Tables, facts: Facts) -> None:
    state.put("quorum", "producerIds", dict(facts))


def _acl(state: Tables, facts: Facts) -> None:
    shown = {
        **facts,
        "resourceType": _named(ACL_RESOURCE_TYPES, facts["resourceType"]),
        "patternType": _named(PATTERN_TYPES, facts["patternType"]),
        "operation": _named(OPERATIONS, facts["operation"]),
        "permissionType": _named(PERMISSIONS, facts["permissionType"]),
    }
    state.put("acls", facts["id"], shown)


def _remove_acl(state: Tables, facts: Facts) -> None:
    if not state.remove("acls", facts["id"]):
        state.note(f"there is no ACL {facts['id']} to remove")


def _user(state: Tables, facts: Facts) -> None:
    mechanism = _named(MECHANISMS, facts["mechanism"])
    shown = {"name": facts["name"], "mechanism": mechanism, "iterations": facts["iterations"]}
    state.put("users", (facts["name"], mechanism), shown)


def _remove_user(state: Tables, facts: Facts) -> None:
    state.remove("users", (facts["name"], _named(MECHANISMS, facts["mechanism"])))


def _token(state: Tables, facts: Facts) -> None:
    state.put("tokens", facts["tokenId"], dict(facts))


def _remove_token(state: Tables, facts: Facts) -> None:
    state.remove("tokens", facts["tokenId"])


def _zk_migration(state: Tables, facts: Facts) -> None:
    state.put("quorum", "zkMigration", dict(facts))


def _leader_change(state: Tables, facts: Facts) -> None:
    state.put("quorum", "leader", dict(facts))


def _kraft_version(state: Tables, facts: Facts) -> None:
    level = facts["kRaftVersion"]
    state.put("features", KRAFT_VERSION, {"name": KRAFT_VERSION, "level": level})


def _voters(state: Tables, facts: Facts) -> None:
    state.put("quorum", "voters", {"voters": facts["voters"]})


_WITHOUT_EFFECT = frozenset(
    {
        "NO_OP_RECORD",
        "BEGIN_TRANSACTION_RECORD",
        "END_TRANSACTION_RECORD",
        "ABORT_TRANSACTION_RECORD",
        "SNAPSHOT_HEADER",
        "SNAPSHOT_FOOTER",
    }
)

_CHANGES: dict[str, Callable[[Tables, Facts], None]] = {
    "REGISTER_BROKER_RECORD": _broker,
    "UNREGISTER_BROKER_RECORD": _remove_broker,
    "TOPIC_RECORD": _topic,
    "PARTITION_RECORD": _partition,
    "CONFIG_RECORD": _config,
    "PARTITION_CHANGE_RECORD": _change_partition,
    "FENCE_BROKER_RECORD": _fence,
    "UNFENCE_BROKER_RECORD": _unfence,
    "REMOVE_TOPIC_RECORD": _remove_topic,
    "DELEGATION_TOKEN_RECORD": _token,
    "USER_SCRAM_CREDENTIAL_RECORD": _user,
    "FEATURE_LEVEL_RECORD": _feature,
    "CLIENT_QUOTA_RECORD": _quota,
    "PRODUCER_IDS_RECORD": _producer_ids,
    "REMOVE_FEATURE_LEVEL_RECORD": _remove_feature,
    "BROKER_REGISTRATION_CHANGE_RECORD": _broker_registration,
    "ACCESS_CONTROL_ENTRY_RECORD": _acl,
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": _remove_acl,
    "ZK_MIGRATION_STATE_RECORD": _zk_migration,
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": _remove_user,
    "REMOVE_DELEGATION_TOKEN_RECORD": _remove_token,
    "REGISTER_CONTROLLER_RECORD": _controller,
    "UNREGISTER_CONTROLLER_RECORD": _remove_controller,
    "CLEAR_ELR_RECORD": _clear_elr,
    "LEADER_CHANGE": _leader_change,
    "KRAFT_VERSION": _kraft_version,
    "KRAFT_VOTERS": _voters,
}


def _named(names: Mapping[int, str], number: int) -> str:
    """Return the name of a code; an unknown code itself."""
    return names.get(number, str(number))
