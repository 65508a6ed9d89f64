"""The requests that write, and how each is refused.

Requests whose answers have room for a sentence violate a policy, an error that no client tries again. The others are
not authorized, which clients tell more clearly than a policy without a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.refused import HowRefused, Items
from kafkafs.serve.protocol.api import Api

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
    Api.PRODUCE: _policy(
        Items(
            "topicData",
            "responses",
            {"name": "name", "topicId": "topicId"},
            Items("partitionData", "partitionResponses", {"index": "index"}, fields=_PRODUCED),
        )
    ),
    Api.CREATE_TOPICS: _policy(Items("topics", "topics", _NAME)),
    Api.DELETE_TOPICS: _policy(
        Items("topics", "responses", {"name": "name", "topicId": "topicId"}),
        Items("topicNames", "responses", "name"),
    ),
    Api.CREATE_PARTITIONS: _policy(Items("topics", "results", _NAME)),
    Api.DELETE_RECORDS: HowRefused(
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
    Api.INIT_PRODUCER_ID: HowRefused(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, fields={"producerEpoch": _UNKNOWN}
    ),
    Api.ADD_PARTITIONS_TO_TXN: HowRefused(
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
    Api.ADD_OFFSETS_TO_TXN: _NO_TRANSACTION,
    Api.END_TXN: _NO_TRANSACTION,
    Api.WRITE_TXN_MARKERS: HowRefused(
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
    Api.TXN_OFFSET_COMMIT: HowRefused(
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
    Api.CREATE_ACLS: _policy(Items("creations", "results", {})),
    Api.DELETE_ACLS: _policy(Items("filters", "filterResults", {})),
    Api.ALTER_CONFIGS: _policy(Items("resources", "responses", _RESOURCE)),
    Api.INCREMENTAL_ALTER_CONFIGS: _policy(Items("resources", "responses", _RESOURCE)),
    Api.ALTER_REPLICA_LOG_DIRS: HowRefused(
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
    Api.ELECT_LEADERS: HowRefused(
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
    Api.ALTER_PARTITION_REASSIGNMENTS: _policy(
        Items(
            "topics",
            "responses",
            _NAME,
            Items("partitions", "partitions", {"partitionIndex": "partitionIndex"}),
        )
    ),
    Api.DELETE_GROUPS: HowRefused(
        ErrorCode.GROUP_AUTHORIZATION_FAILED, (Items("groupsNames", "results", "groupId"),)
    ),
    Api.OFFSET_DELETE: HowRefused(ErrorCode.GROUP_AUTHORIZATION_FAILED),
    Api.ALTER_CLIENT_QUOTAS: _policy(Items("entries", "entries", {"entity": "entity"})),
    Api.PUSH_TELEMETRY: _CLUSTER,
    Api.ALTER_USER_SCRAM_CREDENTIALS: _policy(
        Items("deletions", "results", {"user": "name"}),
        Items("upsertions", "results", {"user": "name"}),
    ),
    Api.CREATE_DELEGATION_TOKEN: _NO_TOKENS,
    Api.RENEW_DELEGATION_TOKEN: _NO_TOKENS,
    Api.EXPIRE_DELEGATION_TOKEN: _NO_TOKENS,
    Api.UPDATE_FEATURES: _policy(Items("featureUpdates", "results", {"feature": "feature"})),
    Api.UNREGISTER_BROKER: _POLICY,
    Api.UNREGISTER_CONTROLLER: _POLICY,
    Api.ADD_RAFT_VOTER: _POLICY,
    Api.REMOVE_RAFT_VOTER: _POLICY,
    Api.SHARE_GROUP_HEARTBEAT: _POLICY,
    Api.SHARE_FETCH: _POLICY,
    Api.SHARE_ACKNOWLEDGE: _POLICY,
    Api.ALTER_SHARE_GROUP_OFFSETS: _POLICY,
    Api.DELETE_SHARE_GROUP_OFFSETS: _POLICY,
    Api.STREAMS_GROUP_HEARTBEAT: _POLICY,
    Api.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _POLICY,
}
