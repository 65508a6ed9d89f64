"""The answers about groups and to their members, by their APIs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from kafkafs.serve.handlers.groups import (
    commits,
    consumer_descriptions,
    descriptions,
    membership,
    offsets,
)
from kafkafs.serve.handlers.groups.served_groups import ServedGroups
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.request import Fields, Request

GroupAnswer: TypeAlias = Callable[[ServedGroups, Request], Awaitable[Fields]]

GROUP_ANSWERS: Mapping[Api, GroupAnswer] = {
    Api.CONSUMER_GROUP_DESCRIBE: consumer_descriptions.describe_groups,
    Api.CONSUMER_GROUP_HEARTBEAT: membership.consumer_heartbeat,
    Api.DESCRIBE_GROUPS: descriptions.describe_groups,
    Api.HEARTBEAT: membership.heartbeat,
    Api.JOIN_GROUP: membership.join_group,
    Api.LEAVE_GROUP: membership.leave_group,
    Api.LIST_GROUPS: descriptions.list_groups,
    Api.OFFSET_COMMIT: commits.commit,
    Api.OFFSET_FETCH: offsets.fetch,
    Api.SYNC_GROUP: membership.sync_group,
}
