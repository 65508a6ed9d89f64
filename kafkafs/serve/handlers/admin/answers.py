"""The answers to admin tools, by their APIs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from engine.errors import CorruptMessageError, KafkaStorageError
from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.admin import (
    config_resources,
    log_dirs,
    quorum,
    quotas,
    security,
    share_groups,
    topic_partitions,
    transactions,
)
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.messages.acls import DESCRIBE_ACLS
from kafkafs.serve.protocol.messages.cluster import DESCRIBE_TOPIC_PARTITIONS
from kafkafs.serve.protocol.messages.configs import LIST_CONFIG_RESOURCES
from kafkafs.serve.protocol.messages.credentials import (
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
)
from kafkafs.serve.protocol.messages.groups.share_groups import SHARE_GROUP_DESCRIBE
from kafkafs.serve.protocol.messages.groups.share_offsets import DESCRIBE_SHARE_GROUP_OFFSETS
from kafkafs.serve.protocol.messages.groups.streams_groups import STREAMS_GROUP_DESCRIBE
from kafkafs.serve.protocol.messages.producers import DESCRIBE_PRODUCERS
from kafkafs.serve.protocol.messages.quorum import DESCRIBE_QUORUM
from kafkafs.serve.protocol.messages.quotas import (
    DESCRIBE_CLIENT_QUOTAS,
    GET_TELEMETRY_SUBSCRIPTIONS,
)
from kafkafs.serve.protocol.messages.replicas import DESCRIBE_LOG_DIRS, LIST_PARTITION_REASSIGNMENTS
from kafkafs.serve.protocol.messages.transactions import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS

logger = logging.getLogger(__name__)

AdminAnswer: TypeAlias = Callable[[ClusterView, Asked], Fields]

ADMIN_ANSWERS: Mapping[Api, AdminAnswer] = {
    DESCRIBE_ACLS: security.describe_acls,
    DESCRIBE_CLIENT_QUOTAS: quotas.describe_client_quotas,
    DESCRIBE_DELEGATION_TOKEN: security.describe_tokens,
    DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    DESCRIBE_PRODUCERS: transactions.describe_producers,
    DESCRIBE_QUORUM: quorum.describe_quorum,
    DESCRIBE_SHARE_GROUP_OFFSETS: share_groups.describe_share_offsets,
    DESCRIBE_TOPIC_PARTITIONS: topic_partitions.describe_topic_partitions,
    DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
    DESCRIBE_USER_SCRAM_CREDENTIALS: security.describe_scram,
    GET_TELEMETRY_SUBSCRIPTIONS: quotas.telemetry_subscriptions,
    LIST_CONFIG_RESOURCES: config_resources.list_config_resources,
    LIST_PARTITION_REASSIGNMENTS: quorum.list_reassignments,
    LIST_TRANSACTIONS: transactions.list_transactions,
    SHARE_GROUP_DESCRIBE: share_groups.describe_share_groups,
    STREAMS_GROUP_DESCRIBE: share_groups.describe_streams_groups,
}
"""Answers that read the source, in a thread."""


def answer_or_error(api: Api, cluster: ClusterView, asked: Asked) -> Fields:
    """Return the answer of an API, or the error in it if the source cannot be read.

    Raises:
        CorruptMessageError: the request is one at which brokers end the connection.
        KafkaStorageError, OSError: the source cannot be read, and the answer has no place for an error of its own.
    """
    try:
        return ADMIN_ANSWERS[api](cluster, asked)
    except CorruptMessageError:  # the request's
        raise
    except (KafkaStorageError, OSError) as error:
        fields = {field.name for field in api.response.fields if field.is_in(asked.version)}
        if "errorCode" not in fields:
            raise
        logger.warning("%s: %s: %s", asked.client, api.request.name, error)
        return {"errorCode": ErrorCode.UNKNOWN_SERVER_ERROR, "errorMessage": str(error)}
