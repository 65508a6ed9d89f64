"""The answers about groups and to their members, by their APIs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.handlers.groups import (
    commits,
    consumer_descriptions,
    descriptions,
    membership,
    offsets,
)
from kafkafs.serve.handlers.groups.served_groups import ServedGroups
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.messages.groups.classic_groups import (
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    SYNC_GROUP,
)
from kafkafs.serve.protocol.messages.groups.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
)
from kafkafs.serve.protocol.messages.groups.group_offsets import OFFSET_COMMIT, OFFSET_FETCH

GroupAnswer: TypeAlias = Callable[[ServedGroups, Asked], Awaitable[Fields]]

GROUP_ANSWERS: Mapping[Api, GroupAnswer] = {
    CONSUMER_GROUP_DESCRIBE: consumer_descriptions.describe_groups,
    CONSUMER_GROUP_HEARTBEAT: membership.consumer_heartbeat,
    DESCRIBE_GROUPS: descriptions.describe_groups,
    HEARTBEAT: membership.heartbeat,
    JOIN_GROUP: membership.join_group,
    LEAVE_GROUP: membership.leave_group,
    LIST_GROUPS: descriptions.list_groups,
    OFFSET_COMMIT: commits.commit,
    OFFSET_FETCH: offsets.fetch,
    SYNC_GROUP: membership.sync_group,
}
