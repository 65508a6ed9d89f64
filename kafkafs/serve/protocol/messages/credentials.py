"""Messages about delegation tokens and SCRAM credentials, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Field,
    Message,
    Struct,
)
from kafkafs.serve.protocol.api import Api

_CREATABLE_RENEWERS = Struct(
    "CreatableRenewers",
    (
        Field("principalType", STRING),
        Field("principalName", STRING),
    ),
)

CREATE_DELEGATION_TOKEN = Api(
    38,
    Message(
        "CreateDelegationTokenRequest",
        (
            Field("ownerPrincipalType", STRING, since=3, nullable=True),
            Field("ownerPrincipalName", STRING, since=3, nullable=True),
            Field("renewers", Array(_CREATABLE_RENEWERS)),
            Field("maxLifetimeMs", INT64),
        ),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
    Message(
        "CreateDelegationTokenResponse",
        (
            Field("errorCode", INT16),
            Field("principalType", STRING),
            Field("principalName", STRING),
            Field("tokenRequesterPrincipalType", STRING, since=3),
            Field("tokenRequesterPrincipalName", STRING, since=3),
            Field("issueTimestampMs", INT64),
            Field("expiryTimestampMs", INT64),
            Field("maxTimestampMs", INT64),
            Field("tokenId", STRING),
            Field("hmac", BYTES),
            Field("throttleTimeMs", INT32),
        ),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
)

RENEW_DELEGATION_TOKEN = Api(
    39,
    Message(
        "RenewDelegationTokenRequest",
        (
            Field("hmac", BYTES),
            Field("renewPeriodMs", INT64),
        ),
        first_version=1,
        last_version=2,
        flexible_since=2,
    ),
    Message(
        "RenewDelegationTokenResponse",
        (
            Field("errorCode", INT16),
            Field("expiryTimestampMs", INT64),
            Field("throttleTimeMs", INT32),
        ),
        first_version=1,
        last_version=2,
        flexible_since=2,
    ),
)

EXPIRE_DELEGATION_TOKEN = Api(
    40,
    Message(
        "ExpireDelegationTokenRequest",
        (
            Field("hmac", BYTES),
            Field("expiryTimePeriodMs", INT64),
        ),
        first_version=1,
        last_version=2,
        flexible_since=2,
    ),
    Message(
        "ExpireDelegationTokenResponse",
        (
            Field("errorCode", INT16),
            Field("expiryTimestampMs", INT64),
            Field("throttleTimeMs", INT32),
        ),
        first_version=1,
        last_version=2,
        flexible_since=2,
    ),
)

_DESCRIBE_DELEGATION_TOKEN_OWNER = Struct(
    "DescribeDelegationTokenOwner",
    (
        Field("principalType", STRING),
        Field("principalName", STRING),
    ),
)

_DESCRIBED_DELEGATION_TOKEN_RENEWER = Struct(
    "DescribedDelegationTokenRenewer",
    (
        Field("principalType", STRING),
        Field("principalName", STRING),
    ),
)

_DESCRIBED_DELEGATION_TOKEN = Struct(
    "DescribedDelegationToken",
    (
        Field("principalType", STRING),
        Field("principalName", STRING),
        Field("tokenRequesterPrincipalType", STRING, since=3),
        Field("tokenRequesterPrincipalName", STRING, since=3),
        Field("issueTimestamp", INT64),
        Field("expiryTimestamp", INT64),
        Field("maxTimestamp", INT64),
        Field("tokenId", STRING),
        Field("hmac", BYTES),
        Field("renewers", Array(_DESCRIBED_DELEGATION_TOKEN_RENEWER)),
    ),
)

DESCRIBE_DELEGATION_TOKEN = Api(
    41,
    Message(
        "DescribeDelegationTokenRequest",
        (Field("owners", Array(_DESCRIBE_DELEGATION_TOKEN_OWNER), nullable=True),),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
    Message(
        "DescribeDelegationTokenResponse",
        (
            Field("errorCode", INT16),
            Field("tokens", Array(_DESCRIBED_DELEGATION_TOKEN)),
            Field("throttleTimeMs", INT32),
        ),
        first_version=1,
        last_version=3,
        flexible_since=2,
    ),
)

_USER_NAME = Struct(
    "UserName",
    (Field("name", STRING),),
)

_CREDENTIAL_INFO = Struct(
    "CredentialInfo",
    (
        Field("mechanism", INT8),
        Field("iterations", INT32),
    ),
)

_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT = Struct(
    "DescribeUserScramCredentialsResult",
    (
        Field("user", STRING),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
        Field("credentialInfos", Array(_CREDENTIAL_INFO)),
    ),
)

DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    50,
    Message(
        "DescribeUserScramCredentialsRequest",
        (Field("users", Array(_USER_NAME), nullable=True),),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "DescribeUserScramCredentialsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
            Field("results", Array(_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)

_SCRAM_CREDENTIAL_DELETION = Struct(
    "ScramCredentialDeletion",
    (
        Field("name", STRING),
        Field("mechanism", INT8),
    ),
)

_SCRAM_CREDENTIAL_UPSERTION = Struct(
    "ScramCredentialUpsertion",
    (
        Field("name", STRING),
        Field("mechanism", INT8),
        Field("iterations", INT32),
        Field("salt", BYTES),
        Field("saltedPassword", BYTES),
    ),
)

_ALTER_USER_SCRAM_CREDENTIALS_RESULT = Struct(
    "AlterUserScramCredentialsResult",
    (
        Field("user", STRING),
        Field("errorCode", INT16),
        Field("errorMessage", STRING, nullable=True),
    ),
)

ALTER_USER_SCRAM_CREDENTIALS = Api(
    51,
    Message(
        "AlterUserScramCredentialsRequest",
        (
            Field("deletions", Array(_SCRAM_CREDENTIAL_DELETION)),
            Field("upsertions", Array(_SCRAM_CREDENTIAL_UPSERTION)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
    Message(
        "AlterUserScramCredentialsResponse",
        (
            Field("throttleTimeMs", INT32),
            Field("results", Array(_ALTER_USER_SCRAM_CREDENTIALS_RESULT)),
        ),
        first_version=0,
        last_version=0,
        flexible_since=0,
    ),
)
