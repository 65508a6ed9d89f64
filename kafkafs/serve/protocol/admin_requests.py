"""The requests of the APIs for groups, configurations and the cluster, from the JSON schemas of Kafka 4.3.1."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    INT8,
    INT32,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)

OFFSET_FETCH_REQUEST = Message(
    "OffsetFetchRequest",
    (
        Field("groupId", STRING, until=7),
        Field(
            "topics",
            Array(
                Struct(
                    "OffsetFetchRequestTopic",
                    (
                        Field("name", STRING, until=7),
                        Field("partitionIndexes", Array(INT32), until=7),
                    ),
                )
            ),
            until=7,
            nullable=True,
        ),
        Field(
            "groups",
            Array(
                Struct(
                    "OffsetFetchRequestGroup",
                    (
                        Field("groupId", STRING, since=8),
                        Field("memberId", STRING, since=9, nullable=True, default=None),
                        Field("memberEpoch", INT32, since=9, default=-1),
                        Field(
                            "topics",
                            Array(
                                Struct(
                                    "OffsetFetchRequestTopics",
                                    (
                                        Field("name", STRING, since=8, until=9),
                                        Field("topicId", UUID, since=10),
                                        Field("partitionIndexes", Array(INT32), since=8),
                                    ),
                                )
                            ),
                            since=8,
                            nullable=True,
                        ),
                    ),
                )
            ),
            since=8,
        ),
        Field("requireStable", BOOL, since=7),
    ),
    first_version=1,
    last_version=10,
    flexible_since=6,
)

DESCRIBE_GROUPS_REQUEST = Message(
    "DescribeGroupsRequest",
    (
        Field("groups", Array(STRING)),
        Field("includeAuthorizedOperations", BOOL, since=3),
    ),
    first_version=0,
    last_version=6,
    flexible_since=5,
)

LIST_GROUPS_REQUEST = Message(
    "ListGroupsRequest",
    (
        Field("statesFilter", Array(STRING), since=4),
        Field("typesFilter", Array(STRING), since=5),
    ),
    first_version=0,
    last_version=5,
    flexible_since=3,
)

DESCRIBE_CONFIGS_REQUEST = Message(
    "DescribeConfigsRequest",
    (
        Field(
            "resources",
            Array(
                Struct(
                    "DescribeConfigsResource",
                    (
                        Field("resourceType", INT8),
                        Field("resourceName", STRING),
                        Field("configurationKeys", Array(STRING), nullable=True),
                    ),
                )
            ),
        ),
        Field("includeSynonyms", BOOL, since=1),
        Field("includeDocumentation", BOOL, since=3),
    ),
    first_version=1,
    last_version=4,
    flexible_since=4,
)

DESCRIBE_CLUSTER_REQUEST = Message(
    "DescribeClusterRequest",
    (
        Field("includeClusterAuthorizedOperations", BOOL),
        Field("endpointType", INT8, since=1, default=1),
        Field("includeFencedBrokers", BOOL, since=2),
    ),
    first_version=0,
    last_version=2,
    flexible_since=0,
)
