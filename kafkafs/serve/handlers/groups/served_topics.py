"""The topics of the source for groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.coordinator.topics_now import KnownTopic, TopicsNow

_SECONDS = 1.0
_Found = TypeVar("_Found")


class ServedTopics:
    """Looks topics up, in threads; keeps those of consumer groups until the source has others.

    Args:
        cluster: the source.
        limiter: limits the threads that read.
    """

    def __init__(self, cluster: ClusterView, limiter: trio.CapacityLimiter) -> None:
        self._cluster = cluster
        self._limiter = limiter
        self._seen: object = None
        self._now = TopicsNow({})
        self._until = 0.0
        self._looking = trio.Lock()

    async def look_up(self, find: Callable[[ClusterView], _Found]) -> _Found:
        """Return what a function finds in the source."""
        return await trio.to_thread.run_sync(find, self._cluster, limiter=self._limiter)

    async def now(self) -> TopicsNow:
        """Return the topics, at most a second old: the same object as long as they are the same."""
        async with self._looking:
            if self._seen is None or trio.current_time() >= self._until:
                await trio.to_thread.run_sync(self._look, limiter=self._limiter)
                self._until = trio.current_time() + _SECONDS
            return self._now

    def _look(self) -> None:
        topics = self._cluster.topics()
        if topics is self._seen:
            return
        found = {
            name: KnownTopic(
                self._cluster.topic_id(topic),
                max((*topic.logs, *self._cluster.missing(topic)), default=-1) + 1,
            )
            for name, topic in topics.items()
        }
        self._now, self._seen = TopicsNow(found), topics
