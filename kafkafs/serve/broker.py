"""Answers requests: one handler for each API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

import trio

from kafkafs.serve.budgets import ServeBudgets
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.handlers import (
    api_versions,
    configs,
    descriptions,
    leader_epochs,
    list_offsets,
    metadata,
    no_login,
)
from kafkafs.serve.handlers.admin.answers import ADMIN_ANSWERS, answer_or_error
from kafkafs.serve.handlers.fetch import Fetches
from kafkafs.serve.handlers.groups.answers import GROUP_ANSWERS
from kafkafs.serve.handlers.groups.served_groups import ServedGroups
from kafkafs.serve.handlers.producer_ids import new_producer_id, wants_id_alone
from kafkafs.serve.handlers.refusals import REFUSALS
from kafkafs.serve.handlers.refused import HowRefused, refuse
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.rare_lines import RareLines
from kafkafs.serve.records.partition_fetch import FetchRules, PartitionFetch
from kafkafs.serve.request import Fields, Request
from kafkafs.serve.security.audit import Audit

Handler: TypeAlias = Callable[[Request], Awaitable["Fields | None"]]
Answer: TypeAlias = Callable[[ClusterView, Request], "Fields | None"]
LookUp: TypeAlias = Callable[[ClusterView, PartitionFetch, Request], Fields]

AT_ONCE: Mapping[Api, Answer] = {
    Api.FIND_COORDINATOR: metadata.find_coordinator,
    Api.SASL_HANDSHAKE: no_login.sasl_handshake,
    Api.SASL_AUTHENTICATE: no_login.sasl_authenticate,
}
"""Answers that read nothing."""
ASIDE: Mapping[Api, Answer] = {
    Api.METADATA: metadata.metadata,
    Api.DESCRIBE_CLUSTER: descriptions.describe_cluster,
    Api.DESCRIBE_CONFIGS: configs.describe_configs,
    Api.API_VERSIONS: api_versions.api_versions,
}
"""Answers that read the source, in a thread."""
LOOK_UPS: Mapping[Api, LookUp] = {
    Api.LIST_OFFSETS: list_offsets.list_offsets,
    Api.OFFSET_FOR_LEADER_EPOCH: leader_epochs.offset_for_leader_epoch,
}
"""Answers that look up offsets in logs, in a thread."""

_ELEMENTS = 20_000
"""Elements that a request may have in any case; reading and answering them takes some hundredths of a second."""
_ELEMENTS_OF_PARTITION = 4
"""Elements more for each partition of the source."""


class Broker:
    """The handlers of all APIs.

    Args:
        cluster: the source.
        rules: what the operator chose for damage and old formats.
        budgets: limits.
        coordinator: the groups of this server.
        audit: is told what clients are sent; None without.

    Attributes:
        coordinator: the groups of this server.
        fetches: the handler of Fetch, which can also answer in the caller's thread.
    """

    def __init__(
        self,
        cluster: ClusterView,
        rules: FetchRules,
        budgets: ServeBudgets,
        coordinator: Coordinator,
        audit: Audit | None = None,
    ) -> None:
        self._cluster = cluster
        self._most_elements = budgets.request_elements
        self._limiter = trio.CapacityLimiter(budgets.workers)
        self._rare = RareLines()
        self._counted: tuple[object, int] = None, 0
        self.coordinator = coordinator
        partitions = PartitionFetch(cluster, rules)
        self.fetches = fetches = Fetches(cluster, partitions, budgets, self._limiter, audit)
        handlers: dict[int, Handler] = {Api.FETCH: fetches.answer}
        handlers |= {api: self._refusing(api, refusal) for api, refusal in REFUSALS.items()}
        handlers |= {api: self._at_once(answer) for api, answer in AT_ONCE.items()}
        handlers |= {
            api: self._in_thread(partial(answer, cluster)) for api, answer in ASIDE.items()
        }
        handlers |= {
            api: self._in_thread(partial(answer_or_error, api, cluster)) for api in ADMIN_ANSWERS
        }
        handlers |= {
            api: self._in_thread(partial(look_up, cluster, partitions))
            for api, look_up in LOOK_UPS.items()
        }
        groups = ServedGroups(coordinator, cluster, self._limiter)
        handlers |= {api: partial(answer, groups) for api, answer in GROUP_ANSWERS.items()}
        self._handlers = handlers

    def most_elements(self) -> int:
        """Return how many elements a request may have: those of an honest one depend on the partitions there are."""
        topics = self._cluster.topics()
        if self._counted[0] is not topics:
            self._counted = topics, sum(len(topic.logs) for topic in topics.values())
        return min(self._most_elements, _ELEMENTS + _ELEMENTS_OF_PARTITION * self._counted[1])

    def handler(self, api_key: int) -> Handler | None:
        """Return the handler of an API; None for one that the server does not have."""
        return self._handlers.get(api_key)

    def _refusing(self, api: Api, refusal: HowRefused) -> Handler:
        """Return the handler of an API that writes."""

        async def handle(request: Request) -> Fields | None:
            if api is Api.INIT_PRODUCER_ID and wants_id_alone(request):
                return new_producer_id()
            self._rare.warn(
                (request.client_host, request.client_id, api),
                f"{request.client}: {api.title} refused: the server is read-only",
            )
            return refuse(refusal, request)

        return handle

    def _at_once(self, answer: Answer) -> Handler:
        """Return the handler of an answer that reads nothing."""

        async def handle(request: Request) -> Fields | None:
            return answer(self._cluster, request)

        return handle

    def _in_thread(self, answer: Callable[[Request], Fields | None]) -> Handler:
        """Return the handler of an answer that reads the source, in a thread."""

        async def handle(request: Request) -> Fields | None:
            return await trio.to_thread.run_sync(answer, request, limiter=self._limiter)

        return handle
