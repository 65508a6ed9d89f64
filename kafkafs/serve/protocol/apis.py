"""All APIs whose messages are declared."""

from __future__ import annotations

from collections.abc import Mapping

from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.messages import (
    acls,
    authentication,
    cluster,
    configs,
    credentials,
    offsets,
    producers,
    quorum,
    quotas,
    records,
    replicas,
    topics,
    transactions,
)
from kafkafs.serve.protocol.messages.groups import (
    classic_groups,
    consumer_groups,
    group_offsets,
    share_groups,
    share_offsets,
    share_records,
    streams_groups,
)

_MODULES = (
    acls, authentication, cluster, configs, credentials, offsets, producers, quorum, quotas, records, replicas, topics,
    transactions, classic_groups, consumer_groups, group_offsets, share_groups, share_offsets, share_records,
    streams_groups,
)  # fmt: skip

APIS: Mapping[int, Api] = {
    each.key: each for module in _MODULES for each in vars(module).values() if isinstance(each, Api)
}
"""The APIs by their keys; a module of messages adds its own."""
