"""Names of the topics that Kafka writes itself."""

from __future__ import annotations

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
REMOTE_LOG_METADATA: Final = "__remote_log_metadata"

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
"""Topics that clients see as internal. See Topic.INTERNAL_TOPICS in Kafka."""
KAFKA_TOPICS: Final = INTERNAL_TOPICS | {CLUSTER_METADATA, REMOTE_LOG_METADATA}
"""All topics with records that Kafka writes itself."""
