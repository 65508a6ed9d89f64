"""The answers to admin tools, by their APIs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from engine.errors import CorruptMessageError, KafkaStorageError
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
from kafkafs.serve.request import Fields, Request

logger = logging.getLogger(__name__)

AdminAnswer: TypeAlias = Callable[[ClusterView, Request], Fields]

ADMIN_ANSWERS: Mapping[Api, AdminAnswer] = {
    Api.DESCRIBE_ACLS: security.describe_acls,
    Api.DESCRIBE_CLIENT_QUOTAS: quotas.describe_client_quotas,
    Api.DESCRIBE_DELEGATION_TOKEN: security.describe_tokens,
    Api.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    Api.DESCRIBE_PRODUCERS: transactions.describe_producers,
    Api.DESCRIBE_QUORUM: quorum.describe_quorum,
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: share_groups.describe_share_offsets,
    Api.DESCRIBE_TOPIC_PARTITIONS: topic_partitions.describe_topic_partitions,
    Api.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: security.describe_scram,
    Api.GET_TELEMETRY_SUBSCRIPTIONS: quotas.telemetry_subscriptions,
    Api.LIST_CONFIG_RESOURCES: config_resources.list_config_resources,
    Api.LIST_PARTITION_REASSIGNMENTS: quorum.list_reassignments,
    Api.LIST_TRANSACTIONS: transactions.list_transactions,
    Api.SHARE_GROUP_DESCRIBE: share_groups.describe_share_groups,
    Api.STREAMS_GROUP_DESCRIBE: share_groups.describe_streams_groups,
}
"""Answers that read the source, in a thread."""


def answer_or_error(api: Api, cluster: ClusterView, request: Request) -> Fields:
    """Return the answer of an API, or the error in it if the source cannot be read.

    Raises:
        CorruptMessageError: the request is one at which brokers end the connection.
        KafkaStorageError, OSError: the source cannot be read, and the answer has no place for an error of its own.
    """
    try:
        return ADMIN_ANSWERS[api](cluster, request)
    except CorruptMessageError:  # the request's
        raise
    except (KafkaStorageError, OSError) as error:
        fields = {field.name for field in api.response.fields if field.is_in(request.version)}
        if "errorCode" not in fields:
            raise
        logger.warning("%s: %s: %s", request.client, api.request.name, error)
        return {"errorCode": ErrorCode.UNKNOWN_SERVER_ERROR, "errorMessage": str(error)}
