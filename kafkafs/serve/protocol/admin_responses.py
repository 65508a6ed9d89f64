"""The responses of the APIs for groups, configurations and the cluster, from the JSON schemas of Kafka 4.3.1."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)

OFFSET_FETCH_RESPONSE = Message(
    "OffsetFetchResponse",
    (
        Field("throttleTimeMs", INT32, since=3),
        Field(
            "topics",
            Array(
                Struct(
                    "OffsetFetchResponseTopic",
                    (
                        Field("name", STRING, until=7),
                        Field(
                            "partitions",
                            Array(
                                Struct(
                                    "OffsetFetchResponsePartition",
                                    (
                                        Field("partitionIndex", INT32, until=7),
                                        Field("committedOffset", INT64, until=7),
                                        Field(
                                            "committedLeaderEpoch",
                                            INT32,
                                            since=5,
                                            until=7,
                                            default=-1,
                                        ),
                                        Field("metadata", STRING, until=7, nullable=True),
                                        Field("errorCode", INT16, until=7),
                                    ),
                                )
                            ),
                            until=7,
                        ),
                    ),
                )
            ),
            until=7,
        ),
        Field("errorCode", INT16, since=2, until=7),
        Field(
            "groups",
            Array(
                Struct(
                    "OffsetFetchResponseGroup",
                    (
                        Field("groupId", STRING, since=8),
                        Field(
                            "topics",
                            Array(
                                Struct(
                                    "OffsetFetchResponseTopics",
                                    (
                                        Field("name", STRING, since=8, until=9),
                                        Field("topicId", UUID, since=10),
                                        Field(
                                            "partitions",
                                            Array(
                                                Struct(
                                                    "OffsetFetchResponsePartitions",
                                                    (
                                                        Field("partitionIndex", INT32, since=8),
                                                        Field("committedOffset", INT64, since=8),
                                                        Field(
                                                            "committedLeaderEpoch",
                                                            INT32,
                                                            since=8,
                                                            default=-1,
                                                        ),
                                                        Field(
                                                            "metadata",
                                                            STRING,
                                                            since=8,
                                                            nullable=True,
                                                        ),
                                                        Field("errorCode", INT16, since=8),
                                                    ),
                                                )
                                            ),
                                            since=8,
                                        ),
                                    ),
                                )
                            ),
                            since=8,
                        ),
                        Field("errorCode", INT16, since=8),
                    ),
                )
            ),
            since=8,
        ),
    ),
    first_version=1,
    last_version=10,
    flexible_since=6,
)

DESCRIBE_GROUPS_RESPONSE = Message(
    "DescribeGroupsResponse",
    (
        Field("throttleTimeMs", INT32, since=1),
        Field(
            "groups",
            Array(
                Struct(
                    "DescribedGroup",
                    (
                        Field("errorCode", INT16),
                        Field("errorMessage", STRING, since=6, nullable=True, default=None),
                        Field("groupId", STRING),
                        Field("groupState", STRING),
                        Field("protocolType", STRING),
                        Field("protocolData", STRING),
                        Field(
                            "members",
                            Array(
                                Struct(
                                    "DescribedGroupMember",
                                    (
                                        Field("memberId", STRING),
                                        Field(
                                            "groupInstanceId",
                                            STRING,
                                            since=4,
                                            nullable=True,
                                            default=None,
                                        ),
                                        Field("clientId", STRING),
                                        Field("clientHost", STRING),
                                        Field("memberMetadata", BYTES),
                                        Field("memberAssignment", BYTES),
                                    ),
                                )
                            ),
                        ),
                        Field("authorizedOperations", INT32, since=3, default=-2147483648),
                    ),
                )
            ),
        ),
    ),
    first_version=0,
    last_version=6,
    flexible_since=5,
)

LIST_GROUPS_RESPONSE = Message(
    "ListGroupsResponse",
    (
        Field("throttleTimeMs", INT32, since=1),
        Field("errorCode", INT16),
        Field(
            "groups",
            Array(
                Struct(
                    "ListedGroup",
                    (
                        Field("groupId", STRING),
                        Field("protocolType", STRING),
                        Field("groupState", STRING, since=4),
                        Field("groupType", STRING, since=5),
                    ),
                )
            ),
        ),
    ),
    first_version=0,
    last_version=5,
    flexible_since=3,
)

DESCRIBE_CONFIGS_RESPONSE = Message(
    "DescribeConfigsResponse",
    (
        Field("throttleTimeMs", INT32),
        Field(
            "results",
            Array(
                Struct(
                    "DescribeConfigsResult",
                    (
                        Field("errorCode", INT16),
                        Field("errorMessage", STRING, nullable=True),
                        Field("resourceType", INT8),
                        Field("resourceName", STRING),
                        Field(
                            "configs",
                            Array(
                                Struct(
                                    "DescribeConfigsResourceResult",
                                    (
                                        Field("name", STRING),
                                        Field("value", STRING, nullable=True),
                                        Field("readOnly", BOOL),
                                        Field("configSource", INT8, since=1, default=-1),
                                        Field("isSensitive", BOOL),
                                        Field(
                                            "synonyms",
                                            Array(
                                                Struct(
                                                    "DescribeConfigsSynonym",
                                                    (
                                                        Field("name", STRING, since=1),
                                                        Field(
                                                            "value", STRING, since=1, nullable=True
                                                        ),
                                                        Field("source", INT8, since=1),
                                                    ),
                                                )
                                            ),
                                            since=1,
                                        ),
                                        Field("configType", INT8, since=3),
                                        Field("documentation", STRING, since=3, nullable=True),
                                    ),
                                )
                            ),
                        ),
                    ),
                )
            ),
        ),
    ),
    first_version=1,
    last_version=4,
    flexible_since=4,
)

DESCRIBE_CLUSTER_RESPONSE = Message(
    "DescribeClusterResponse",
    (
        Field("throttleTimeMs", INT32),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True, default=None),
        Field("endpointType", INT8, since=1, default=1),
        Field("clusterId", STRING),
        Field("controllerId", INT32, default=-1),
        Field(
            "brokers",
            Array(
                Struct(
                    "DescribeClusterBroker",
                    (
                        Field("brokerId", INT32),
                        Field("host", STRING),
                        Field("port", INT32),
                        Field("rack", STRING, nullable=True, default=None),
                        Field("isFenced", BOOL, since=2),
                    ),
                )
            ),
        ),
        Field("clusterAuthorizedOperations", INT32, default=-2147483648),
    ),
    first_version=0,
    last_version=2,
    flexible_since=0,
)
