"""Messages of __cluster_metadata: the records of the KRaft controllers, in the order of their types."""

from __future__ import annotations

from engine.topics.message.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Array,
    Field,
    Message,
    Struct,
)

BROKER_ENDPOINT = Struct(
    "BrokerEndpoint",
    (
        Field("name", STRING),
        Field("host", STRING),
        Field("port", UINT16),
        Field("securityProtocol", INT16),
    ),
)

BROKER_FEATURE = Struct(
    "BrokerFeature",
    (
        Field("name", STRING),
        Field("minSupportedVersion", INT16),
        Field("maxSupportedVersion", INT16),
    ),
)

REGISTER_BROKER_RECORD = Message(
    "RegisterBrokerRecord",
    (
        Field("brokerId", INT32),
        Field("isMigratingZkBroker", BOOL, since=2),
        Field("incarnationId", UUID),
        Field("brokerEpoch", INT64),
        Field("endPoints", Array(BROKER_ENDPOINT)),
        Field("features", Array(BROKER_FEATURE)),
        Field("rack", STRING, nullable=True),
        Field("fenced", BOOL, default=True),
        Field("inControlledShutdown", BOOL, since=1),
        Field("logDirs", Array(UUID), since=3, tag=0),
        Field("cordonedLogDirs", Array(UUID), since=4, nullable=True, tag=1, default=None),
    ),
    last_version=4,
    flexible_since=0,
)

UNREGISTER_BROKER_RECORD = Message(
    "UnregisterBrokerRecord",
    (
        Field("brokerId", INT32),
        Field("brokerEpoch", INT64),
    ),
    flexible_since=0,
)

TOPIC_RECORD = Message(
    "TopicRecord",
    (
        Field("name", STRING),
        Field("topicId", UUID),
    ),
    flexible_since=0,
)

PARTITION_RECORD = Message(
    "PartitionRecord",
    (
        Field("partitionId", INT32, default=-1),
        Field("topicId", UUID),
        Field("replicas", Array(INT32)),
        Field("isr", Array(INT32)),
        Field("removingReplicas", Array(INT32)),
        Field("addingReplicas", Array(INT32)),
        Field("leader", INT32, default=-1),
        Field("leaderRecoveryState", INT8, tag=0),
        Field("leaderEpoch", INT32, default=-1),
        Field("partitionEpoch", INT32, default=-1),
        Field("directories", Array(UUID), since=1),
        Field("eligibleLeaderReplicas", Array(INT32), since=2, nullable=True, tag=1, default=None),
        Field("lastKnownElr", Array(INT32), since=2, nullable=True, tag=2, default=None),
    ),
    last_version=2,
    flexible_since=0,
)

CONFIG_RECORD = Message(
    "ConfigRecord",
    (
        Field("resourceType", INT8),
        Field("resourceName", STRING),
        Field("name", STRING),
        Field("value", STRING, nullable=True),
    ),
    flexible_since=0,
)

PARTITION_CHANGE_RECORD = Message(
    "PartitionChangeRecord",
    (
        Field("partitionId", INT32, default=-1),
        Field("topicId", UUID),
        Field("isr", Array(INT32), nullable=True, tag=0, default=None),
        Field("leader", INT32, tag=1, default=-2),
        Field("replicas", Array(INT32), nullable=True, tag=2, default=None),
        Field("removingReplicas", Array(INT32), nullable=True, tag=3, default=None),
        Field("addingReplicas", Array(INT32), nullable=True, tag=4, default=None),
        Field("leaderRecoveryState", INT8, tag=5, default=-1),
        Field("directories", Array(UUID), since=1, nullable=True, tag=8, default=None),
        Field("eligibleLeaderReplicas", Array(INT32), since=2, nullable=True, tag=6, default=None),
        Field("lastKnownElr", Array(INT32), since=2, nullable=True, tag=7, default=None),
    ),
    last_version=2,
    flexible_since=0,
)

ACCESS_CONTROL_RECORD = Message(
    "AccessControlRecord",
    (
        Field("resourceType", INT8),
        Field("resourceName", STRING, nullable=True),
        Field("patternType", INT8),
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permissionType", INT8),
    ),
    flexible_since=0,
)

FENCE_BROKER_RECORD = Message(
    "FenceBrokerRecord",
    (
        Field("id", INT32),
        Field("epoch", INT64),
    ),
    flexible_since=0,
)

UNFENCE_BROKER_RECORD = Message(
    "UnfenceBrokerRecord",
    (
        Field("id", INT32),
        Field("epoch", INT64),
    ),
    flexible_since=0,
)

REMOVE_TOPIC_RECORD = Message(
    "RemoveTopicRecord",
    (Field("topicId", UUID),),
    flexible_since=0,
)

DELEGATION_TOKEN_RECORD = Message(
    "DelegationTokenRecord",
    (
        Field("owner", STRING),
        Field("requester", STRING),
        Field("renewers", Array(STRING)),
        Field("issueTimestamp", INT64),
        Field("maxTimestamp", INT64),
        Field("expirationTimestamp", INT64),
        Field("tokenId", STRING),
    ),
    flexible_since=0,
)

