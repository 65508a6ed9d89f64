"""Answers requests: one handler for each API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.budgets import ServeBudgets
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers import (
    descriptions,
    groups,
    leader_epochs,
    list_offsets,
    metadata,
    refused,
)
from kafkafs.serve.handlers.fetch import Fetches
from kafkafs.serve.protocol.codec import API_VERSIONS, APIS
from kafkafs.serve.records.partition_fetch import FetchRules, PartitionFetch

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 0, 1, 2, 3, 10
OFFSET_FETCH, DESCRIBE_GROUPS, LIST_GROUPS = 9, 15, 16
INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CONFIGS = 22, 23, 32
DESCRIBE_CLUSTER = 60

Handler: TypeAlias = Callable[[Asked], Awaitable["Fields | None"]]


class Broker:
    """The handlers of all APIs.

    Args:
        cluster: the source.
        rules: what the operator chose for damage and old formats.
        budgets: limits.
    """

    def __init__(self, cluster: ClusterView, rules: FetchRules, budgets: ServeBudgets) -> None:
        self._limiter = trio.CapacityLimiter(budgets.workers)
        partitions = PartitionFetch(cluster, rules)
        fetches = Fetches(cluster, partitions, budgets, self._limiter)
        self._handlers: dict[int, Handler] = {
            PRODUCE: self._at_once(refused.produce),
            FETCH: fetches.answer,
            LIST_OFFSETS: self._aside(
                lambda asked: list_offsets.list_offsets(cluster, partitions, asked)
            ),
            METADATA: self._aside(lambda asked: metadata.metadata(cluster, asked)),
            FIND_COORDINATOR: self._at_once(
                lambda asked: metadata.find_coordinator(cluster, asked)
            ),
            API_VERSIONS: self._at_once(lambda _: self.api_versions(ErrorCode.NONE)),
            OFFSET_FETCH: self._aside(lambda asked: groups.offset_fetch(cluster, asked)),
            DESCRIBE_GROUPS: self._aside(lambda asked: groups.describe_groups(cluster, asked)),
            LIST_GROUPS: self._aside(lambda asked: groups.list_groups(cluster, asked)),
            OFFSET_FOR_LEADER_EPOCH: self._aside(
                lambda asked: leader_epochs.offset_for_leader_epoch(cluster, partitions, asked)
            ),
            DESCRIBE_CONFIGS: self._aside(
                lambda asked: descriptions.describe_configs(cluster, asked)
            ),
            DESCRIBE_CLUSTER: self._at_once(
                lambda asked: descriptions.describe_cluster(cluster, asked)
            ),
            INIT_PRODUCER_ID: self._at_once(refused.init_producer_id),
        }

    def handler(self, api_key: int) -> Handler | None:
        """Return the handler of an API; None for one that the server does not have."""
        return self._handlers.get(api_key)

    def api_versions(self, error: ErrorCode) -> Fields:
        """Return the answer of ApiVersions: the served APIs with their versions."""
        keys = []
        for key in sorted(self._handlers):
            request = APIS[key].request
            first, last = request.first_version, request.last_version
            keys.append({"apiKey": key, "minVersion": first, "maxVersion": last})
        return {"errorCode": error, "apiKeys": keys}

    @staticmethod
    def _at_once(answer: Callable[[Asked], Fields | None]) -> Handler:
        """Return the handler of an answer that reads nothing."""

        async def handle(asked: Asked) -> Fields | None:
            return answer(asked)

        return handle

    def _aside(self, answer: Callable[[Asked], Fields]) -> Handler:
        """Return the handler of an answer that reads the source, in a thread."""

        async def handle(asked: Asked) -> Fields:
            return await trio.to_thread.run_sync(answer, asked, limiter=self._limiter)

        return handle
