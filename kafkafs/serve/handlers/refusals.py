"""The requests that write, and how each is refused.

Requests whose answers have room for a sentence violate a policy, an error that no client tries again. The others are
not authorized, which clients tell more clearly than a policy without a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.refused import HowRefused, Items
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.messages import (
    acls,
    configs,
    credentials,
    offsets,
    producers,
    quorum,
    quotas,
    records,
    replicas,
    topics,
    transactions,
)
from kafkafs.serve.protocol.messages.groups import (
    classic_groups,
    group_offsets,
    share_groups,
    share_offsets,
    share_records,
    streams_groups,
)

_UNKNOWN = -1
_NAME = {"name": "name"}
_RESOURCE = {"resourceType": "resourceType", "resourceName": "resourceName"}
_PRODUCED = {"baseOffset": _UNKNOWN}
_POLICY = HowRefused(ErrorCode.POLICY_VIOLATION)
_CLUSTER = HowRefused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_NO_TOKENS = HowRefused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
_NO_TRANSACTION = HowRefused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _policy(*items: Items) -> HowRefused:
    return HowRefused(ErrorCode.POLICY_VIOLATION, items)


REFUSALS: Mapping[Api, HowRefused] = {
    records.PRODUCE: _policy(
        Items(
            "topicData",
            "responses",
            {"name": "name", "topicId": "topicId"},
            Items("partitionData", "partitionResponses", {"index": "index"}, fields=_PRODUCED),
        )
    ),
    topics.CREATE_TOPICS: _policy(Items("topics", "topics", _NAME)),
    topics.DELETE_TOPICS: _policy(
        Items("topics", "responses", {"name": "name", "topicId": "topicId"}),
        Items("topicNames", "responses", "name"),
    ),
    topics.CREATE_PARTITIONS: _policy(Items("topics", "results", _NAME)),
    offsets.DELETE_RECORDS: HowRefused(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        (
            Items(
                "topics",
                "topics",
                _NAME,
                Items(
                    "partitions",
                    "partitions",
                    {"partitionIndex": "partitionIndex"},
                    fields={"lowWatermark": _UNKNOWN},
                ),
            ),
        ),
    ),
    producers.INIT_PRODUCER_ID: HowRefused(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, fields={"producerEpoch": _UNKNOWN}
    ),
    transactions.ADD_PARTITIONS_TO_TXN: HowRefused(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        (
            Items(
                "transactions",
                "resultsByTransaction",
                {"transactionalId": "transactionalId"},
                Items(
                    "topics",
                    "topicResults",
                    _NAME,
                    Items("partitions", "resultsByPartition", "partitionIndex"),
                ),
            ),
            Items(
                "v3AndBelowTopics",
                "resultsByTopicV3AndBelow",
                _NAME,
                Items("partitions", "resultsByPartition", "partitionIndex"),
            ),
        ),
    ),
    transactions.ADD_OFFSETS_TO_TXN: _NO_TRANSACTION,
    transactions.END_TXN: _NO_TRANSACTION,
    transactions.WRITE_TXN_MARKERS: HowRefused(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        (
            Items(
                "markers",
                "markers",
                {"producerId": "producerId"},
                Items(
                    "topics",
                    "topics",
                    _NAME,
                    Items("partitionIndexes", "partitions", "partitionIndex"),
                ),
            ),
        ),
    ),
    transactions.TXN_OFFSET_COMMIT: HowRefused(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        (
            Items(
                "topics",
                "topics",
                {"name": "name", "topicId": "topicId"},
                Items("partitions", "partitions", {"partitionIndex": "partitionIndex"}),
            ),
        ),
    ),
    acls.CREATE_ACLS: _policy(Items("creations", "results", {})),
    acls.DELETE_ACLS: _policy(Items("filters", "filterResults", {})),
    configs.ALTER_CONFIGS: _policy(Items("resources", "responses", _RESOURCE)),
    configs.INCREMENTAL_ALTER_CONFIGS: _policy(Items("resources", "responses", _RESOURCE)),
    replicas.ALTER_REPLICA_LOG_DIRS: HowRefused(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        (
            Items(
                "dirs.topics",
                "results",
                {"topicName": "name"},
                Items("partitions", "partitions", "partitionIndex"),
            ),
        ),
    ),
    replicas.ELECT_LEADERS: HowRefused(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        (
            Items(
                "topicPartitions",
                "replicaElectionResults",
                {"topic": "topic"},
                Items("partitions", "partitionResult", "partitionId"),
            ),
        ),
    ),
    replicas.ALTER_PARTITION_REASSIGNMENTS: _policy(
        Items(
            "topics",
            "responses",
            _NAME,
            Items("partitions", "partitions", {"partitionIndex": "partitionIndex"}),
        )
    ),
    classic_groups.DELETE_GROUPS: HowRefused(
        ErrorCode.GROUP_AUTHORIZATION_FAILED, (Items("groupsNames", "results", "groupId"),)
    ),
    group_offsets.OFFSET_DELETE: HowRefused(ErrorCode.GROUP_AUTHORIZATION_FAILED),
    quotas.ALTER_CLIENT_QUOTAS: _policy(Items("entries", "entries", {"entity": "entity"})),
    quotas.PUSH_TELEMETRY: _CLUSTER,
    credentials.ALTER_USER_SCRAM_CREDENTIALS: _policy(
        Items("deletions", "results", {"user": "name"}),
        Items("upsertions", "results", {"user": "name"}),
    ),
    credentials.CREATE_DELEGATION_TOKEN: _NO_TOKENS,
    credentials.RENEW_DELEGATION_TOKEN: _NO_TOKENS,
    credentials.EXPIRE_DELEGATION_TOKEN: _NO_TOKENS,
    quorum.UPDATE_FEATURES: _policy(Items("featureUpdates", "results", {"feature": "feature"})),
    quorum.UNREGISTER_BROKER: _POLICY,
    quorum.UNREGISTER_CONTROLLER: _POLICY,
    quorum.ADD_RAFT_VOTER: _POLICY,
    quorum.REMOVE_RAFT_VOTER: _POLICY,
    share_groups.SHARE_GROUP_HEARTBEAT: _POLICY,
    share_records.SHARE_FETCH: _POLICY,
    share_records.SHARE_ACKNOWLEDGE: _POLICY,
    share_offsets.ALTER_SHARE_GROUP_OFFSETS: _POLICY,
    share_offsets.DELETE_SHARE_GROUP_OFFSETS: _POLICY,
    streams_groups.STREAMS_GROUP_HEARTBEAT: _POLICY,
    streams_groups.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _POLICY,
}