USER_SCRAM_CREDENTIAL_RECORD = Message(
    "UserScramCredentialRecord",
    (
        Field("name", STRING),
        Field("mechanism", INT8),
        Field("salt", BYTES),
        Field("storedKey", BYTES),
        Field("serverKey", BYTES),
        Field("iterations", INT32),
    ),
    flexible_since=0,
)

FEATURE_LEVEL_RECORD = Message(
    "FeatureLevelRecord",
    (
        Field("name", STRING),
        Field("featureLevel", INT16),
    ),
    flexible_since=0,
)

ENTITY_DATA = Struct(
    "EntityData",
    (
        Field("entityType", STRING),
        Field("entityName", STRING, nullable=True),
    ),
)

CLIENT_QUOTA_RECORD = Message(
    "ClientQuotaRecord",
    (
        Field("entity", Array(ENTITY_DATA)),
        Field("key", STRING),
        Field("value", FLOAT64),
        Field("remove", BOOL),
    ),
    flexible_since=0,
)

PRODUCER_IDS_RECORD = Message(
    "ProducerIdsRecord",
    (
        Field("brokerId", INT32),
        Field("brokerEpoch", INT64, default=-1),
        Field("nextProducerId", INT64),
    ),
    flexible_since=0,
)

REMOVE_FEATURE_LEVEL_RECORD = Message(
    "RemoveFeatureLevelRecord",
    (Field("name", STRING),),
    flexible_since=0,
)

BROKER_REGISTRATION_CHANGE_RECORD = Message(
    "BrokerRegistrationChangeRecord",
    (
        Field("brokerId", INT32),
        Field("brokerEpoch", INT64),
        Field("fenced", INT8, tag=0),
        Field("inControlledShutdown", INT8, since=1, tag=1),
        Field("logDirs", Array(UUID), since=2, tag=2),
        Field("cordonedLogDirs", Array(UUID), since=3, nullable=True, tag=3, default=None),
    ),
    last_version=3,
    flexible_since=0,
)

ACCESS_CONTROL_ENTRY_RECORD = Message(
    "AccessControlEntryRecord",
    (
        Field("id", UUID),
        Field("resourceType", INT8),
        Field("resourceName", STRING),
        Field("patternType", INT8),
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permissionType", INT8),
    ),
    flexible_since=0,
)

REMOVE_ACCESS_CONTROL_ENTRY_RECORD = Message(
    "RemoveAccessControlEntryRecord",
    (Field("id", UUID),),
    flexible_since=0,
)

NO_OP_RECORD = Message("NoOpRecord", (), flexible_since=0)

ZK_MIGRATION_STATE_RECORD = Message(
    "ZkMigrationStateRecord",
    (Field("zkMigrationState", INT8),),
    flexible_since=0,
)

REMOVE_USER_SCRAM_CREDENTIAL_RECORD = Message(
    "RemoveUserScramCredentialRecord",
    (
        Field("name", STRING),
        Field("mechanism", INT8),
    ),
    flexible_since=0,
)

BEGIN_TRANSACTION_RECORD = Message(
    "BeginTransactionRecord",
    (Field("name", STRING, nullable=True, tag=0, default=None),),
    flexible_since=0,
)

END_TRANSACTION_RECORD = Message("EndTransactionRecord", (), flexible_since=0)

ABORT_TRANSACTION_RECORD = Message(
    "AbortTransactionRecord",
    (Field("reason", STRING, nullable=True, tag=0, default=None),),
    flexible_since=0,
)

REMOVE_DELEGATION_TOKEN_RECORD = Message(
    "RemoveDelegationTokenRecord",
    (Field("tokenId", STRING),),
    flexible_since=0,
)

CONTROLLER_ENDPOINT = Struct(
    "ControllerEndpoint",
    (
        Field("name", STRING),
        Field("host", STRING),
        Field("port", UINT16),
        Field("securityProtocol", INT16),
    ),
)

CONTROLLER_FEATURE = Struct(
    "ControllerFeature",
    (
        Field("name", STRING),
        Field("minSupportedVersion", INT16),
        Field("maxSupportedVersion", INT16),
    ),
)

REGISTER_CONTROLLER_RECORD = Message(
    "RegisterControllerRecord",
    (
        Field("controllerId", INT32),
        Field("incarnationId", UUID),
        Field("zkMigrationReady", BOOL),
        Field("endPoints", Array(CONTROLLER_ENDPOINT)),
        Field("features", Array(CONTROLLER_FEATURE)),
    ),
    flexible_since=0,
)

CLEAR_ELR_RECORD = Message(
    "ClearElrRecord",
    (Field("topicName", STRING),),
    flexible_since=0,
)

UNREGISTER_CONTROLLER_RECORD = Message(
    "UnregisterControllerRecord",
    (Field("controllerId", INT32),),
    flexible_since=0,
)
